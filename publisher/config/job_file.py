"""Reads a job file (TOML) into ``Settings``; all its problems are reported at once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeVar

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.activity.options import ActivityOptions
from publisher.config.client_options import read_client_options
from publisher.config.publish_problems import publish_problems
from publisher.config.schedule import FollowOptions
from publisher.config.settings import (
    JobOptions,
    LedgerOptions,
    RunOptions,
    Settings,
    SinkOptions,
    SourceOptions,
)
from publisher.config.source_sections import Overrides, SourceSections, path_in, with_url
from publisher.config.toml_sections import Problems, Section, flatten, report_unknown_key
from publisher.config.validation import option_names, required_names
from publisher.database.options import DatabaseOptions
from publisher.dispatch.kafka.options import KafkaOptions, option_conflicts, secrets
from publisher.engine.spark.options import SparkOptions, secrets_of
from publisher.errors import SettingKey, SettingProblem, SettingsError, UsageError
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.registry import FORMATS
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.masking.options import MaskingOptions
from publisher.model.catalogue import DeclaredTable, Table
from publisher.model.classes import ClassOptions
from publisher.observing.options import MetricsOptions
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.redaction import remember
from publisher.xds.document import DocumentOptions, Envelope, EnvelopeOptions
from publisher.xds.values import ValueOptions, ValueProblem

__all__ = ["SECTIONS", "Overrides", "defaults", "load", "load_to_publish", "load_to_read"]

T = TypeVar("T")

SECTIONS: Mapping[str, tuple[type, ...]] = {
    "job": (JobOptions,),
    "sources": (SourceOptions, EventLogOptions, SnapshotOptions, FilterOptions, PollOptions),
    "database": (DatabaseOptions,),
    "tables": (DeclaredTable,),
    "classes": (ClassOptions,),
    "documents": (DocumentOptions, EnvelopeOptions, ValueOptions),
    "dispatch": (SinkOptions, KafkaOptions),
    "ledger": (LedgerOptions,),
    "acknowledge": (AcknowledgeOptions,),
    "follow": (FollowOptions,),
    "metrics": (MetricsOptions,),
    "masking": (MaskingOptions,),
    "table_queue": (TableQueueOptions,),
    "activity": (ActivityOptions,),
    "run": (RunOptions,),
    "spark": (SparkOptions,),
}
"""Options classes by table of a job file; for ``sources``, the classes of the default format, event log."""


def load(path: Path, overrides: Overrides | None = None) -> Settings:
    """Reads the settings of a job file.

    Raises:
        SettingsError: All problems of the file.
        UsageError: The file cannot be read.
    """
    return _job_reader(path, overrides).settings(path.absolute().stem)


def load_to_publish(
    path: Path,
    overrides: Overrides | None = None,
    *,
    follows: bool = False,
    text: str | None = None,
) -> Settings:
    """Reads the settings of a job file for ``publish``, with ``--follow`` or without.

    ``text`` is the content of a file that is not written yet.  Raises the errors of ``load``, also if a
    setting is missing that ``publish`` needs.  If the file has any problem, the error also lists those that a
    start with the corrected file would find: missing inputs, and settings that librdkafka refuses.
    """
    reader = _job_reader(path, overrides, text)
    return reader.settings_to_publish(path.absolute().stem, follows=follows)


def load_to_read(
    job: Path | Mapping[str, object], options: Mapping[str, object], overrides: Overrides
) -> Settings:
    """Returns the settings of a program that reads one source, which ``overrides.format`` selects.

    ``job`` is a job file, or its content; ``options`` override settings of the source.

    Raises:
        SettingsError: All problems of the settings.
        UsageError: The file cannot be read, or the choice of the source is ambiguous.
    """
    if isinstance(job, Path):
        reader, name = _job_reader(job, overrides), job.absolute().stem
    else:
        content = deepcopy(dict(job))  # its tables are changed below
        reader, name = _JobReader(content, Problems(), Path.cwd(), overrides), "replay"
    reader.change_source(options)
    return reader.settings(name).for_replay(overrides.format)


def _job_reader(path: Path, overrides: Overrides | None, text: str | None = None) -> _JobReader:
    try:
        text = path.read_text("utf-8") if text is None else text
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a job file with -c") from None
    except UnicodeDecodeError:
        problem = SettingProblem((), f"{path}: is not UTF-8; save it as UTF-8")
        raise SettingsError([problem]) from None
    try:
        data = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([SettingProblem((), f"{path}: {error}")]) from None
    return _JobReader(data, Problems(text), path.absolute().parent, overrides)


def defaults(overrides: Overrides | None = None) -> Settings:
    """The settings without a job file: one source with its defaults.

    Raises ``UsageError`` if the format has settings without default.
    """
    format_ = overrides.format if overrides else None
    if format_ is not None and format_ in FORMATS:
        required = ", ".join(required_names(FORMATS[format_].options))
        if required:
            raise UsageError(
                f"{format_} needs a job file that describes the source: write {required} into its "
                "[source], and name the file with -c (conf/ has examples)"
            )
    problems = Problems()
    problems.from_option(("source", "format"), "--format")
    source = {"format": overrides.format} if overrides and overrides.format else {}
    return _JobReader({"source": source}, problems, Path.cwd(), overrides).settings("replay")


class _JobReader:
    """Builds settings from the data of a job file."""

    def __init__(
        self,
        data: dict[str, object],
        problems: Problems,
        directory: Path,
        overrides: Overrides | None,
    ) -> None:
        self._data = data
        self._problems = problems
        self._directory = directory
        self._overrides = overrides or Overrides()

    def settings(self, name: str) -> Settings:
        """Builds the settings.  Raises ``SettingsError`` with all problems."""
        settings = self._read(name)
        if self._problems:
            raise SettingsError(self._problems.in_order())
        return settings

    def change_source(self, options: Mapping[str, object]) -> None:
        """Overrides settings of the source of the wanted format, or of the only source."""
        wanted = self._overrides.format
        entries = self._data.get("sources")
        if not isinstance(entries, list):
            if wanted is not None and "source" not in self._data:
                options = {"format": wanted, **options}
            self._change(("source",), self._data.setdefault("source", {}), options)
            return
        for place, entry in enumerate(entries):
            if isinstance(entry, dict) and wanted in (None, entry.get("format", "event-log")):
                self._change(("sources", place), entry, options)

    def _change(self, place: SettingKey, source: object, options: Mapping[str, object]) -> None:
        if isinstance(source, dict):
            source |= options
            for name in options:
                self._problems.from_option((*place, name), name)

    def settings_to_publish(self, name: str, *, follows: bool) -> Settings:
        """Builds the settings for ``publish``.  Raises ``SettingsError`` with all problems."""
        settings = self._read(name)
        for problem in publish_problems(settings, follows=follows):
            if not any(self._problems.concern(self._in_file(cause)) for cause in problem.causes):
                self._problems.add(self._in_file(problem.key), problem.text)
        if self._problems:
            self._look_ahead(settings)
            raise SettingsError(self._problems.in_order())
        return settings

    def _in_file(self, key: SettingKey) -> SettingKey:
        """Path of a setting in this file, which may have ``[source]`` instead of ``[[sources]]``."""
        if key[0] != "sources" or len(key) == 1:
            return key
        return (*self._sources.places[int(key[1])], *key[2:])

    def _look_ahead(self, settings: Settings) -> None:
        """Adds the problems that a start with these settings would find."""
        for number, source in enumerate(settings.sources):
            section = self._sources.places[number]
            for path in source.snapshots:
                if not path.exists():
                    self._problems.add(
                        (*section, "snapshots"),
                        f"{path} does not exist; mount or create it, or fix the path",
                    )
        if settings.sink.to == "kafka" and settings.kafka.brokers:
            # the client is slow to load
            from publisher.dispatch.kafka.client import KafkaClients  # noqa: PLC0415

            for name, problem in KafkaClients(settings.kafka).refused_settings():
                self._problems.add(("dispatch", "kafka", *([name] if name else [])), problem)

    def _read(self, name: str) -> Settings:
        for key in self._data:
            if key not in SECTIONS and key != "source":
                report_unknown_key((key,), SECTIONS, self._problems)
        job = self._whole("job", JobOptions)
        database = self._database()
        self._sources = SourceSections(
            self._data, self._problems, self._directory, self._overrides, database
        )
        documents = self._section("documents")
        dispatch = self._section("dispatch")
        ledger = self._whole("ledger", LedgerOptions)
        settings = Settings(
            name=job.name or name,
            directory=self._directory,
            reject_budget=job.reject_budget,
            sources=self._sources.sources(),
            database=database,
            tables=self._tables(),
            classes=self._classes(),
            values=documents.options(ValueOptions),
            envelope=self._envelope(documents),
            documents=documents.options(DocumentOptions),
            sink=self._sink(dispatch),
            kafka=self._kafka(dispatch),
            ledgers=self._ledger(ledger),
            retention=ledger,
            acknowledge=self._whole("acknowledge", AcknowledgeOptions),
            follow=self._whole("follow", FollowOptions),
            metrics=self._metrics(),
            masking=self._masking(),
            table_queue=self._whole("table_queue", TableQueueOptions),
            activity=self._whole("activity", ActivityOptions),
            run=self._run(),
            spark=self._spark(),
        )
        documents.finish()
        dispatch.finish()
        return settings

    def _section(self, name: str) -> Section:
        return Section((name,), self._data.get(name, {}), self._problems)

    def _whole(self, name: str, kind: type[T], **overrides: object) -> T:
        """Reads a table of the job file that has a single options class."""
        section = self._section(name)
        section.override(**overrides)
        options = section.options(kind)
        section.finish()
        return options

    def _path(self, path: str | Path) -> Path:
        return path_in(self._directory, path)

    def _sink(self, section: Section) -> SinkOptions:
        options = section.options(SinkOptions)
        return replace(options, path=self._path_or_none(options.path))

    def _kafka(self, section: Section) -> KafkaOptions:
        """Resolves all values, because tasks may run without the environment variables and files."""
        place = (*section.place, "kafka")
        client = Section(place, section.data.get("kafka", {}), self._problems)
        section.data["kafka"] = settings = read_client_options(client, self._directory)
        remember(secrets(settings))
        options = section.options(KafkaOptions)
        for name, problem in option_conflicts(replace(options, kafka=settings)):
            client.problem(name, problem)
        return options

    def _ledger(self, options: LedgerOptions) -> Path:
        if self._overrides.ledger is not None:
            return self._overrides.ledger.absolute()
        return self._path(options.path)

    def _metrics(self) -> MetricsOptions:
        options = self._whole("metrics", MetricsOptions)
        return replace(options, textfile=self._path_or_none(options.textfile))

    def _masking(self) -> MaskingOptions | None:
        if "masking" not in self._data:
            return None
        section = self._section("masking")
        options = section.options(MaskingOptions)
        section.finish()
        if not (options.hash or options.redact or options.shorten):
            section.problem("hash", 'names no column; name some, as in hash = ["*.email"]')
        return replace(options, key_file=self._path_or_none(options.key_file))

    def _path_or_none(self, path: Path | None) -> Path | None:
        return None if path is None else self._path(path)

    def _run(self) -> RunOptions:
        lanes, engine = self._overrides.lanes, self._overrides.engine
        return self._whole("run", RunOptions, lanes=lanes, engine=engine)

    def _envelope(self, section: Section) -> EnvelopeOptions:
        options = section.options(EnvelopeOptions)
        for name in option_names(EnvelopeOptions):
            try:
                Envelope(replace(EnvelopeOptions(), **{name: getattr(options, name)}))
            except ValueProblem:
                section.problem(name, "has a character that XML 1.0 forbids; remove it")
        return options

    def _database(self) -> DatabaseOptions | None:
        url = self._overrides.database
        if "database" not in self._data and url is None:
            return None
        section = self._section("database")
        section.override(url=url, schema=self._overrides.schema)
        options = section.entry(DatabaseOptions)
        section.finish()
        if options is None:
            return None
        directory = self._directory if url is None else Path.cwd()
        return with_url(section, options, directory)

    def _tables(self) -> tuple[Table, ...]:
        tables: dict[tuple[str | None, str], Table] = {}
        parents: dict[tuple[str | None, str], str] = {}
        for name, entry in self._section("tables").data.items():
            section = Section(("tables", name), entry, self._problems)
            section.data = {"name": name, "schema": None, **section.data}
            declared = section.entry(DeclaredTable)
            section.finish()
            if declared is None:
                continue
            table = Table(
                **{field.name: getattr(declared, field.name) for field in fields(declared)}
            )
            if (table.schema, table.name) in tables:
                section.problem("name", f"{table.name} is described twice; keep one description")
            if table.view and table.children:
                section.problem("children", "a view has no child tables; remove one of both")
            for child in table.children:
                parent = parents.setdefault((table.schema, child.casefold()), table.name)
                if parent != table.name:
                    text = f"{child} is a child table of {parent}, too; keep one parent"
                    section.problem("children", text)
            tables[table.schema, table.name] = table
        return tuple(tables.values())

    def _classes(self) -> ClassOptions:
        section = self._section("classes")
        options = section.options(ClassOptions)
        section.finish()
        if (options.sync_filter == "list") != bool(options.sync_tables):
            section.problem("sync_tables", 'belongs to sync_filter = "list": set both or neither')
        return options

    def _spark(self) -> SparkOptions:
        section = self._section("spark")
        conf: dict[str, object] = {}
        for key in [key for key in section.data if key == "spark" or key.startswith("spark.")]:
            conf |= flatten(key, section.data.pop(key))
        if "conf" in section.data:
            section.problem(
                "conf", 'write Spark\'s settings by their own names: "spark.driver.memory" = "4g"'
            )
        if str(conf.get("spark.speculation")).lower() == "true":
            section.problem(
                "spark.speculation", "two copies of a task would repeat its work; leave it out"
            )
        section.data["conf"] = conf
        options = section.options(SparkOptions)
        remember(secrets_of(options))
        section.finish()
        return options
