"""What samples hint at: tables that had changes not yet flushed.

A hint only brings a comparison forward.  A change that was flushed between two sweeps leaves no mark in
any sample, so that a table without a hint may have changed all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from publisher.sources.table_queue.calls import SYSTEM_ELEMENTS
from publisher.sources.table_queue.options import TableQueueOptions
from publisher.sources.table_queue.reading import read_samples, sample_files, sample_splits

_SYSTEM = "$$$"
"""Begins the names of LINTER's system tables."""


class TouchedTable(NamedTuple):
    """A table that was seen with UpdFlag."""

    owner: int
    """Number of the owner."""
    schema: str | None
    """The owner's name by the settings (``owners``); ``None`` where they do not say it."""
    name: str


@dataclass(frozen=True, slots=True)
class Hints:
    """What the samples after a moment say."""

    tables: frozenset[TouchedTable]
    """Without the system tables."""
    until: int | None
    """Time of the last call seen, in microseconds since 1970 UTC: the ``since`` of the next time.
    ``None`` where there are no calls with a time at all."""
    calls: int
    """Calls after ``since``."""
    problems: int
    """Those of them that could not be used, and pieces of the input without a time that are no calls:
    what they would have said is not known."""

    @property
    def unnamed_owners(self) -> frozenset[int]:
        """Owners of touched tables whose names the settings do not say."""
        return frozenset(table.owner for table in self.tables if table.schema is None)


def touched(
    samples: Iterable[pa.RecordBatch], options: TableQueueOptions, since: int | None = None
) -> Hints:
    """The tables with UpdFlag in batches of ``SAMPLE_SCHEMA``, of calls later than ``since``.

    ``since``: microseconds since 1970 UTC, or ``None`` for all.  Calls without a time (bare records)
    count always.  Elements 1 to 3 and tables with names of system tables never do.
    """
    tables: set[TouchedTable] = set()
    until, calls, problems = since, 0, 0
    for batch in samples:
        for time, ordinal, owner, name, updated, problem in _calls(batch):
            if time is not None:
                if since is not None and time <= since:
                    continue
                until = time if until is None else max(until, time)
            calls += 1
            problems += problem is not None
            if updated and ordinal > SYSTEM_ELEMENTS and not name.startswith(_SYSTEM):
                tables.add(TouchedTable(owner, options.owners.get(owner), name))
    return Hints(frozenset(tables), until, calls, problems)


def _calls(batch: pa.RecordBatch) -> Iterator[tuple]:  # type: ignore[type-arg]
    names = ("time", "ordinal", "owner", "table", "updated", "problem")
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def hints_of(
    paths: Sequence[str | os.PathLike[str]], options: TableQueueOptions, since: int | None = None
) -> Hints:
    """The same of files and directories of samples, read in this process; there may be none yet.

    Raises:
        UsageError: A path does not exist, or the form of a file is not known by its name.
        FatalError: A file as a whole is not of its form.
    """
    files = sample_files(paths, may_be_none=True)
    splits = sample_splits(files, options, 1)
    return touched(
        (batch for split in splits for batch in read_samples(split, options)), options, since
    )
