"""What people and scripts are told: the measures of each table, beside what they are made of.

Numbers of the presence view and of the slot view stand in parts of their own.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from publisher.activity import measures
from publisher.activity.counts import Activity, CellCounts, Counts, IntervalCounts, NodeCounts

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Presence:
    """Pressure on the queue by the presence view."""

    inclusions: int
    evictions: int
    evictions_per_hour: float | None
    reinclusions: int
    reinclusions_per_hour: float | None
    absence_seconds: float | None
    """Mean time between an eviction and the re-inclusion."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Pressure on the queue by the slot view."""

    replacements: int
    replacements_per_hour: float | None


@dataclass(frozen=True, slots=True)
class TableReport:
    """The four uses, of one table in the queue of one node."""

    node: str
    owner: int
    schema: str | None
    """Name of the owner by the settings."""
    table: str
    sweeps_present: int
    access_frequency: float | None
    """Share of sweeps, 0 to 1."""
    access_intensity: float | None
    """Mean ordinal: smaller is more often."""
    dirty_sweeps: int
    """Sum of UpdFlag."""
    dirty_share: float | None
    updates_per_hour: float | None
    """Sum of UpdFlag over observed time; ``measures.UPDATE_RATE_BIASES`` goes with it."""
    doubled: int
    odd_flags: int
    """Sweeps with an UpdFlag other than 0 and 1."""
    presence: Presence
    slots: Slots


@dataclass(frozen=True, slots=True)
class Report:
    """An activity with the names of its owners."""

    activity: Activity
    owners: Mapping[int, str]
    """Names of schemas by the number of the owner."""

    def tables(self) -> list[TableReport]:
        """The measures of all tables, present most often first."""
        nodes = {node.node: node for node in self.activity.nodes}
        return [
            self._table(nodes[each.node], each.owner, each.name, each.counts)
            for each in self.activity.tables
        ]

    def _table(self, node: NodeCounts, owner: int, name: str, counts: Counts) -> TableReport:
        return TableReport(
            node=node.node,
            owner=owner,
            schema=self.owners.get(owner),
            table=name,
            sweeps_present=counts.present,
            access_frequency=measures.frequency(counts, node.sweeps),
            access_intensity=measures.intensity(counts),
            dirty_sweeps=counts.dirty,
            dirty_share=measures.dirty_share(counts, node.sweeps),
            updates_per_hour=measures.update_rate(counts, node.observed_us),
            doubled=counts.doubled,
            odd_flags=counts.odd_flags,
            presence=presence(counts, node.observed_us),
            slots=slots(counts, node.observed_us),
        )

    def notes(self) -> Iterator[str]:
        """Odd calls that count all the same, and how."""
        found = self.activity
        flags, cut = (found.warnings.get(kind, 0) for kind in ("flag", "cut"))
        doubled = sum(table.counts.doubled for table in found.tables)
        if flags:
            yield (
                f"{flags:,} calls have an UpdFlag other than 0 and 1, which counts as 1: look at"
                " identifier_length, long_bytes and byte_order (odd flags)"
            )
        if cut:
            yield f"{cut:,} names are cut inside a character and end in U+FFFD: look at identifier_length"
        if doubled:
            yield (
                f"tables are at a further ordinal of one sweep {doubled:,} times, and count once, at the"
                " smallest: the queue moved during the sweep (doubled)"
            )

    def named(self, owner: int, name: str) -> str:
        """A table as people know it: with its schema, or the number of its owner."""
        return f"{self.owners.get(owner, owner)}.{name}"

    def content(self) -> dict[str, Any]:
        """Everything, in plain values for JSON; times in ISO 8601, UTC."""
        found = self.activity
        return {
            "calls": found.calls,
            "problems": [asdict(problem) for problem in found.problems],
            "warnings": found.warnings,
            "nodes": [_node(node) for node in found.nodes],
            "gaps": [
                {"node": gap.node, "from": moment(gap.start), "to": moment(gap.stop)}
                for gap in found.gaps
            ],
            "updates_per_hour_biases": list(measures.UPDATE_RATE_BIASES),
            "tables": [asdict(table) for table in self.tables()],
            "interval_seconds": found.interval_us / 1e6,
            "intervals": [_interval(interval) for interval in found.intervals],
            "tables_over_time": [self._cell(cell) for cell in found.cells],
        }

    def _cell(self, cell: CellCounts) -> dict[str, Any]:
        counts = cell.counts
        return {
            "node": cell.node,
            "owner": cell.owner,
            "table": cell.name,
            "start": moment(cell.start),
            "sweeps_present": counts.present,
            "access_intensity": measures.intensity(counts),
            "dirty_sweeps": counts.dirty,
            "presence": {
                "inclusions": counts.included,
                "evictions": counts.evicted,
                "reinclusions": counts.reincluded,
            },
            "slots": {"replacements": counts.replaced},
        }

    def csv_lines(self) -> Iterator[str]:
        """The tables as CSV (RFC 4180) with a header, without line ends; what is unknown is empty."""
        yield _csv_line(_CSV_COLUMNS)
        for table in self.tables():
            flat = _flat(asdict(table))
            yield _csv_line([flat[name] for name in _CSV_COLUMNS])


def presence(counts: Counts, observed_us: int) -> Presence:
    """The presence view of what was counted in some time."""
    return Presence(
        inclusions=counts.included,
        evictions=counts.evicted,
        evictions_per_hour=measures.eviction_rate(counts, observed_us),
        reinclusions=counts.reincluded,
        reinclusions_per_hour=measures.reinclusion_rate(counts, observed_us),
        absence_seconds=measures.absence_seconds(counts),
    )


def slots(counts: Counts, observed_us: int) -> Slots:
    """The slot view of it."""
    return Slots(counts.replaced, measures.replacement_rate(counts, observed_us))


def moment(us: int | None) -> str | None:
    """A time in ISO 8601, UTC."""
    return None if us is None else (_EPOCH + timedelta(microseconds=us)).isoformat()


def _node(node: NodeCounts) -> dict[str, Any]:
    left_out = ("incomplete", "failed", "implausible", "conflicting")
    return {
        "node": node.node,
        "sweeps": node.sweeps,
        "sweeps_without_time": node.untimed,
        "sweeps_left_out": {name: getattr(node, name) for name in left_out},
        "sweep_numbers_missing": node.missing,
        "duplicate_calls": node.duplicates,
        "first": moment(node.first),
        "last": moment(node.last),
        "observed_seconds": node.observed_us / 1e6,
        "gaps": node.gaps,
        "gap_seconds": node.gap_us / 1e6,
        "gap_limit_seconds": None if node.gap_limit_us is None else node.gap_limit_us / 1e6,
        "elements": {"least": node.shortest, "most": node.longest},
    }


def _interval(interval: IntervalCounts) -> dict[str, Any]:
    counts, observed = interval.counts, interval.observed_us
    return {
        "node": interval.node,
        "start": moment(interval.start),
        "sweeps": interval.sweeps,
        "observed_seconds": observed / 1e6,
        "dirty_sweeps": counts.dirty,
        "updates_per_hour": measures.update_rate(counts, observed),
        "presence": asdict(presence(counts, observed)),
        "slots": asdict(slots(counts, observed)),
    }


_VIEWS = {"presence": Presence, "slots": Slots}
_CSV_COLUMNS = [
    name
    for field in fields(TableReport)
    for name in (
        [f"{field.name}_{part.name}" for part in fields(_VIEWS[field.name])]
        if field.name in _VIEWS
        else [field.name]
    )
]


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """With the numbers of each view under names of its own."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        parts = value if name in _VIEWS else None
        found |= {name: value} if parts is None else {f"{name}_{k}": v for k, v in parts.items()}
    return found


def _csv_line(values: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
