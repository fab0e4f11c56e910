"""Tasks that a source requests while it prepares a run; an engine or this process runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from publisher.model.catalogue import Catalogue

Item = TypeVar("Item")
Findings = TypeVar("Findings")


class ShuffleWork(Protocol):
    """Work in two steps: parts are read, then all pieces of a partition are processed together.

    A plain value that is shipped to tasks.
    """

    @property
    def parts(self) -> int:
        """Number of parts to read."""

    @property
    def partitions(self) -> int:
        """Number of partitions; one may have no pieces."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of pieces; the column ``partition`` has the number of their partition."""

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yields the pieces of a part."""

    def process(self, partition: int, pieces: Iterable[pa.RecordBatch], attempt: str) -> str:
        """Processes the pieces of a partition, which are in any order.

        ``attempt`` distinguishes the files of repeated tasks.  Returns a short result."""


class TaskRunner(Protocol):
    """Runs functions over the input of a source: in tasks of an engine, or in this process."""

    def survey(
        self, survey: Callable[[Item, Catalogue], Findings], items: Sequence[Item]
    ) -> list[Findings]:
        """Calls the function with each item in a task of its own; items and results can be pickled.

        Returns the results in the order of the items.  A result has a few facts, never records."""

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """Returns the results of all partitions, in any order."""
