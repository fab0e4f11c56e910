"""Hints from samples: tables that had unflushed changes.

A hint only brings a comparison forward.  A change that was flushed between two sweeps leaves no trace in
any sample, so a table without a hint may have changed, too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa

from publisher.formats.table_queue.calls import SYSTEM_ELEMENTS
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.formats.table_queue.reading import read_samples, sample_files, sample_splits

_SYSTEM = "$$$"
"""Begins the names of LINTER's system tables."""


class TouchedTable(NamedTuple):
    """A table that a sample shows with UpdFlag set."""

    owner: int
    """Number of the owner."""
    schema: str | None
    """The owner's name from the setting ``owners``; ``None`` if the setting does not have the owner."""
    name: str


@dataclass(frozen=True, slots=True)
class Hints:
    """Touched tables in the samples after the time ``since``."""

    tables: frozenset[TouchedTable]
    """Touched tables, without system tables."""
    until: int | None
    """Time of the last call in microseconds since 1970 UTC; the next reading passes it as ``since``.
    ``None`` if no call has a time."""
    calls: int
    """Calls after ``since``."""
    problems: int
    """Unusable calls after ``since``; the tables that they would have named are unknown."""


def find_touched_tables(
    samples: Iterable[pa.RecordBatch], options: TableQueueOptions, since: int | None = None
) -> Hints:
    """Finds the tables with UpdFlag in batches of ``SAMPLE_SCHEMA``, in calls later than ``since``.

    ``since``: microseconds since 1970 UTC, or ``None`` for all calls.  Calls without a time (bare records)
    always count.  An unusable piece has the time of the next call in its file; while there is none, the
    piece may still be incomplete and does not count.  System tables (elements 1 to 3, or by their names) are
    never included.
    """
    tables: set[TouchedTable] = set()
    until, calls, problems = since, 0, 0
    unusable: Counter[str] = Counter()
    for call in _calls(samples):
        if call.sweep is None:
            unusable[call.file] += 1
            continue
        before = unusable.pop(call.file, 0)
        if call.time is not None:
            if since is not None and call.time <= since:
                continue
            until = call.time if until is None else max(until, call.time)
        calls += 1 + before
        problems += before + (call.problem is not None)
        if call.updated and call.ordinal > SYSTEM_ELEMENTS and not call.table.startswith(_SYSTEM):
            tables.add(TouchedTable(call.owner, options.owners.get(call.owner), call.table))
    return Hints(frozenset(tables), until, calls, problems)


class _CallRow(NamedTuple):
    """The columns that hints need."""

    row: int
    file: str
    sweep: str | None
    time: int | None
    ordinal: int
    owner: int
    table: str
    updated: int | None
    problem: str | None


def _calls(samples: Iterable[pa.RecordBatch]) -> Iterator[_CallRow]:
    """Yields rows in the order of their files, although batches have unusable pieces at their end."""
    for batch in samples:
        columns = (batch.column(name).to_pylist() for name in _CallRow._fields)
        yield from sorted(map(_CallRow, *columns), key=itemgetter(0))


def read_hints(
    paths: Sequence[str | os.PathLike[str]], options: TableQueueOptions, since: int | None = None
) -> Hints:
    """Reads files and directories of samples in this process and finds the touched tables.

    Directories may still be empty.

    Raises:
        UsageError: A path does not exist, or the name of a file does not show its form.
        FatalError: A file does not have the form that its name says.
    """
    files = sample_files(paths, may_be_none=True)
    splits = sample_splits(files, options, 1, may_grow=True)
    return find_touched_tables(
        (batch for split in splits for batch in read_samples(split, options)), options, since
    )
