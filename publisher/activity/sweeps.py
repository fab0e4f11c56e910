"""Sweeps of a table queue, from sorted calls: their validity, and their order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from publisher.activity.counts import MEDIANS_OF_A_GAP, NodeCounts
from publisher.formats.table_queue.calls import SAMPLE_SCHEMA, SYSTEM_ELEMENTS
from publisher.formats.table_queue.options import EORR, NORMAL

_NUMBER = re.compile("[0-9]{1,18}")
CALL_COLUMNS = (
    *("node", "sweep", "ordinal", "time", "completion", "owner", "table", "updated", "problem"),
)
CALLS = pa.schema([SAMPLE_SCHEMA.field(name) for name in CALL_COLUMNS])
ELEMENTS = pa.schema(
    [
        *(SAMPLE_SCHEMA.field(name) for name in ("node", "time")),
        ("id", pa.int64()),
        *(SAMPLE_SCHEMA.field(name) for name in ("sweep", "ordinal", "owner", "table", "updated")),
    ]
)
ELEMENT_ORDER = ("node", "time", "id", "sweep", "ordinal")
"""Sort columns of elements: those of their sweeps (``SweepSum.order``), then the ordinal."""


class CallRow(NamedTuple):
    """A call, in the columns of ``CALLS``."""

    node: str
    sweep: str
    ordinal: int | None
    time: int | None
    completion: str | None
    owner: int | None
    table: str | None
    updated: int | None
    problem: str | None


class ElementRow(NamedTuple):
    """A table in a sweep, in the columns of ``ELEMENTS``."""

    node: str
    time: int | None
    id: int | None
    sweep: str
    ordinal: int
    owner: int
    table: str
    updated: int


@dataclass(slots=True)
class SweepSum:
    """A sweep, and its place among the usable sweeps of its node that have a time."""

    node: str
    sweep: str
    id: int | None
    time: int | None
    state: str
    elements: int
    duplicates: int
    number: int | None = None
    stretch: int = 0
    starts: bool = False
    ends: bool = False
    previous: int | None = None
    next: int | None = None

    @property
    def is_usable(self) -> bool:
        """True if the sweep is complete, and its calls succeeded and agree."""
        return self.state == "counts"

    @property
    def order(self) -> tuple[int, int, str]:
        """Order of the timed sweeps of a node."""
        assert self.time is not None
        return self.time, -1 if self.id is None else self.id, self.sweep

    @property
    def interval(self) -> int:
        """Microseconds since the previous sweep."""
        assert self.time is not None
        assert self.previous is not None
        return self.time - self.previous

    @property
    def is_after_gap(self) -> bool:
        """True if the sweep follows a gap."""
        return self.starts and self.previous is not None

    @property
    def observed(self) -> int:
        """Microseconds that the sweep observes."""
        return 0 if self.number is None or self.starts else self.interval


def rows_of(batches: Iterable[pa.RecordBatch], kind: type[Any]) -> Iterator[Any]:
    """Yields the rows of batches as named tuples of the class ``kind``."""
    for batch in batches:
        yield from map(kind._make, zip(*(c.to_pylist() for c in batch.columns), strict=True))


def sum_sweeps(
    batches: Iterable[pa.RecordBatch], recorded: str, elements: list[pa.RecordBatch]
) -> Iterator[SweepSum]:
    """Yields the sweeps of sorted calls, and adds the tables of usable sweeps to ``elements``."""
    for (node, sweep), of_sweep in groupby(rows_of(batches, CallRow), key=lambda call: call[:2]):
        calls: list[CallRow] = []
        conflict, duplicates = False, 0
        for _, of_ordinal in groupby(of_sweep, key=attrgetter("ordinal")):
            copies = list(of_ordinal)
            differ = any(copy != copies[0] for copy in copies)
            conflict, duplicates = conflict or differ, duplicates + (not differ) * (len(copies) - 1)
            calls.append(copies[0])
        number = int(sweep) if _NUMBER.fullmatch(sweep) and sweep.isascii() else None
        time = min((call.time for call in calls if call.time is not None), default=None)
        state = "conflicting" if conflict else _state(calls, time, recorded)
        tables = [call for call in calls if call.completion == NORMAL and _is_after_system(call)]
        if state == "counts" and tables:
            rows = [(node, time, number, sweep, c.ordinal, *c[5:8]) for c in tables]
            elements.append(
                pa.RecordBatch.from_arrays(
                    [
                        pa.array(c, f.type)
                        for c, f in zip(zip(*rows, strict=True), ELEMENTS, strict=True)
                    ],
                    schema=ELEMENTS,
                )
            )
        yield SweepSum(node, sweep, number, time, state, len(tables), duplicates)


def _is_after_system(call: CallRow) -> bool:
    return call.ordinal is not None and call.ordinal > SYSTEM_ELEMENTS


def _state(calls: list[CallRow], time: int | None, recorded: str) -> str:
    """Returns ``counts`` for a usable sweep, or the reason why a sweep is not usable."""
    completions = (NORMAL, EORR, None)
    if any(call.problem is not None or call.completion not in completions for call in calls):
        return "failed"
    if any(
        call.completion == EORR and call.ordinal is not None and call.ordinal <= SYSTEM_ELEMENTS
        for call in calls
    ):
        return "implausible"
    ordinals = [call.ordinal for call in calls if call.ordinal is not None]
    is_whole = (
        bool(ordinals)
        and ordinals[-1] - ordinals[0] + 1 == len(calls)
        and ordinals[0] <= SYSTEM_ELEMENTS + 1
        and calls[-1].completion == EORR
    )
    return "counts" if time is None or is_whole or recorded == "elements" else "incomplete"


def order_sweeps(node: str, sweeps: list[SweepSum], gap_seconds: float | None) -> NodeCounts:
    """Orders the sweeps of a node by time, and counts them."""
    good = [sweep for sweep in sweeps if sweep.is_usable]
    timed = sorted((s for s in good if s.time is not None), key=attrgetter("order"))
    for before, after in pairwise(timed):
        before.next, after.previous = after.time, before.time
    limit = _gap_limit([sweep.interval for sweep in timed[1:]], gap_seconds)
    stretch = 0
    for number, sweep in enumerate(timed, 1):
        sweep.starts = number == 1 or (limit is not None and sweep.interval > limit)
        sweep.number, stretch = number, stretch + sweep.starts
        sweep.stretch = stretch
        sweep.ends = number == len(timed)
    for before, after in pairwise(timed):
        before.ends = after.starts
    ids = sorted(sweep.id for sweep in sweeps if sweep.id is not None)
    gaps = [sweep.interval for sweep in timed if sweep.is_after_gap]
    states = Counter(sweep.state for sweep in sweeps)
    times = [sweep.time for sweep in timed if sweep.time is not None]
    return NodeCounts(
        node=node,
        sweeps=len(good),
        untimed=len(good) - len(timed),
        first=min(times, default=None),
        last=max(times, default=None),
        observed_us=sum(sweep.observed for sweep in timed),
        gaps=len(gaps),
        gap_us=sum(gaps),
        gap_limit_us=limit,
        shortest=min((sweep.elements for sweep in good), default=None),
        longest=max((sweep.elements for sweep in good), default=None),
        missing=sum(after - before - 1 for before, after in pairwise(ids)),
        incomplete=states["incomplete"],
        failed=states["failed"],
        implausible=states["implausible"],
        conflicting=states["conflicting"],
        duplicates=sum(sweep.duplicates for sweep in sweeps),
    )


def _gap_limit(intervals: list[int], gap_seconds: float | None) -> int | None:
    """Maximum interval between two sweeps in microseconds; a longer interval is a gap."""
    if gap_seconds is not None:
        return round(gap_seconds * 1_000_000)
    if not intervals:
        return None
    ordered, middle = sorted(intervals), len(intervals) // 2
    median = (ordered[middle] + ordered[~middle]) / 2
    return int(median * MEDIANS_OF_A_GAP)
