"""The contract of source formats: all that the rest of the program calls."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from publisher.database.options import DatabaseOptions
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import Split
from publisher.formats.live.table_split import DatabaseTable, TableSplit
from publisher.formats.migration import Migration
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.formats.task_runner import TaskRunner
from publisher.model.catalogue import Catalogue, Table
from publisher.model.change import Position
from publisher.model.classes import ClassOptions

if TYPE_CHECKING:
    from publisher.database.connection import Database

Payload = TypeVar("Payload")
AnySplit = Split[Any] | TableSplit[Any]

Excludes = Callable[[str | None, str], bool]
"""Called with schema (``None`` if the source names none) and table."""


@dataclass(frozen=True, slots=True)
class Context:
    """The inputs of a reading task besides its split."""

    source: int
    """Number of the source in the job."""
    lanes: int
    catalogue: Catalogue
    excludes: Excludes | None = None
    """Tests whether a table is excluded by its name in the source, before the catalogue is asked."""
    classes: ClassOptions = field(default_factory=ClassOptions)


@dataclass(frozen=True, slots=True)
class CarryOver:
    """State that a source hands from one run of a job to the next, in files of its own."""

    before: Path | None
    """Folder with the state of the last run, read-only; ``None`` if there is none."""
    after: Path
    """Folder for the state of this run, written while it plans; does not exist yet.  If it is not
    created, ``before`` remains valid; if it is empty, there is no state."""
    clock: int = 0
    """The run's now, in microseconds since 1970-01-01 UTC."""
    source: str = ""
    """Name of the source, for messages."""
    accepts_database: bool = False
    """True if the operator accepts another database as the one that earlier runs have read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingContext:
    """The inputs with which a source looks for pending work between two runs of a job."""

    paths: tuple[Path, ...]
    """Files and directories of the job file."""
    new_files: Callable[[], list[Path]]
    """Finds the files that no run has published yet."""
    state: Callable[[], Path | None]
    """Finds the folder with the state of the last run; ``None`` if there is none."""
    clock: int
    """Now, in microseconds since 1970-01-01 UTC."""
    samples: TableQueueOptions
    """Settings for reading samples of LINTER's table queue."""


@dataclass(frozen=True, slots=True)
class SourceInput:
    """The part of its input that a source reads in a run."""

    source: Source
    """The source, with its options limited to this part."""
    paths: tuple[Path, ...]
    """Files to read."""
    reads: bool
    """True if there is anything to read, in these files or elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareContext:
    """The inputs with which a source prepares a run."""

    wanted: int
    """Approximate number of splits."""
    catalogue: Catalogue
    tasks: TaskRunner
    stack: ExitStack
    """Closes the resources that tasks use, such as database snapshots, after the tasks have ended."""
    staged: Path
    """Folder for files of the source, visible to all tasks; does not exist yet.  With a carry-over it
    is ``CarryOver.after``."""
    paths: tuple[Path, ...] = ()
    """Files to read; none for a table of a database."""
    database: DatabaseOptions | None = None
    """Database of the tables that the settings of the source name."""
    carry_over: CarryOver | None = None
    """``None`` for runs without predecessor and successor."""
    number: int = 1
    """Number of the run in its job."""
    reported: frozenset[int] = frozenset()
    """Digests of raw records that earlier runs rejected and whose rows could get no status."""
    sample: int | None = None
    """Maximum rows of a table in a sample; of files, a sample is the first split.  ``None``: all."""

    def limit(self, splits: Sequence[Split[Payload]]) -> list[Split[Payload]]:
        """Returns the splits that the run needs: all, or the first for a sample."""
        return list(splits if self.sample is None else splits[:1])


@dataclass(frozen=True, slots=True)
class PreparedSource:
    """A source whose splits tasks can read."""

    source: Source
    """The source as it goes to tasks, with the results of its preparation."""
    splits: tuple[AnySplit, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes for operators on the preparation; no note rejects a record."""
    refused: tuple[Path, ...] = ()
    """Files that a run of a job leaves out, because they do not fit as a whole."""
    waiting: tuple[Path, ...] = ()
    """Files behind a refused one that a run of a job does not read yet."""

    def read(self, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Reads the split of this number, see ``Source.read``."""
        return self.source.read(self.splits[number], number, ctx)


class RowNow(NamedTuple):
    """A row of a live table as it is now, as JSON text, and its fingerprint, if the format has one.

    Rows that are one record are a list."""

    raw: str
    fingerprint: int | None = None


class Source(ABC):
    """A source of changes: files, or a table of a database, which differ in their splits only.

    Splits are plain values and equal in two calls; reading one twice gives the same records.
    """

    options: Any
    """Settings of the format, a frozen dataclass."""
    table: DatabaseTable | None = None
    """The table to read; ``None``: files."""

    @property
    @abstractmethod
    def format(self) -> str:
        """Name of the format, as in settings and ``--format``."""

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """Lists the files that paths name, in the order of the paths; files of a directory by name.  By
        default files of text and Parquet, whose names show their kind.

        Raises ``UsageError`` if there are none (unless ``may_be_none``), or if the name of a file
        excludes this format.
        """
        return file_splits.files(paths, may_be_none=may_be_none)

    @abstractmethod
    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split[Any]]:
        """Cuts files into at least about ``wanted`` parts for tasks, in the order of the input.

        Raises ``UsageError`` if there is nothing to read, ``FileRefusedError`` if a file as a whole cannot
        be of this format.
        """

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """Prepares the source for a run: surveys the input, continues from the last run, compares tables.
        By default nothing depends on other splits or other runs.

        Writes what the next run needs into ``CarryOver.after``.

        Raises:
            FileRefusedError: A file as a whole does not fit; nothing is written yet.
            FatalError: The input or the state of the last run does not fit.
            UnreachableError: A database does not answer.
        """
        return PreparedSource(
            self, tuple(context.limit(self.splits(context.paths, context.wanted)))
        )

    def pending(self, context: PendingContext) -> SourceInput:
        """Finds the input that the next run of a job reads, by default the new files.

        Raises:
            PublisherError: The files or the state of the last run cannot be read.
        """
        paths = tuple(context.new_files())
        return SourceInput(self, paths, bool(paths))

    def finish(self, state: Path, replaced: Iterable[Path], name: str) -> list[str]:
        """Reduces the replaced states, newest first, after the run that wrote ``state`` has been sent.

        Returns notes for operators, in which ``name`` names the source.  By default does nothing."""
        del state, replaced, name
        return []

    @abstractmethod
    def read(self, split: Any, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Yields batches of ``RECORD_SCHEMA``; the last row is the tally of the split ``number``.

        With ``group_columns``: as if the split were the whole input.
        Raises ``FatalError`` if the file has changed or is damaged.
        """

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Columns of integers of ``decode`` by whose values rows that depend on each other are brought
        together; empty, the default, for formats in which no record depends on another."""
        return ()

    def decode(self, split: Any, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a split for ``relate``, in batches with a schema of the format.

        Records that depend on no other row, such as rejects, are batches of ``RECORD_SCHEMA``, with the
        tally last.  Only for formats with ``group_columns``; otherwise as ``read``."""
        return self.read(split, number, ctx)

    def relate(
        self,
        rows: Sequence[pa.RecordBatch],
        ctx: Context,
    ) -> Iterator[pa.RecordBatch]:
        """Yields the records of decoded rows: whole groups, from any splits, in any order.

        Each row ends in one record, which keeps the number of the split that framed it.  Only for formats
        with ``group_columns``."""
        raise NotImplementedError

    @abstractmethod
    def raw_records(self, split: Split[Any], rows: frozenset[int]) -> dict[int, str]:
        """Reads records of a split of a file again, by their numbers, as JSON text; omits those that do not
        exist."""

    def raw_operations(
        self, splits: Sequence[Split[Any]], number: int, rows: frozenset[int]
    ) -> dict[int, str]:
        """Reads changes with all of their records for ``rejects --retry``, by default as ``raw_records``.

        ``splits`` are all splits of the run, ``number`` is the place of the split with the rows."""
        return self.raw_records(splits[number], rows)

    def fits(self, database: Database) -> None:  # noqa: B027 - an empty default
        """Raises ``FatalError`` if the table lacks columns that the format needs."""

    def rows_at(self, position: Position) -> list[RowNow]:  # noqa: ARG002
        """Reads the rows of the table at a position, whatever their status is, by one statement.

        Raises ``FatalError`` and ``UnreachableError``."""
        return []

    def file_of(self, split: AnySplit) -> str:
        """Returns the path of the file that a split shows to users; empty for a table."""
        return split.path if isinstance(split, Split) else ""

    @abstractmethod
    def position_text(self, position: Position) -> str:
        """Writes a position as users do."""

    @abstractmethod
    def parse_position(self, text: str) -> Position:
        """Parses a position that a user wrote.  Raises ``UsageError``."""

    def is_short(self, text: str) -> bool:  # noqa: ARG002
        """Tests whether a position that a user wrote omits ``high``.  By default, none may."""
        return False

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """Columns of ``RECORD_SCHEMA`` that together name a transaction: some of ``transaction``,
        ``part``, ``high`` and ``low``.  Empty, the default, for formats without transactions.

        A transaction is published as a whole or not at all.  A record whose ``transaction`` is null
        belongs to none.  Without ``transaction`` the columns name one record, which may give several
        changes."""
        return ()

    @property
    def joins_keys(self) -> bool:
        """True if an object may have several keys, which share a lane."""
        return False

    def read_until(
        self,
        split: AnySplit,
        last: int,  # noqa: ARG002
    ) -> AnySplit:
        """Returns a split without rows above ``last``; by default all readings see the same rows."""
        return split

    def tables(self) -> tuple[Table, ...]:
        """Lists the tables that the settings of the source describe, by default none.  Descriptions of
        the job file and of the database override them."""
        return ()

    def stand_alone(self, splits: Sequence[Split[Any]]) -> bool:  # noqa: ARG002
        """Returns whether the records of a file's splits mean something without other files, by default true.

        Otherwise a file whose records were all rejected counts as published: it is not read again by
        itself."""
        return True

    def forget(  # noqa: B027 - an empty default
        self, splits: Sequence[Split[Any]], refused: Sequence[bool], folder: Path
    ) -> None:
        """Removes facts that come only from refused splits from the state of this run in ``folder``.

        The files of these splits remain unpublished and are read again.  By default does nothing, which
        is right for formats whose state has no facts about files that were read to their end."""


class ComparingSource(Source):
    """Optional: a source that compares whole tables with their last known rows (``Format.compares``).

    Its state, not the list of published files, determines which input is pending.  Tables come from
    files, or from the database if there are no files.
    """

    @property
    @abstractmethod
    def earlier_files(self) -> tuple[str, ...]:
        """Files and directories of an earlier snapshot to compare with while no state is known."""

    @property
    @abstractmethod
    def hint_files(self) -> tuple[str, ...]:
        """Files and directories that show which tables may have changed."""

    @abstractmethod
    def table_names(self, paths: Sequence[Path]) -> tuple[str, ...]:
        """Names of the tables in the files, or in the database if there are no files."""

    @abstractmethod
    def only(self, paths: Sequence[Path], tables: Collection[str]) -> SourceInput:
        """Returns the part of the input that belongs to some tables."""

    @abstractmethod
    def with_migration(self, migration: Migration) -> ComparingSource:
        """Returns the source that publishes rows as new instead of differences."""

    @abstractmethod
    def has_migrated(self, state: Path, migration: Migration) -> bool:
        """Tests whether the run that wrote a state was this migration."""

    @abstractmethod
    def count_known_tables(self, state: Path) -> int:
        """Counts the tables of a state."""

    @abstractmethod
    def keep_unpublished(
        self,
        state: Path,
        before: Path | None,
        rejected: Iterable[tuple[AnySplit, frozenset[int]]],
    ) -> None:
        """Adds rejected changes, by the numbers of their records in splits, to the new state in a folder, so
        that the next comparison does not take them for published.

        ``before`` is the folder of the state before.  May be repeated after a crash."""

    @abstractmethod
    def describe_tables(
        self,
        paths: Sequence[Path],
        catalogue: Catalogue,
        database: DatabaseOptions | None,
        state: Path | None,
        name: str,
    ) -> str:
        """Describes the tables to compare, in words, without comparing them.

        ``state`` is the folder with the state of the last run, ``name`` the name of the source.
        Raises ``PublisherError`` if tables, files or the state do not fit."""
