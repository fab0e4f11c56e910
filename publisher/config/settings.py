"""All settings of a run as typed, frozen objects; the command line overrides the job file.

Each part of the program declares its own options; this module combines them.  Paths in a job file are
relative to its directory, paths of the command line to the working directory; here all are absolute,
because executors run in other directories.
"""

# ruff: noqa: PLC0415 - a start that finds nothing to publish reads and plans nothing

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from annotated_types import Ge, Le, Len

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.activity.options import ActivityOptions
from publisher.config.meaning import meaning_of, plain_value
from publisher.config.publish_problems import NOT_MASKED, publish_problems
from publisher.config.schedule import FollowOptions
from publisher.config.validation import Choices
from publisher.database import urls
from publisher.database.options import DatabaseOptions
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.engine.contract import EngineName
from publisher.engine.spark.options import SparkOptions
from publisher.errors import InternalError, SettingProblem, SettingsError, UsageError
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.live.table_split import DatabaseTable
from publisher.formats.registry import FORMATS
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.masking.masker import Masking
from publisher.masking.options import MaskingOptions
from publisher.model.catalogue import JobCatalogue, Table
from publisher.model.classes import ClassOptions
from publisher.observing.options import MetricsOptions
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions, text_of

if TYPE_CHECKING:
    from publisher.database.resources import Rules
    from publisher.formats.contract import ComparingSource, Source, SourceInput
    from publisher.formats.format import Format, FormatOptions, LiveFormat
    from publisher.formats.waiting_rows import TableBacklog
    from publisher.model.change import Position


@dataclass(frozen=True, slots=True)
class JobOptions:
    """``[job]``."""

    name: Annotated[str, Len(1)] | None = None
    """Name of the job, which names its runs and ledger; by default the name of the job file
    without its ending."""
    reject_budget: Annotated[int, Ge(0)] | Literal["unlimited"] | None = None
    """Maximum number of rejected records. A run with more is complete, but ends with exit code 4. By
    default 0 for ``publish`` and ``"unlimited"`` for ``replay``."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """``[[sources]]``: options of every format."""

    name: Annotated[str, Len(1)] | None = None
    """Name of the source in documents and decisions; by default the name of its format. A renamed
    source starts again without the state of earlier runs."""
    format: Annotated[str, Choices(FORMATS)] = "event-log"
    """Format of the source's records."""
    snapshots: tuple[Annotated[str, Len(1)], ...] = ()
    """Files and directories to read."""
    copies: Literal["refuse", "publish"] = "refuse"
    """Handling of a file whose content was already published under another name: refuse it, or
    publish it again because equal files are separate changes (differences A, B, A)."""
    table: Annotated[str, Len(1)] | None = None
    """Table of a database to read instead of files, as ``table`` or ``schema.table``."""
    url: str | None = field(default=None, repr=False)
    """SQLAlchemy URL of the database that holds ``table``; by default the URL of ``[database]``.
    The URL is never printed."""
    url_env: str | None = None
    """Name of an environment variable that holds this URL."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """``[dispatch]``."""

    to: Literal["files", "kafka"] = "files"
    """Kind of the sink."""
    path: Path | None = None
    """Directory of the documents; ``publish`` writes each run into a directory below ``runs/``."""


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """``[ledger]``."""

    path: Path = Path(".xds-publisher")
    """Directory of the ledgers of all jobs."""
    retention_days: Annotated[float, Ge(0)] = 7.0
    """Days for which finished runs are kept."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """``[run]``."""

    lanes: Annotated[int, Ge(1), Le(10_000)] | None = None
    """Number of lanes, the units of order and parallelism; each writes one part file. If it is not set: 8,
    and 1 for a ``replay`` to files of at most 32 MB (gzip counts 10 times its size, Parquet 6 times)."""
    engine: EngineName = "auto"
    """Engine that runs the tasks: ``"spark"``; ``"local"``, processes of this machine without Spark; or
    ``"auto"``, which chooses ``local`` if the input is known to be small, no Spark master is set and
    ``spark-submit`` did not start the program. All engines give the same documents."""

    @property
    def lane_count(self) -> int:
        """The number of lanes; 8 if it is not set."""
        return self.lanes or 8


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Settings of one source."""

    name: str
    format: str
    snapshots: tuple[Path, ...]
    table: str | None
    database: DatabaseOptions | None
    """Database of ``table``: the source's own, else that of the job."""
    options: FormatOptions
    reading: SnapshotOptions
    filters: FilterOptions
    polls: PollOptions | None
    """``None`` for formats without polls: each of their changes is an operation by itself."""
    copies: Literal["refuse", "publish"] = "refuse"
    """See ``SourceOptions``."""
    run_input: SourceInput | None = None
    """The part of the input that one run reads; ``None``: all of it."""
    reason: str | None = None
    """The reason why its changes are published, if they are no changes of the source, for consumers."""

    @property
    def descriptor(self) -> Format:
        """The descriptor of its format."""
        return FORMATS[self.format]

    def with_input(self, run_input: SourceInput) -> SourceSettings:
        """Returns the settings of a run that reads only a part of the input."""
        options = run_input.source.options
        return replace(self, snapshots=run_input.paths, options=options, run_input=run_input)

    @property
    def comparison(self) -> ComparingSource | None:
        """The reader of a source that compares tables; ``None`` for others."""
        return cast("ComparingSource", self.reader) if self.descriptor.compares else None

    @property
    def compares_database(self) -> bool:
        """True if the source compares tables of a database."""
        return self.descriptor.compares and not self.snapshots

    @property
    def reads(self) -> bool:
        """True if the source has anything to read."""
        if self.run_input is not None:
            return self.run_input.reads
        comparison = self.comparison
        named = comparison is not None and bool(comparison.table_names(()))
        return bool(self.snapshots) or self.table is not None or named

    @property
    def reader(self) -> Source:
        """The reader of its files or its table."""
        if self.run_input is not None:
            return self.run_input.source
        if self.table is None:
            return self.descriptor.source(self.options, self.reading)
        live, database, table = self._live_parts()
        return live.source(self.options, DatabaseTable(database, table, text_of))

    def backlog(self) -> TableBacklog:
        """Creates the counter of the rows of its table that wait to be read.

        Raises ``SettingsError`` where the database's URL cannot be used."""
        live, database, table = self._live_parts()
        return live.backlog(self.options, database, table)

    def _live_parts(self) -> tuple[LiveFormat, DatabaseOptions, str]:
        live = self.descriptor.live
        if live is None or self.database is None or self.table is None:
            raise InternalError(f"source {self.name} is not a table of a database: report this")
        return live, self.database, self.table

    @property
    def record_id(self) -> Callable[[Position], str] | None:
        """Writes a record's position as its id; ``None`` where ids differ from run to run."""
        if self.descriptor.compares:
            return None
        return self.reader.position_text

    @property
    def has_status(self) -> bool:
        """True for a table whose rows have a status."""
        return self.table is not None and self.descriptor.has_status

    @property
    def event_log(self) -> EventLogOptions:
        """The options of a source that is known to be an event log."""
        if not isinstance(self.options, EventLogOptions):
            raise InternalError(f"source {self.name} is not an event log: report this")
        return self.options


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a run, complete and checked."""

    name: str
    directory: Path
    """Directory of the job file; without one, the working directory."""
    reject_budget: int | Literal["unlimited"] | None
    sources: tuple[SourceSettings, ...]
    database: DatabaseOptions | None
    """Database for look-ups; without one, query-backs are rejected."""
    tables: tuple[Table, ...]
    classes: ClassOptions
    values: ValueOptions
    envelope: EnvelopeOptions
    documents: DocumentOptions
    sink: SinkOptions
    """Sink of ``publish``."""
    kafka: KafkaOptions
    """Options of every Kafka sink."""
    ledgers: Path
    """Directory of the ledgers of all jobs."""
    retention: LedgerOptions
    """Retention of finished runs."""
    acknowledge: AcknowledgeOptions
    follow: FollowOptions
    metrics: MetricsOptions
    masking: MaskingOptions | None
    """``None`` without ``[masking]``."""
    table_queue: TableQueueOptions
    """Options to read samples of the table queue."""
    activity: ActivityOptions
    run: RunOptions
    spark: SparkOptions
    is_masked: bool = False
    """True for a masked replay or inspection."""

    @property
    def ledger_folder(self) -> Path:
        """Directory of the ledger of this job."""
        return (self.ledgers / self.name).absolute()

    @property
    def rules(self) -> Rules:
        """The settings that tasks need to plan changes."""
        from publisher.database.resources import Rules

        return Rules(
            self.documents,
            self.envelope,
            self.values,
            self.tables,
            self.database,
            self.classes,
            masking=self.masking_of_run,
        )

    @property
    def masking_of_run(self) -> Masking | None:
        """The masking of a run with these settings; ``None`` if it masks nothing.

        Raises ``UsageError`` if the key cannot be read."""
        return Masking.of(self.masking) if self.masking and self.is_masked else None

    def with_masking(self, *, is_masked: bool) -> Settings:
        """These settings for a replay or an inspection.

        Raises ``UsageError`` if it is to be masked without ``[masking]``, or is not, though ``[masking]``
        does not say that values may be shown."""
        if is_masked and self.masking is None:
            raise UsageError(
                "the job file does not say what to mask: add [masking] with the columns and the key"
            )
        if not is_masked and self.masking is not None and self.masking.runs is None:
            raise UsageError(f"[masking] runs: {NOT_MASKED}")
        return replace(self, is_masked=is_masked)

    def allowed_rejects(self, default: int | None) -> int | None:
        """Maximum number of rejected records, ``None`` without limit; ``default`` if not set."""
        if self.reject_budget is None:
            return default
        return None if self.reject_budget == "unlimited" else self.reject_budget

    def catalogue(self) -> JobCatalogue:
        """The tables of the job file as catalogue."""
        return JobCatalogue(self.tables)

    def for_replay(self, format_: str | None = None) -> Settings:
        """These settings with one source, which reads files: that of ``format_`` or the only one.

        Raises ``UsageError`` if the choice is ambiguous.
        """
        candidates = [source for source in self.sources if format_ in (None, source.format)]
        if len(candidates) == 1:
            return replace(self, sources=(replace(candidates[0], table=None),))
        if not candidates:
            wanted = f" of format {format_}" if format_ else ""
            raise UsageError(f"the job file has no source{wanted}; add one, or leave -c out")
        names = ", ".join(f"{source.name} ({source.format})" for source in candidates)
        raise UsageError(
            f"the job file has several sources: {names}. This command reads one: choose it with "
            "--format, or name a job file that has only this source"
        )

    def for_publish(self, *, follows: bool = False) -> Settings:
        """Returns these settings.  Raises ``SettingsError`` if ``publish`` needs others."""
        problems = list(publish_problems(self, follows=follows))
        if problems:
            raise SettingsError([SettingProblem(key, text) for key, text, _ in problems])
        return self

    def digest_of(self, source: SourceSettings) -> str:
        """Digest of all settings that influence the documents and decisions of a source."""
        meaning = replace(self, sources=(source,)).meaning()
        return hashlib.sha256(meaning.encode()).hexdigest()

    def meaning(self) -> str:
        """All settings that change documents or decisions, as canonical JSON.

        Excludes lanes, paths, Spark, budget, secrets, and settings that only change the speed.
        """
        sources = [
            {"name": source.name, "format": source.format}
            | meaning_of(source.options, source.reading, source.filters)
            | (meaning_of(source.polls) if source.polls is not None else {})
            for source in self.sources
        ]
        content: dict[str, object] = {
            "sources": sources,
            "database": database_identity(self.database),
            "tables": [meaning_of(table) for table in self.tables],
            "documents": meaning_of(self.values, self.envelope, self.documents, self.classes),
        }
        masking = self.masking_of_run
        if masking is not None:
            options = replace(masking.options, key_env=MaskingOptions().key_env, key_file=None)
            content["masking"] = meaning_of(options) | {"key_id": masking.key_id}
        return json.dumps(
            content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=plain_value
        )


def database_identity(options: DatabaseOptions | None) -> dict[str, str | None] | None:
    """The database without user and password, and its default schema."""
    if options is None:
        return None
    url = urls.complete(options.url, options.url_env)
    return {"database": urls.describe(url), "schema": options.schema}
