"""What every source format offers, so that nothing else need know which one it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar, runtime_checkable

import pyarrow as pa

from publisher.database import Database
from publisher.model.catalogue import Catalogue, Table
from publisher.model.change import Position
from publisher.sources.files.file_splits import Split
from publisher.sources.live.table_reader import TableSplit

Reader = TypeVar("Reader")

Excludes = Callable[[str | None, str], bool]
"""Asked with schema (``None`` where the source names none) and table."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a reading task is told beside its split."""

    source: int
    """Number of the source in the job."""
    lanes: int
    catalogue: Catalogue
    excludes: Excludes | None = None
    """Tells whether a table is excluded by its name in the source; asked before the catalogue."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a source keeps from one run of a job to the next, as files of its own making."""

    before: Path | None
    """Folder of what the last run left, to be read only; ``None`` where none left anything."""
    after: Path
    """Folder to write what this run leaves into, while it plans; does not exist yet.  Where nobody
    makes it, ``before`` stays; where it is empty, nothing is kept."""
    clock: int = 0
    """The run's now, in microseconds since 1970-01-01 UTC."""
    source: str = ""
    """Name of the source, for messages."""
    by_rows: bool = False
    """Whether rows may prove a table of another database to be the one that the last run has read."""


class Source(Protocol):
    """A source of changes read from files.

    Splits are plain values and the same over two calls; reading one twice gives the same records.
    """

    @property
    def format(self) -> str:
        """Name of the format, as in settings and ``--format``."""

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """The files that paths name: as given, those in directories in name order.

        Raises ``UsageError`` where there are none (unless there may be none yet), or one cannot be
        of this format by its name."""

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split]:
        """The parts that tasks read, about ``wanted`` of them or more, in the order of the input.

        Raises ``UsageError`` where there is nothing to read, ``FatalError`` where a file as a whole
        cannot be what the format asks for.
        """

    def read(self, split: Split, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Batches of ``RECORD_SCHEMA``; the last row of the last is the tally of the split, whose
        number is ``number``.  A record that was fetched from another split of the source, to be read
        with one of this, keeps the number of the split that framed it: tallies and outcomes have to
        agree over all splits of a source.  Raises ``FatalError`` where the file has changed or is
        damaged."""

    def position_text(self, position: Position) -> str:
        """A position as users write it."""

    def parse_position(self, text: str) -> Position:
        """The position that a user wrote.  Raises ``UsageError``."""

    def raw(self, split: Split, row: int) -> str | None:
        """One record of a split as JSON text, read again; ``None`` where there is none."""


@runtime_checkable
class ShortPositions(Protocol):
    """What a source is besides where users know its records by ``low`` alone."""

    def is_short(self, text: str) -> bool:
        """Whether a position that a user wrote says nothing of ``high``."""


class LiveSource(Protocol):
    """A source of changes read from a table of a database."""

    @property
    def format(self) -> str:
        """As ``Source.format``."""

    def opened(
        self, wanted: int, kept: Kept | None = None
    ) -> AbstractContextManager[tuple[TableSplit, ...]]:
        """At most ``wanted`` splits that all see the table as it is now, while the context is open;
        of a source that keeps marks what is newer than those.

        Raises ``FatalError`` where the table does not fit, ``UnreachableError``.
        """

    def fits(self, database: Database) -> None:
        """Raises ``FatalError`` where the table has not the columns that the format asks for."""

    def read(self, split: TableSplit, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""

    def position_text(self, position: Position) -> str:
        """As ``Source.position_text``."""

    def parse_position(self, text: str) -> Position:
        """As ``Source.parse_position``."""


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """Rows of a table that a run starting now would read."""

    rows: int
    oldest: float | None
    """Age in seconds of the oldest, 0 for one in the future; ``None`` where no row waits or none has
    a time."""


class TableBacklog(Protocol):
    """Counts the rows of a table that wait to be read, by one connection for all counts."""

    def count(self, state: Path | None) -> WaitingRows:
        """Counts the rows that wait behind the state that the last run left.

        Raises:
            FatalError: The table does not fit, the state is damaged, or the database refuses.
            UnreachableError: The database does not answer.
        """

    def count_by_status(self) -> dict[str, int]:
        """Counts all rows by their status; empty for tables whose rows have none.

        Raises:
            FatalError: The table does not fit, or the database refuses.
            UnreachableError: The database does not answer.
        """

    def close(self) -> None:
        """Gives the connection back; a later use makes a new one."""


@runtime_checkable
class AsksCatalogue(Protocol):
    """Optional: implemented by sources that ask what is known of tables to make their splits."""

    def with_catalogue(self, catalogue: Catalogue) -> Self:
        """The source that asks this catalogue."""


def informed(source: Reader, catalogue: Catalogue) -> Reader:
    """The source with the catalogue, if it asks one."""
    return source.with_catalogue(catalogue) if isinstance(source, AsksCatalogue) else source


@runtime_checkable
class RemembersRejects(Protocol):
    """Optional: implemented by live sources that read rejected rows again, as nothing can mark them."""

    def with_reported(self, digests: frozenset[int]) -> LiveSource:
        """The source that ignores the rejected rows with these digests of their raw records."""


@runtime_checkable
class DescribesTables(Protocol):
    """What a source is besides where its own settings say which columns tables have."""

    def tables(self) -> tuple[Table, ...]:
        """The tables.  Job file and database know better, where they say anything."""


@runtime_checkable
class Surveyed(Protocol):
    """What a source is besides where its records depend on each other across its whole input.

    It is read after a survey: what all of its splits say, ``resolved``, makes a source that can read."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the survey found that operators should know and no record is rejected for."""

    def survey(self, split: Split, ctx: Context) -> pa.RecordBatch:
        """What a split says that matters to others: a few facts, never its records.

        Raises ``FatalError`` where the file has changed or is damaged."""

    def resolved(self, facts: Iterable[pa.RecordBatch]) -> Source:
        """The source that knows what the facts of all splits, in their order, mean; goes to tasks."""


@runtime_checkable
class HasTransactions(Protocol):
    """Optional: implemented by sources whose records belong to transactions that are published as a
    whole or not at all, or of which one record gives several changes."""

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """Columns of ``RECORD_SCHEMA`` that together name a transaction: of ``transaction``, ``part``,
        ``high`` and ``low``.  Empty where the settings say that there are none; a record whose
        ``transaction`` is null belongs to none.  Without ``transaction`` they name one record."""


@runtime_checkable
class LeavesState(Protocol):
    """What a surveyed source is besides where what it found is to be known to the next run."""

    def leave(self, splits: Sequence[Split], folder: Path) -> None:
        """Writes it into the folder (``Kept.after``); called after the survey, while the run plans."""


@runtime_checkable
class ForgetsFiles(Protocol):
    """Optional: implemented by sources that ignore what an earlier run has read to its end."""

    def forget(self, splits: Sequence[Split], refused: Sequence[bool], folder: Path) -> None:
        """Removes from the state of this run in ``folder`` what only the refused splits said: their files
        stay unpublished and are read again."""


@runtime_checkable
class KeepsState(Protocol):
    """What a source is besides where a run goes on with what the one before it has left."""

    def continued(
        self, paths: Sequence[str | os.PathLike[str]], wanted: int, kept: Kept
    ) -> list[Split]:
        """As ``Source.splits``; the splits may lie in ``kept.before``, what is to be kept is written to
        ``kept.after``."""
