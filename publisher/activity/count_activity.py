"""Counts sweeps of the table queue in this process: the samples are sorted, then read sweep by sweep."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from publisher.activity.counts import (
    COUNTS,
    GAPS_SHOWN,
    Activity,
    ActivityCounts,
    NodeCounts,
    ProblemCount,
    SweepGap,
    TableCounts,
    sort_tables,
)
from publisher.activity.sweeps import (
    CALL_COLUMNS,
    CALLS,
    ELEMENT_ORDER,
    ELEMENTS,
    ElementRow,
    SweepSum,
    order_sweeps,
    rows_of,
    sum_sweeps,
)
from publisher.activity.work import Samples
from publisher.formats.table_queue.reading import read_samples

_Table = tuple[str, int, str]
"""Node, owner and name of a table."""
_ROWS_AT_ONCE = 10_000
_Tallies = defaultdict[_Table, Counter[str]]


def count_activity(samples: Samples) -> Activity:
    """Counts samples; the calls of sweeps are held in memory."""
    quality: dict[tuple[str | None, str | None], list[Any]] = {}
    calls: list[pa.RecordBatch] = []
    for split in samples.splits:
        for batch in read_samples(split, samples.reading):
            _add_quality(batch, quality)
            of_sweeps = batch.filter(pc.is_valid(batch.column("sweep")))
            calls.append(of_sweeps.select(CALL_COLUMNS))
    elements: list[pa.RecordBatch] = []
    ordered = _sort(calls, CALLS, CALL_COLUMNS[:3])
    sweeps = list(sum_sweeps(ordered, samples.reading.recorded, elements))
    gap = samples.counting.gap_seconds
    nodes = tuple(
        order_sweeps(node, list(of_node), gap)
        for node, of_node in groupby(sweeps, key=attrgetter("node"))
    )
    entries = sorted(quality.items(), key=lambda entry: [(text or "") for text in entry[0]])
    without_sweeps = Activity(
        calls=sum(count for _, (count, _) in entries),
        problems=tuple(
            ProblemCount(problem, count, *first)
            for (problem, _), (count, first) in entries
            if problem
        ),
        warnings={warning: count for (_, warning), (count, _) in entries if warning},
    )
    if not nodes:
        return without_sweeps
    tallies = _tally(rows_of(_sort(elements, ELEMENTS, ELEMENT_ORDER), ElementRow), sweeps)
    return _with_counts(without_sweeps, nodes, sweeps, tallies)


def _sort(
    batches: Sequence[pa.RecordBatch], schema: pa.Schema, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Sorts rows by columns, nulls first."""
    rows = pa.Table.from_batches(batches, schema)
    order = [(name, "ascending", "at_start") for name in columns]
    sorted_rows = rows.take(pc.sort_indices(rows, sort_keys=order))
    return iter(sorted_rows.to_batches(_ROWS_AT_ONCE))


def _add_quality(batch: pa.RecordBatch, quality: dict[Any, list[Any]]) -> None:
    """Counts calls by problem and warning, with the first place and detail of each."""
    columns = ("problem", "warning", "file", "row", "detail")
    values = (batch.column(name).to_pylist() for name in columns)
    for problem, warning, *place in zip(*values, strict=True):
        entry = quality.setdefault((problem, warning), [0, place])
        entry[0] += 1
        if problem and place < entry[1]:
            entry[1] = place


def _tally(elements: Iterable[ElementRow], sweeps: Iterable[SweepSum]) -> _Tallies:
    """Counts the events of tables, from elements in the order of their sweeps."""
    tallies: _Tallies = defaultdict(Counter)
    by_name = {(sweep.node, sweep.sweep): sweep for sweep in sweeps}
    last_sweeps: dict[tuple[str, int, str], SweepSum] = {}
    slots: dict[tuple[str, int], tuple[SweepSum, tuple[str, int, str]]] = {}
    for name, of_sweep in groupby(elements, key=lambda element: (element.node, element.sweep)):
        sweep = by_name[name]
        tables: dict[tuple[str, int, str], list[ElementRow]] = {}
        for element in of_sweep:
            table = (element.node, element.owner, element.table)
            tables.setdefault(table, []).append(element)
            if sweep.number is not None:
                place = (element.node, element.ordinal)
                _tally_slot(tallies, sweep, table, slots.get(place))
                slots[place] = (sweep, table)
        for table, places in tables.items():
            _tally_presence(tallies, sweep, table, places, last_sweeps.get(table))
            if sweep.number is not None:
                last_sweeps[table] = sweep
    for table, last in last_sweeps.items():
        _tally_eviction(tallies, table, last)
    return tallies


def _tally_slot(
    tallies: _Tallies,
    sweep: SweepSum,
    table: tuple[str, int, str],
    before: tuple[SweepSum, tuple[str, int, str]] | None,
) -> None:
    if before is None or sweep.starts or sweep.number is None:
        return
    last, last_table = before
    if last.number == sweep.number - 1 and last_table != table:
        tallies[last_table].update(replaced=1)


def _tally_presence(
    tallies: _Tallies,
    sweep: SweepSum,
    table: tuple[str, int, str],
    places: list[ElementRow],
    last: SweepSum | None,
) -> None:
    dirty = int(any(element.updated != 0 for element in places))
    tallies[table].update(
        present=1,
        ordinals=min(element.ordinal for element in places),
        dirty=dirty,
        doubled=len(places) - 1,
        odd_flags=int(any(element.updated not in (0, 1) for element in places)),
    )
    if sweep.number is None or sweep.time is None:
        return
    is_next = last is not None and last.number == sweep.number - 1
    if last is not None and not is_next:
        _tally_eviction(tallies, table, last)
    if sweep.starts:
        return
    tallies[table].update(dirty_observed=dirty, included=int(not is_next))
    if last is not None and not is_next and last.stretch == sweep.stretch:
        assert last.next is not None
        tallies[table].update(reincluded=1, absent_us=sweep.time - last.next)


def _tally_eviction(tallies: _Tallies, table: tuple[str, int, str], last: SweepSum) -> None:
    """Counts that a table is missing from the sweep after ``last``, unless a gap follows ``last``."""
    if not last.ends:
        tallies[table].update(evicted=1)


def _with_counts(
    activity: Activity,
    nodes: tuple[NodeCounts, ...],
    sweeps: Iterable[SweepSum],
    tallies: _Tallies,
) -> Activity:
    tables = sort_tables(TableCounts(*table, _counts(sums)) for table, sums in tallies.items())
    gaps = [
        SweepGap(sweep.node, sweep.previous, sweep.time)
        for sweep in sweeps
        if sweep.previous is not None and sweep.time is not None and sweep.starts
    ]
    gaps.sort(key=attrgetter("start", "node"))
    return Activity(
        calls=activity.calls,
        nodes=nodes,
        tables=tables,
        gaps=tuple(gaps[:GAPS_SHOWN]),
        problems=activity.problems,
        warnings=activity.warnings,
    )


def _counts(sums: Counter[str]) -> ActivityCounts:
    return ActivityCounts(**{name: sums[name] for name in COUNTS})
