"""What samples hint at: tables that had changes not yet flushed.

A hint only brings a comparison forward.  A change that was flushed between two sweeps leaves no mark in
any sample, so that a table without a hint may have changed all the same.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
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
    """Those of them that could not be used: what they would have said is not known."""

    @property
    def unnamed_owners(self) -> frozenset[int]:
        """Owners of touched tables whose names the settings do not say."""
        return frozenset(table.owner for table in self.tables if table.schema is None)


def touched(
    samples: Iterable[pa.RecordBatch], options: TableQueueOptions, since: int | None = None
) -> Hints:
    """The tables with UpdFlag in batches of ``SAMPLE_SCHEMA``, of calls later than ``since``.

    ``since``: microseconds since 1970 UTC, or ``None`` for all.  Calls without a time (bare records)
    count always.  A piece of the input that is no call has the time of the call that follows it in its
    file; before there is one it may still be written to, and does not count.  Elements 1 to 3 and
    tables with names of system tables are never there.
    """
    tables: set[TouchedTable] = set()
    until, calls, problems = since, 0, 0
    waiting: Counter[str] = Counter()
    for call in _calls(samples):
        if call.sweep is None:
            waiting[call.file] += 1
            continue
        before = waiting.pop(call.file, 0)
        if call.time is not None:
            if since is not None and call.time <= since:
                continue
            until = call.time if until is None else max(until, call.time)
        calls += 1 + before
        problems += before + (call.problem is not None)
        if call.updated and call.ordinal > SYSTEM_ELEMENTS and not call.table.startswith(_SYSTEM):
            tables.add(TouchedTable(call.owner, options.owners.get(call.owner), call.table))
    return Hints(frozenset(tables), until, calls, problems)


class _Call(NamedTuple):
    """What matters here of a row."""

    row: int
    file: str
    sweep: str | None
    time: int | None
    ordinal: int
    owner: int
    table: str
    updated: int | None
    problem: str | None


def _calls(samples: Iterable[pa.RecordBatch]) -> Iterator[_Call]:
    """The rows in the order of their files: what is no call stands last in its batch."""
    for batch in samples:
        columns = (batch.column(name).to_pylist() for name in _Call._fields)
        yield from sorted(map(_Call, *columns), key=itemgetter(0))


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
