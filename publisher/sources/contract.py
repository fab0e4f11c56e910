"""The contract of source formats: all that the rest of the program calls."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
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
"""Called with schema (``None`` if the source names none) and table."""


@dataclass(frozen=True, slots=True)
class Context:
    """The inputs of a reading task beside its split."""

    source: int
    """Number of the source in the job."""
    lanes: int
    catalogue: Catalogue
    excludes: Excludes | None = None
    """Tests whether a table is excluded by its name in the source, before the catalogue is asked."""


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
    by_rows: bool = False
    """Rows may prove that a table of another database is the one that the last run read."""


class SourceBase(ABC):
    """The part of the contract that sources of files and of tables share."""

    @property
    @abstractmethod
    def format(self) -> str:
        """Name of the format, as in settings and ``--format``."""

    @abstractmethod
    def position_text(self, position: Position) -> str:
        """Writes a position as users do."""

    @abstractmethod
    def parse_position(self, text: str) -> Position:
        """Parses a position that a user wrote.  Raises ``UsageError``."""

    def is_short(self, text: str) -> bool:  # noqa: ARG002
        """Tests whether a position that a user wrote omits ``high``.  By default none does."""
        return False

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """Columns of ``RECORD_SCHEMA`` that together name a transaction: of ``transaction``, ``part``,
        ``high`` and ``low``.  Empty, as by default, where there are no transactions.

        A transaction is published as a whole or not at all.  A record whose ``transaction`` is null
        belongs to none.  Without ``transaction`` the columns name one record, which may give several
        changes."""
        return ()

    def tables(self) -> tuple[Table, ...]:
        """Lists the tables that the settings of the source describe.  Job file and database override
        them.  By default there are none."""
        return ()

    def forget(  # noqa: B027 - an empty default
        self, splits: Sequence[Split], refused: Sequence[bool], folder: Path
    ) -> None:
        """Removes from the state of this run in ``folder`` what only the refused splits said: their
        files stay unpublished and are read again.  By default states hold nothing of files that were
        read to their end."""


class Source(SourceBase):
    """A source of changes read from files.

    Splits are plain values and equal in two calls; reading one twice gives the same records.
    """

    @abstractmethod
    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """Lists the files that paths name: as given, those in directories in name order.

        Raises ``UsageError`` if there are none (unless there may be none yet), or if one cannot be
        of this format by its name.
        """

    @abstractmethod
    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split]:
        """Cuts the input into parts for tasks, about ``wanted`` of them or more, in its order.

        Raises ``UsageError`` if there is nothing to read, ``FatalError`` if a file as a whole cannot
        be of this format.
        """

    @abstractmethod
    def read(self, split: Split, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Yields batches of ``RECORD_SCHEMA``; the last row is the tally of the split ``number``.

        A record fetched from another split, to be read with a record of this one, keeps the number of
        the split that framed it: tallies and outcomes must agree over all splits of a source.  Raises
        ``FatalError`` if the file has changed or is damaged.
        """

    @abstractmethod
    def raw(self, split: Split, row: int) -> str | None:
        """Reads one record of a split again, as JSON text; ``None`` if there is none."""


class LiveSource(SourceBase):
    """A source of changes read from a table of a database."""

    @abstractmethod
    def open_splits(
        self, wanted: int, carry_over: CarryOver | None = None
    ) -> AbstractContextManager[tuple[TableSplit, ...]]:
        """Opens at most ``wanted`` splits that all see the table as it is now, while the context is open.

        A source with marks opens only newer rows.  Raises ``FatalError`` if the table does not fit,
        ``UnreachableError``.
        """

    @abstractmethod
    def fits(self, database: Database) -> None:
        """Raises ``FatalError`` if the table lacks columns that the format needs."""

    @abstractmethod
    def read(self, split: TableSplit, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""


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
    """Optional: implemented by sources that need the catalogue to make their splits."""

    def with_catalogue(self, catalogue: Catalogue) -> Self:
        """Returns the source with this catalogue."""


def with_catalogue(source: Reader, catalogue: Catalogue) -> Reader:
    """Returns the source with the catalogue, if it needs one."""
    return source.with_catalogue(catalogue) if isinstance(source, AsksCatalogue) else source


@runtime_checkable
class RemembersRejects(Protocol):
    """Optional: implemented by live sources that read rejected rows again, since no status marks them."""

    def with_known_rejects(self, digests: frozenset[int]) -> LiveSource:
        """Returns the source that ignores rejected rows with these digests of their raw records."""


@runtime_checkable
class Surveyed(Protocol):
    """Optional: implemented by sources whose records depend on each other across the whole input.

    Each split is surveyed first; ``with_survey`` then makes the source that can read.
    """

    @property
    def notes(self) -> tuple[str, ...]:
        """Results of the survey for operators that reject no record."""

    def survey(self, split: Split, ctx: Context) -> pa.RecordBatch:
        """Collects the facts of a split that matter to others: a few, never its records.

        Raises ``FatalError`` if the file has changed or is damaged.
        """

    def with_survey(self, facts: Iterable[pa.RecordBatch]) -> Source:
        """Returns the source that knows the facts of all splits, given in their order; it goes to tasks."""

    def leave(self, splits: Sequence[Split], folder: Path) -> None:
        """Writes the state for the next run into ``CarryOver.after``, while this run plans."""


@runtime_checkable
class CarriesOver(Protocol):
    """Optional: implemented by sources that continue with the state of the last run."""

    def splits_after(
        self, paths: Sequence[str | os.PathLike[str]], wanted: int, carry_over: CarryOver
    ) -> list[Split]:
        """As ``Source.splits``; splits may be files of ``carry_over.before``, and new state goes to
        ``carry_over.after``."""
