"""Reads a job file (TOML) into ``Settings``; all its problems are reported at once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.activity.options import ActivityOptions
from publisher.catalogue import Table
from publisher.database import DatabaseOptions, urls
from publisher.dispatch.kafka_options import KafkaOptions, option_conflicts
from publisher.errors import SettingsError, UsageError
from publisher.filters import FilterOptions, SelectionOptions
from publisher.given import given_settings
from publisher.observing.options import MetricsOptions
from publisher.polls import PollOptions
from publisher.schedule import FollowOptions
from publisher.sections import Problems, Section, flat, required_names, unknown
from publisher.settings import (
    JobOptions,
    JournalOptions,
    RunOptions,
    Settings,
    SinkOptions,
    SourceOptions,
    SourceSettings,
)
from publisher.sources.change_table.options import Options as ChangeTableOptions
from publisher.sources.dispatch_queue.attributes import with_attributes
from publisher.sources.dispatch_queue.options import Options as QueueOptions
from publisher.sources.event_log import Options as EventLogOptions
from publisher.sources.live import FROM_TABLES
from publisher.sources.registry import (
    IN_POLLS,
    NAME_USERS,
    OPTIONS,
    READ_AS_SNAPSHOTS,
    SourceFormat,
    SourceFormatOptions,
)
from publisher.sources.snapshot_options import SnapshotOptions
from publisher.sources.table_queue.options import TableQueueOptions
from publisher.sources.triggerless.options import Options as TriggerlessOptions
from publisher.spark.options import SparkOptions
from publisher.xds.document import DocumentOptions, Envelope, EnvelopeOptions
from publisher.xds.times import time_zone
from publisher.xds.values import ValueOptions, ValueProblem

T = TypeVar("T")

SECTIONS: Mapping[str, tuple[type, ...]] = {
    "job": (JobOptions,),
    "sources": (SourceOptions, EventLogOptions, SnapshotOptions, FilterOptions, PollOptions),
    "database": (DatabaseOptions,),
    "tables": (Table,),
    "documents": (DocumentOptions, EnvelopeOptions, ValueOptions),
    "dispatch": (SinkOptions, KafkaOptions),
    "journal": (JournalOptions,),
    "acknowledge": (AcknowledgeOptions,),
    "follow": (FollowOptions,),
    "metrics": (MetricsOptions,),
    "table_queue": (TableQueueOptions,),
    "activity": (ActivityOptions,),
    "run": (RunOptions,),
    "spark": (SparkOptions,),
}
"""The tables of a job file, and the options that each is made of; ``sources`` as those of an event
log."""


def source_parts(format_: SourceFormat) -> tuple[type, ...]:
    """The options that a source of a format is made of."""
    own: list[type] = [SourceOptions, OPTIONS[format_]]
    if format_ in READ_AS_SNAPSHOTS:
        own.append(SnapshotOptions)
    own.append(FilterOptions if format_ in NAME_USERS else SelectionOptions)
    return (*own, PollOptions) if format_ in IN_POLLS else tuple(own)


def _filters(section: Section, format_: SourceFormat) -> FilterOptions:
    """The filters of a source; formats whose records name no user refuse what asks for one."""
    if format_ in NAME_USERS:
        return section.options(FilterOptions)
    for name in ("driver_user", "allow_loopback"):
        section.refuse(
            name,
            f"records of the format {format_} name no user, so loopback cannot be recognized; leave it"
            " out",
        )
    return FilterOptions(**asdict(section.options(SelectionOptions)))


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says; ``None`` where it says nothing.  It wins over the job file."""

    database: str | None = None
    schema: str | None = None
    format: str | None = None
    status: str | None = None
    lanes: int | None = None
    journal: Path | None = None


def load(path: Path, overrides: Overrides | None = None) -> Settings:
    """The settings of a job file.

    Raises ``SettingsError`` with all problems of the file, ``UsageError`` where it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a job file with -c") from None
    except UnicodeDecodeError:
        raise SettingsError([f"{path}: is not UTF-8; save it as UTF-8"]) from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{path}: {error}"]) from None
    file = path.absolute()
    return _Reader(data, Problems(text), file.parent, overrides).settings(file.stem)


def defaults(overrides: Overrides | None = None) -> Settings:
    """The settings without a job file: one source with its defaults.

    Raises ``UsageError`` where the format has settings that must be given.
    """
    for format_, kind in OPTIONS.items():
        required = ", ".join(required_names(kind))
        if overrides and overrides.format == format_ and required:
            raise UsageError(
                f"{format_} needs a job file that describes the source: write {required} into its "
                "[source], and name the file with -c (conf/ has examples)"
            )
    problems = Problems()
    problems.rename(("source", "format"), "--format")
    source = {"format": overrides.format} if overrides and overrides.format else {}
    return _Reader({"source": source}, problems, Path.cwd(), overrides).settings("replay")


class _Reader:
    """Makes settings of the data of a job file."""

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
        for key in self._data:
            if key not in SECTIONS and key != "source":
                unknown((key,), SECTIONS, self._problems)
        job = self._whole("job", JobOptions)
        database = self._database()
        documents = self._section("documents")
        dispatch = self._section("dispatch")
        journal = self._whole("journal", JournalOptions)
        settings = Settings(
            name=job.name or name,
            directory=self._directory,
            reject_budget=job.reject_budget,
            sources=self._sources(database),
            database=database,
            tables=self._tables(),
            values=documents.options(ValueOptions),
            envelope=self._envelope(documents),
            documents=documents.options(DocumentOptions),
            sink=self._sink(dispatch),
            kafka=self._kafka(dispatch),
            journal=self._journal(journal),
            retention=journal,
            acknowledge=self._whole("acknowledge", AcknowledgeOptions),
            follow=self._whole("follow", FollowOptions),
            metrics=self._metrics(),
            table_queue=self._whole("table_queue", TableQueueOptions),
            activity=self._whole("activity", ActivityOptions),
            run=self._whole("run", RunOptions, lanes=self._overrides.lanes),
            spark=self._spark(),
        )
        documents.finish()
        dispatch.finish()
        if self._problems:
            raise SettingsError(self._problems.lines)
        return settings

    def _section(self, name: str) -> Section:
        return Section((name,), self._data.get(name, {}), self._problems)

    def _whole(self, name: str, kind: type[T], **spoken: object) -> T:
        """The options of a table that has only one part."""
        section = self._section(name)
        self._override(section, **spoken)
        options = section.options(kind)
        section.finish()
        return options

    def _override(self, section: Section, **spoken: object) -> None:
        for key, value in spoken.items():
            if value is not None:
                section.data[key] = value
                name = "database" if (section.place, key) == (("database",), "url") else key
                self._problems.rename((*section.place, key), f"--{name}")

    def _path(self, path: str | Path) -> Path:
        return self._directory / Path(path).expanduser()

    def _sink(self, section: Section) -> SinkOptions:
        options = section.options(SinkOptions)
        return replace(options, path=self._path(options.path)) if options.path else options

    def _kafka(self, section: Section) -> KafkaOptions:
        """With all values in full: tasks may run where a variable or a file is not there."""
        place = (*section.place, "kafka")
        own = Section(place, section.data.get("kafka", {}), self._problems)
        section.data["kafka"] = settings = given_settings(own, self._directory)
        options = section.options(KafkaOptions)
        for name, problem in option_conflicts(replace(options, kafka=settings)):
            own.problem(name, problem)
        return options

    def _journal(self, options: JournalOptions) -> Path:
        if self._overrides.journal is not None:
            return self._overrides.journal.absolute()
        return self._path(options.path)

    def _metrics(self) -> MetricsOptions:
        options = self._whole("metrics", MetricsOptions)
        if options.textfile is None:
            return options
        return replace(options, textfile=self._path(options.textfile))

    def _envelope(self, section: Section) -> EnvelopeOptions:
        options = section.options(EnvelopeOptions)
        try:
            Envelope(options)
        except ValueProblem as problem:
            self._problems.add(section.place, problem.detail)
        return options

    def _database(self) -> DatabaseOptions | None:
        spoken = self._overrides.database
        if "database" not in self._data and spoken is None:
            return None
        section = self._section("database")
        self._override(section, url=spoken, schema=self._overrides.schema)
        options = section.entry(DatabaseOptions)
        section.finish()
        if options is None:
            return None
        directory = self._directory if spoken is None else Path.cwd()
        return self._with_url(section, options, directory)

    def _with_url(
        self, section: Section, options: DatabaseOptions, directory: Path
    ) -> DatabaseOptions | None:
        """With the URL in full: tasks may run where the variable is not set, in another directory."""
        key = "url_env" if options.url is None and options.url_env is not None else "url"
        try:
            url = urls.complete(urls.anchored(options.url, directory), options.url_env)
        except SettingsError as error:
            self._problems.add((*section.place, key), error.problems[0].partition(": ")[2])
            return None
        return replace(options, url=url.render_as_string(hide_password=False), url_env=None)

    def _sources(self, database: DatabaseOptions | None) -> tuple[SourceSettings, ...]:
        if "source" in self._data and "sources" in self._data:
            self._problems.add(("source",), "is there beside [[sources]]; keep one of the two")
        if isinstance(self._data.get("source"), list):
            self._problems.add(("source",), "is written [[source]]; write [[sources]], or [source]")
            return ()
        if "sources" not in self._data:
            section = Section(("source",), self._data.get("source", {}), self._problems)
            return (self._source(section, database),)
        listed = self._data["sources"]
        if not isinstance(listed, list):
            self._problems.add(("sources",), "is one table; write [[sources]], or [source]")
            return ()
        sections = [Section(("sources", i), e, self._problems) for i, e in enumerate(listed)]
        sources = [self._source(section, database) for section in sections]
        names = [source.name for source in sources]
        for section, name in zip(sections, names, strict=True):
            if names.count(name) > 1:
                section.problem("name", f"{name} is the name of several sources; give each its own")
        return tuple(sources)

    def _source(self, section: Section, database: DatabaseOptions | None) -> SourceSettings:
        said = self._overrides
        self._override(section, schema=said.schema, status=said.status)
        given = section.options(SourceOptions)
        parts = source_parts(given.format)
        options: SourceFormatOptions | None = section.entry(OPTIONS[given.format])
        source = SourceSettings(
            name=given.name or given.format,
            format=given.format,
            snapshots=tuple(self._path(path) for path in given.snapshots),
            table=given.table,
            copies=given.copies,
            database=self._own_database(section, given, database),
            options=self._anchored_options(options or EventLogOptions()),  # a problem is noted
            reading=section.options(SnapshotOptions)
            if SnapshotOptions in parts
            else SnapshotOptions(),
            filters=_filters(section, given.format),
            polls=section.options(PollOptions) if PollOptions in parts else None,
        )
        source = self._with_attributes(section, source)
        section.finish()
        self._check(section, source)
        return source

    def _with_attributes(self, section: Section, source: SourceSettings) -> SourceSettings:
        """With what the file says that a queue's settings name."""
        if not isinstance(source.options, QueueOptions):
            return source
        try:
            options = with_attributes(source.options, self._directory, source.reading)
        except ValueError as error:
            name, _, problem = str(error).partition(": ")
            section.problem(name, problem)
            return source
        return replace(source, options=options)

    def _anchored_options(self, options: SourceFormatOptions) -> SourceFormatOptions:
        """With paths that are relative to the file."""
        if isinstance(options, TriggerlessOptions):
            before, samples = (
                tuple(str(self._path(path)) for path in paths)
                for paths in (options.before, options.samples)
            )
            return replace(options, before=before, samples=samples)
        return options

    def _own_database(
        self, section: Section, given: SourceOptions, database: DatabaseOptions | None
    ) -> DatabaseOptions | None:
        if given.url is None and given.url_env is None:
            return database
        options = replace(database or DatabaseOptions(), url=given.url, url_env=given.url_env)
        return self._with_url(section, options, self._directory)

    def _check(self, section: Section, source: SourceSettings) -> None:
        if source.table is not None and source.snapshots:
            section.problem("table", "is there beside snapshots; a source is one of the two")
        if source.table is not None and source.compared is not None:
            section.problem("table", 'several may be compared; write tables = ["NAME"]')
        elif source.table is not None and source.format not in FROM_TABLES:
            section.problem("table", f"{source.format} is read from files; set snapshots")
        options, is_table = source.options, source.table is not None
        if isinstance(options, ChangeTableOptions) and is_table and options.layout != "rows":
            section.problem("layout", "messages are read from files; set snapshots, or rows")
        if not isinstance(source.options, EventLogOptions):
            return
        try:
            source.options.wanted()
        except UsageError as error:
            section.problem("columns", error.message.removeprefix("columns: "))
        try:
            time_zone(source.options.time_zone)
        except ValueError as error:
            section.problem("time_zone", str(error))

    def _tables(self) -> tuple[Table, ...]:
        found: dict[tuple[str | None, str], Table] = {}
        for name, entry in self._section("tables").data.items():
            section = Section(("tables", name), entry, self._problems)
            section.data = {"name": name, "schema": None, **section.data}
            table = section.entry(Table)
            section.finish()
            if table is None:
                continue
            if (table.schema, table.name) in found:
                section.problem("name", f"{table.name} is described twice; keep one")
            found[table.schema, table.name] = table
        return tuple(found.values())

    def _spark(self) -> SparkOptions:
        section = self._section("spark")
        conf: dict[str, object] = {}
        for key in [key for key in section.data if key == "spark" or key.startswith("spark.")]:
            conf |= flat(key, section.data.pop(key))
        if "conf" in section.data:
            section.problem(
                "conf", 'write Spark\'s settings by their own names: "spark.driver.memory" = "4g"'
            )
        section.data["conf"] = conf
        options = section.options(SparkOptions)
        section.finish()
        return options
