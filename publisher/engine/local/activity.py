"""Counts sweeps of the table queue in this process: the samples are sorted, then read sweep by sweep."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
    CellCounts,
    IntervalCounts,
    NodeCounts,
    ProblemCount,
    SweepGap,
    TableCounts,
    interval_of,
    sort_cells,
    sort_tables,
)
from publisher.activity.work import Samples
from publisher.engine.local.external_sort import ExternalSort
from publisher.engine.local.sweeps import (
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
from publisher.sources.table_queue.reading import read_samples


@dataclass(slots=True)
class _Tallies:
    """Counts by table and interval; the interval is ``None`` for sweeps without a time."""

    width: int
    cells: defaultdict[tuple[str, int, str, int | None], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )

    def add(self, table: tuple[str, int, str], time: int | None, **counts: int) -> None:
        """Adds counts of a table at a time."""
        start = None if time is None else time - time % self.width
        self.cells[*table, start].update(counts)

    def sums(self, *columns: int) -> dict[tuple[Any, ...], Counter[str]]:
        """Sums the cells by some columns of their keys."""
        found: defaultdict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        for key, counts in self.cells.items():
            found[tuple(key[column] for column in columns)].update(counts)
        return found


def count_activity(samples: Samples, memory: int) -> Activity:
    """Counts samples; calls beyond ``memory`` bytes are sorted in files."""
    quality: dict[tuple[str | None, str | None], list[Any]] = {}
    with (
        ExternalSort(CALLS, CALL_COLUMNS[:3], memory=memory) as calls,
        ExternalSort(ELEMENTS, ELEMENT_ORDER, memory=memory) as elements,
    ):
        for split in samples.splits:
            for batch in read_samples(split, samples.reading):
                _add_quality(batch, quality)
                wanted = batch.filter(pc.is_valid(batch.column("sweep")))
                calls.add(wanted.select(CALL_COLUMNS))
        sweeps = list(sum_sweeps(calls.sorted_batches(), samples.reading.recorded, elements))
        gap = samples.counting.gap_seconds
        nodes = tuple(
            order_sweeps(node, list(of_node), gap)
            for node, of_node in groupby(sweeps, key=attrgetter("node"))
        )
        known = sorted(quality.items(), key=lambda entry: [(text or "") for text in entry[0]])
        found = Activity(
            calls=sum(calls_ for _, (calls_, _) in known),
            problems=tuple(
                ProblemCount(problem, count, *first)
                for (problem, _), (count, first) in known
                if problem
            ),
            warnings={warning: count for (_, warning), (count, _) in known if warning},
        )
        if not nodes:
            return found
        width = interval_of(nodes, samples.counting.interval_seconds)
        tallies = _tally(rows_of(elements.sorted_batches(), ElementRow), sweeps, width)
    return _with_counts(found, nodes, sweeps, tallies, samples.counting.tables)


def _add_quality(batch: pa.RecordBatch, quality: dict[Any, list[Any]]) -> None:
    """Counts calls by problem and warning, with the first place and detail of each."""
    columns = ("problem", "warning", "file", "row", "detail")
    values = (batch.column(name).to_pylist() for name in columns)
    for problem, warning, *place in zip(*values, strict=True):
        entry = quality.setdefault((problem, warning), [0, place])
        entry[0] += 1
        if problem and place < entry[1]:
            entry[1] = place


def _tally(elements: Iterable[ElementRow], sweeps: Iterable[SweepSum], width: int) -> _Tallies:
    """Counts the events of tables, from elements in the order of their sweeps."""
    tallies = _Tallies(width)
    by_name = {(sweep.node, sweep.sweep): sweep for sweep in sweeps}
    seen: dict[tuple[str, int, str], SweepSum] = {}
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
            _tally_presence(tallies, sweep, table, places, seen.get(table))
            if sweep.number is not None:
                seen[table] = sweep
    for table, last in seen.items():
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
    last, old = before
    if last.number == sweep.number - 1 and old != table:
        tallies.add(old, sweep.time, replaced=1)


def _tally_presence(
    tallies: _Tallies,
    sweep: SweepSum,
    table: tuple[str, int, str],
    places: list[ElementRow],
    last: SweepSum | None,
) -> None:
    dirty = int(any(element.updated != 0 for element in places))
    tallies.add(
        table,
        sweep.time,
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
    tallies.add(table, sweep.time, dirty_observed=dirty, included=int(not is_next))
    if last is not None and not is_next and last.stretch == sweep.stretch:
        assert last.next is not None
        tallies.add(table, sweep.time, reincluded=1, absent_us=sweep.time - last.next)


def _tally_eviction(tallies: _Tallies, table: tuple[str, int, str], last: SweepSum) -> None:
    """Counts that a table is missing from the sweep after ``last``, unless a gap lies between."""
    if not last.ends:
        tallies.add(table, last.next, evicted=1)


def _with_counts(
    found: Activity,
    nodes: tuple[NodeCounts, ...],
    sweeps: Iterable[SweepSum],
    tallies: _Tallies,
    most: int,
) -> Activity:
    tables = sort_tables(
        TableCounts(node, owner, name, _counts(sums))
        for (node, owner, name), sums in tallies.sums(0, 1, 2).items()
    )
    shown = {(table.node, table.owner, table.name) for table in tables[:most]}
    cells = [
        CellCounts(*key[:3], key[3], _counts(sums))
        for key, sums in tallies.cells.items()
        if key[3] is not None and key[:3] in shown
    ]
    timed = [sweep for sweep in sweeps if sweep.number is not None]
    gaps = [
        SweepGap(sweep.node, sweep.previous, sweep.time)
        for sweep in timed
        if sweep.previous is not None and sweep.time is not None and sweep.starts
    ]
    gaps.sort(key=attrgetter("start", "node"))
    return Activity(
        calls=found.calls,
        nodes=nodes,
        tables=tables,
        interval_us=tallies.width,
        intervals=tuple(_intervals(timed, tallies)),
        cells=sort_cells(cells),
        gaps=tuple(gaps[:GAPS_SHOWN]),
        problems=found.problems,
        warnings=found.warnings,
    )


def _intervals(timed: Iterable[SweepSum], tallies: _Tallies) -> Iterator[IntervalCounts]:
    events = tallies.sums(3, 0)
    own: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for sweep in timed:
        assert sweep.time is not None
        entry = own[sweep.time - sweep.time % tallies.width, sweep.node]
        entry[0] += 1
        entry[1] += sweep.observed
    for (start, node), (count, observed) in sorted(own.items()):
        sums = events.get((start, node), Counter())
        yield IntervalCounts(node, start, count, observed, _counts(sums))


def _counts(sums: Counter[str]) -> ActivityCounts:
    return ActivityCounts(**{name: sums[name] for name in COUNTS})
