"""Writes a first job file for files or a database, after a look at them."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from publisher.config.compose_job_file import (
    NewDatabase,
    NewSink,
    NewSource,
    compose_job_file,
)
from publisher.config.job_file import Overrides, defaults, load_to_publish
from publisher.config.job_schema import job_schema
from publisher.config.settings import Settings
from publisher.console import printable
from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from publisher.database.urls import resolve_path, secrets_of
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.topic_template import SCHEME, KafkaTarget, TopicTemplate
from publisher.errors import PublisherError, TableRefusedError, UsageError
from publisher.formats.files.file_splits import beginning, column_names, every_file, kind_of
from publisher.formats.files.json_lines import first_keys
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.files.recognise import format_of
from publisher.formats.registry import FORMATS
from publisher.reports.changes import inspect
from publisher.reports.classes import ClassDescription, describe_classes, keyed_child_notes
from publisher.resources import resource
from publisher.triggers.model import written_name

URL_VARIABLE = "DATABASE_URL"
"""Environment variable for URLs with secrets, which are not written into a job file."""
_SCHEMA = ".xds-publisher/job.schema.json"
"""JSON Schema beside a job file, for editors."""
_PATIENCE = 3
"""Seconds to wait for brokers."""
_RECOGNISED = ("event-log", "change-table")
"""Formats that their columns show."""
_DESCRIBED = ("linkexpress", "dispatch-queue")
"""Formats whose records only the job file can describe."""
_EXAMINED = 100
"""Maximum number of records that are read to recognise a format."""
_SHOWN = 50
"""Maximum number of classes in the comments of a job file."""


@dataclass(frozen=True, slots=True)
class Input:
    """The words of the command line: files, a database, or both; format and table if they are known."""

    files: tuple[Path, ...] = ()
    database: str | None = None
    schema: str | None = None
    format: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job file to write."""

    path: Path
    source: NewSource
    classes: tuple[ClassDescription, ...]
    url_env: str | None
    """Environment variable that must still be set to the URL of the database."""
    text: str
    """The content of the file, without the line that names the schema."""
    notes: tuple[str, ...] = ()
    """Notes on the classes."""

    def write(self) -> None:
        """Writes the file, and the schema that it names.  Raises ``UsageError`` if it cannot be created."""
        schema = self.path.parent / _SCHEMA
        try:
            schema.parent.mkdir(mode=0o700, exist_ok=True)
            schema.write_text(json.dumps(job_schema(), indent=1, ensure_ascii=False), "utf-8")
            with self.path.open("x", encoding="utf-8") as file:
                file.write(f"#:schema {_SCHEMA}\n{self.text}")
        except OSError as error:
            place = error.filename or self.path
            raise UsageError(f"{place}: {error.strerror}: name another file") from error


def compose_job(path: Path, given: Input, to: str, *, shows_defaults: bool = True) -> NewJob:
    """Looks at the input, and composes a job file that ``check`` accepts.  Writes nothing.

    The file has only what differs from the defaults, or with ``shows_defaults`` every setting.

    Raises:
        UsageError: The file exists already, or the input does not show its format.
        PublisherError: The input cannot be read.
    """
    if path.exists():
        raise UsageError(f"{path} exists already: name another file, or edit this one")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: its directory does not exist: name another file")
    source = _source_of(given, path)
    database = _database_of(given, path)
    sink = _sink_of(to, path)
    example = resource(f"conf/{source.format}.toml").read_text("utf-8")
    compose = partial(compose_job_file, example, source, database, sink, name=path.stem)
    settings = load_to_publish(path, Overrides(database=given.database), text=compose(notes=()))
    classes = tuple(_classes(settings))
    notes = [*_notes(source), *_class_notes(classes)] if shows_defaults else [*_short_notes(source)]
    text = compose(notes=notes, shows_defaults=shows_defaults)
    url_env = None if database is None or _is_set(given) else database.url_env
    return NewJob(path, source, classes, url_env, text, tuple(keyed_child_notes(settings)))


def next_steps(job: NewJob) -> Iterator[str]:
    """Yields lines that say what was found and what to do next."""
    source = job.source
    place = source.table or ", ".join(source.tables or source.snapshots)
    yield f"{job.path}: {source.format} from {place}"
    if job.classes:
        refused = sum(found.problem is not None for found in job.classes)
        others = f"; tables that are none: {refused:,}" if refused else ""
        yield f"classes: {len(job.classes) - refused:,}{others}"
    if job.url_env is not None:
        yield "The URL of the database is not in the file; set it first (the URL that --database was given):"
        yield f"  export {job.url_env}='…'"
    if source.format in _DESCRIBED:
        yield "Its [[sources]] is an example: describe your source and its tables there."
    path = shlex.quote(str(job.path))
    yield "Next:"
    yield f"  xds-publisher check -c {path}"
    yield f"  xds-publisher publish {'--follow ' if source.table else ''}-c {path}"


def _source_of(given: Input, path: Path) -> NewSource:
    if given.format is not None and given.format not in FORMATS:
        raise UsageError(f"--format: should be one of {', '.join(FORMATS)}, not {given.format!r}")
    if given.files:
        format_ = given.format or _format_of_files(given.files)
        return NewSource(format_, tuple(_relative(file, path) for file in given.files))
    if given.database is None:
        raise UsageError("there is nothing to look at: name files, or a database with --database")
    if given.format == "triggerless":
        tables = tuple(_tables_with_key(given))
        if not tables:
            raise UsageError(
                "the database has no table with a primary key: name its schema with --schema"
            )
        return NewSource("triggerless", tables=tables)
    return _logged_source(given)


def _format_of_files(files: Sequence[Path]) -> str:
    """Finds the format whose columns or keys the first file has."""
    first = every_file(files)[0]
    found = None
    if kind_of(first) is not None:
        options = SnapshotOptions()
        if kind_of(first) == "jsonl":
            found = format_of(key for keys in first_keys(beginning(first, options)) for key in keys)
        else:
            found = format_of(column_names(str(first), options))
        if found is None and _has_event_logs(files):
            found = "event-log"
    if found in _RECOGNISED:
        return found
    raise UsageError(
        f"{first} does not show its format: name it with --format (triggerless for whole tables)"
    )


def _has_event_logs(files: Sequence[Path]) -> bool:
    """Returns whether one of the first records is an event, without names of columns."""
    settings = defaults(Overrides(format="event-log")).for_replay("event-log")
    with suppress(PublisherError):  # another format
        first = islice(inspect(settings, files), _EXAMINED)
        return any(json.loads(record).get("outcome") != "rejected" for record in first)
    return False


def _logged_source(given: Input) -> NewSource:
    """Finds the event log or the change table of a database."""
    found = [
        NewSource(format_, table=name)
        for name, format_ in _log_tables(given)
        if given.table in (None, name) and given.format in (None, format_)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(_no_log(given))
    names = ", ".join(f"{source.table} ({source.format})" for source in found)
    raise UsageError(f"the database has several logs, {names}: name one with --table")


def _no_log(given: Input) -> str:
    """Names the tables that could be logged, and the command that creates a log of them."""
    tables = list(_tables_with_key(given))
    advice = "name its schema with --schema; or compare whole tables with --format triggerless"
    if not tables or given.table is not None:
        return f"the database has no such event log or change table: {advice}"
    new = _database_of(given, Path("job.toml"))
    url = f'"${URL_VARIABLE}"' if new is None or new.url is None else shlex.quote(new.url)
    first = "" if (new and new.url) or _is_set(given) else f"export {URL_VARIABLE}='…', then "
    log = (
        ""
        if given.schema is None
        else f" --log-table {shlex.quote(written_name(given.schema, 'event_log'))}"
    )
    options = " ".join(f"--table {shlex.quote(name)}" for name in tables[:_SHOWN])
    return (
        f"the database has no event log or change table, only the tables {', '.join(tables[:_SHOWN])}:"
        f" create a log with {first}xds-publisher ddl --database {url} {options}{log} --apply, then run init"
        f" again; or {advice}"
    )


def _log_tables(given: Input) -> Iterator[tuple[str, str]]:
    with Database(_options_of(given)) as database:
        catalogue = catalogue_of(database)
        for name, _ in catalogue.tables_of(given.schema):
            with suppress(TableRefusedError):  # a table with an unknown type is no log
                table = catalogue.table(given.schema, name)
                format_ = None if table is None else format_of(table.columns)
                if format_ in _RECOGNISED:
                    full = name if given.schema is None else f"{given.schema}.{name}"
                    yield full, format_


def _tables_with_key(given: Input) -> Iterator[str]:
    with Database(_options_of(given)) as database:
        catalogue = catalogue_of(database)
        for name, is_view in catalogue.tables_of(given.schema):
            with suppress(TableRefusedError):
                table = None if is_view else catalogue.table(given.schema, name)
                if table is not None and table.key:
                    yield written_name(given.schema, name)


def _is_set(given: Input) -> bool:
    """Returns whether the environment has the URL of the database already."""
    return os.environ.get(URL_VARIABLE) == given.database


def _options_of(given: Input) -> DatabaseOptions:
    return DatabaseOptions(url=given.database, schema=given.schema)


def _database_of(given: Input, path: Path) -> NewDatabase | None:
    if given.database is None:
        return None
    try:
        has_secrets = bool(secrets_of(make_url(given.database)))
    except ArgumentError:
        raise UsageError(
            "the URL of --database is not one of SQLAlchemy: write it as in conf"
        ) from None
    if has_secrets:
        return NewDatabase(url_env=URL_VARIABLE, schema=given.schema)
    if path.absolute().parent == Path.cwd():
        return NewDatabase(url=given.database, schema=given.schema)
    return NewDatabase(url=resolve_path(given.database, Path.cwd()), schema=given.schema)


def _sink_of(to: str, path: Path) -> NewSink:
    if not to.startswith(SCHEME):
        return NewSink(path=_relative(Path(to), path))
    target = KafkaTarget.parse(to)
    return NewSink(bootstrap=target.bootstrap, topic=target.topic, has_topic=_has_topic(target))


def _has_topic(target: KafkaTarget) -> bool | None:
    """Asks the brokers for a topic; ``None`` if they do not answer soon, or want a login."""
    if TopicTemplate(target.topic).fields:
        return False
    from publisher.dispatch.kafka.client import KafkaClients  # noqa: PLC0415
    from publisher.dispatch.kafka.topic_admin import KafkaTopics  # noqa: PLC0415

    options = KafkaOptions(target.bootstrap, target.topic, timeout=_PATIENCE)
    try:
        return not KafkaTopics.of(KafkaClients(options)).missing([target.topic])
    except PublisherError:
        return None


def _relative(file: Path, job: Path) -> str:
    """Writes a path as the job file's directory sees it; absolute paths stay."""
    return str(file) if file.is_absolute() else os.path.relpath(file, job.parent)


def _classes(settings: Settings) -> Iterator[ClassDescription]:
    """Describes the classes; yields nothing without database and tables."""
    if settings.database is not None or settings.tables:
        yield from describe_classes(settings)


def _notes(source: NewSource) -> Iterator[str]:
    yield f"Job file of the format {source.format}, written by xds-publisher init."
    yield ""
    yield 'Settings behind "# " show their default, or an example if the comment says "no default".'
    yield "Paths are relative to this file.  Options of the command line override this file."


def _short_notes(source: NewSource) -> Iterator[str]:
    yield f"Job file of the format {source.format}.  Paths are relative to this file."
    yield "All other settings have their defaults: xds-publisher init --all shows them."


def _class_notes(classes: Sequence[ClassDescription]) -> Iterator[str]:
    if not classes:
        return
    yield ""
    yield "Classes of the database when this file was written:"
    for found in classes[:_SHOWN]:
        if found.problem is not None:
            yield printable(f"  {found.name}: no class, {found.problem}")
            continue
        attributes = (
            attribute.name
            + (" (several)" if attribute.multiple else "")
            + (f" -> {attribute.target}" if attribute.target else "")
            for attribute in found.attributes
        )
        yield printable(f"  {found.name}: key {'+'.join(found.key)}; {', '.join(attributes)}")
    if len(classes) > _SHOWN:
        yield f"  … and {len(classes) - _SHOWN:,} more: xds-publisher classes shows all"
