"""The counts of sweeps once more, by plain loops over plain lists: what Spark's are held to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import fields
from itertools import pairwise
from statistics import median

from publisher.activity.counts import ActivityCounts, NodeCounts
from publisher.formats.table_queue.calls import Call, to_micros

NAMES = [field.name for field in fields(ActivityCounts)]


class NodeSamples:
    """The samples of one node; tables by owner and name."""

    def __init__(
        self, node: str, calls: Iterable[tuple[Call, str | None, int]], limit: int | None
    ) -> None:
        self.tables: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        found: dict[int, dict[int, list[tuple[Call, str | None, int]]]] = {}
        for each in calls:
            found.setdefault(each[0].sweep, {}).setdefault(each[0].ordinal, []).append(each)
        states = {number: state(sweep) for number, sweep in found.items()}
        good = sorted(
            (to_micros(min(each[0][0].time for each in sweep.values())), number)
            for number, sweep in found.items()
            if states[number] == "counts"
        )
        self._sweeps = [(time, elements(found[number])) for time, number in good]
        times = [time for time, _ in good]
        steps = [later - time for time, later in pairwise(times)]
        limit = limit or (int(median(steps) * 3) if steps else None)
        self._starts = [n == 0 or steps[n - 1] > (limit or 0) for n in range(len(times))]
        gaps = [step for step in steps if step > (limit or 0)]
        numbers = sorted(found)
        sizes = [len([o for o in sweep if o > 3]) for _, sweep in self._sweeps]
        tally = Counter(states.values())
        self.node = NodeCounts(
            node=node,
            sweeps=len(times),
            untimed=0,
            first=min(times, default=None),
            last=max(times, default=None),
            observed_us=sum(steps) - sum(gaps),
            gaps=len(gaps),
            gap_us=sum(gaps),
            gap_limit_us=limit,
            shortest=min(sizes, default=None),
            longest=max(sizes, default=None),
            missing=numbers[-1] - numbers[0] + 1 - len(numbers),
            incomplete=tally["incomplete"],
            failed=tally["failed"],
            implausible=tally["implausible"],
            conflicting=tally["conflicting"],
            duplicates=sum(
                len(copies) - 1
                for sweep in found.values()
                for copies in sweep.values()
                if len(set(copies)) == 1
            ),
        )
        self._count()

    def _count(self) -> None:
        evicted: dict[tuple[int, str], int] = {}
        for n, (time, sweep) in enumerate(self._sweeps):
            there = by_table(sweep)
            starts = self._starts[n]
            if starts:
                evicted = {}
            before_slots = {} if starts else self._sweeps[n - 1][1]
            before = by_table(before_slots)
            for table, places in there.items():
                dirty = int(any(flag for _, flag in places))
                self.tables[table].update(
                    present=1,
                    ordinals=min(o for o, _ in places),
                    dirty=dirty,
                    dirty_observed=0 if starts else dirty,
                    doubled=len(places) - 1,
                    odd_flags=int(any(flag not in (0, 1) for _, flag in places)),
                )
                if not starts and table not in before:
                    self.tables[table].update(included=1)
                    if table in evicted:
                        self.tables[table].update(reincluded=1, absent_us=time - evicted[table])
            for table in before:
                if table not in there:
                    evicted[table] = time
                    self.tables[table].update(evicted=1)
            for ordinal, (old, _) in before_slots.items():
                if ordinal > 3 and ordinal in sweep and sweep[ordinal][0] != old:
                    self.tables[old].update(replaced=1)


def state(sweep: dict[int, list[tuple[Call, str | None, int]]]) -> str:
    """Returns the state of a sweep: whether it counts."""
    if any(len(set(copies)) > 1 for copies in sweep.values()):
        return "conflicting"
    calls = {ordinal: copies[0][0] for ordinal, copies in sweep.items()}
    if any(call.completion not in ("NORMAL", "EORR") for call in calls.values()):
        return "failed"
    if any(call.completion == "EORR" and number <= 3 for number, call in calls.items()):
        return "implausible"
    if set(calls) != set(range(min(calls), max(calls) + 1)) or min(calls) > 4:
        return "incomplete"
    return "counts" if calls[max(calls)].completion == "EORR" else "incomplete"


Slots = dict[int, tuple[tuple[int, str], int]]


def elements(sweep: dict[int, list[tuple[Call, str | None, int]]]) -> Slots:
    """Table and flag by ordinal."""
    return {
        ordinal: ((5, name), flag)
        for ordinal, ((_, name, flag), *_) in sweep.items()
        if name is not None
    }


def by_table(slots: Slots) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """Ordinals and flags of each table behind the system's."""
    found: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for ordinal, (table, flag) in slots.items():
        if ordinal > 3:
            found.setdefault(table, []).append((ordinal, flag))
    return found


def counts(found: Counter[str]) -> ActivityCounts:
    """Counts by plain loops, as ``ActivityCounts`` does."""
    return ActivityCounts(**{name: found[name] for name in NAMES})
