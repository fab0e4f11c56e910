"""The contract of engines: five verbs that move rows between tasks, and one that sends.

A chain of them is a run: ``read`` splits, ``exchange`` rows so that those that belong together share a
partition, ``apply`` a task to each partition, and ``gather`` what the driver must know.  Nothing is read
before ``gather`` or ``collect``.  Tasks are plain functions with plain arguments; an engine knows nothing of
what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from publisher.console import Progress
    from publisher.model.engine_use import EngineUse

EngineName = Literal["auto", "spark", "local"]
Batches: TypeAlias = "Iterator[pa.RecordBatch]"
Apply: TypeAlias = "Callable[[int, Batches], Iterable[pa.RecordBatch]]"
"""A task of ``apply``: called with the number of a partition and its rows, gives other rows."""
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class InputSize:
    """The size of the input of a run, as far as it is known before anything is read."""

    rows: int = 0
    """Rows of tables that are to be read."""
    bytes: int = 0
    """Approximate bytes of files after decompression, and of the state that earlier runs left."""

    def exceeds(self, limit: InputSize) -> bool:
        """Returns whether the rows or the bytes are above those of a limit."""
        return self.rows > limit.rows or self.bytes > limit.bytes

    def __str__(self) -> str:
        rows = [f"{self.rows:,} rows of tables"] if self.rows else []
        files = [f"{self.bytes / 1e6:,.2f} MB of files"] if self.bytes or not rows else []
        return " and ".join([*rows, *files])


@dataclass(frozen=True, slots=True)
class Packing:
    """How rows travel between tasks: many in one binary value, because single rows cost far more."""

    schema: pa.Schema
    """Columns of packed rows; one is the number of the partition, ``data`` the only large one."""
    column: str
    """Name of the column with the number of the partition."""
    order: tuple[str, ...] = ()
    """Columns by which the packed rows of a partition are sorted before they are unpacked, nulls first."""
    pack: Callable[[Iterable[pa.RecordBatch]], Batches] = iter
    unpack: Callable[[Iterable[pa.RecordBatch]], Batches] = iter
    divide: Callable[[pa.RecordBatch], Iterator[tuple[int, pa.RecordBatch]]] | None = None
    """Divides rows that need not travel into partitions, each in the order of ``unpack``; ``None``: rows
    are always packed."""


class Rows(Protocol):
    """Rows on their way, in numbered partitions: at first the splits, after an exchange those it makes."""

    def exchange(self, packing: Packing, partitions: int, folder: Path | None = None) -> Self:
        """Moves rows to their partitions; the local engine writes many of them to files in ``folder``."""

    def apply(self, task: Apply) -> Self:
        """Replaces the rows of each partition by those that a task makes of them."""

    def gather(
        self, task: Callable[[int, Batches], Result], progress: Progress | None = None
    ) -> list[Result]:
        """Calls a task once for each partition, also for one without rows.

        Returns the results in the order of partitions: small facts, or few rows, never rows in bulk."""

    def collect(self) -> list[pa.RecordBatch]:
        """Returns all rows, in the order of partitions; for few rows."""


class Engine(Protocol):
    """Runs tasks, and raises their errors; a context manager that ends its processes."""

    @property
    def use(self) -> EngineUse:
        """The engine that works on the run announced by ``expect``."""

    @property
    def seconds(self) -> float:
        """Seconds spent on starting so far."""

    @property
    def repeats_tasks(self) -> bool:
        """True if a task may run several times, and on other machines: its files need names of their own, and
        must be durable when it ends."""

    def __enter__(self) -> Self:
        """Returns the engine; starts nothing."""

    def __exit__(self, *exc: object) -> None:
        """Ends the processes of the engine."""

    def expect(self, measure: Callable[[], InputSize]) -> None:
        """Announces a run.  ``measure`` returns the size of its input, and may query a database."""

    def rest(self) -> None:
        """Ends processes that no run has used for a while; called between runs."""

    def read(
        self,
        splits: Sequence[Item],
        decode: Callable[[Item], Iterable[pa.RecordBatch]],
        name: str,
    ) -> Rows:
        """Reads each split in a task of its own; ``name`` tells whoever watches the engine what it does."""

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        name: str,
        *,
        rows: int = 0,
        progress: Progress | None = None,
    ) -> list[Result]:
        """Calls a task for each item; returns the results in the order of the items.

        ``rows`` is the number of rows of all items, if they are more than the input of the run."""


def list_rows(_: int, rows: Batches) -> list[pa.RecordBatch]:
    """The task that ``collect`` gathers."""
    return list(rows)
