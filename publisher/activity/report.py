"""The report on table activity: measures of each table with their counts, as JSON and CSV.

Numbers of the presence view and of the slot view are kept in separate parts.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from publisher.activity import measures
from publisher.activity.counts import (
    Activity,
    ActivityCounts,
    NodeCounts,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PresenceView:
    """Pressure on the queue by the presence view."""

    inclusions: int
    evictions: int
    evictions_per_hour: float | None
    reinclusions: int
    reinclusions_per_hour: float | None
    absence_seconds: float | None
    """Mean time between an eviction and the re-inclusion."""


@dataclass(frozen=True, slots=True)
class SlotView:
    """Pressure on the queue by the slot view."""

    replacements: int
    replacements_per_hour: float | None


@dataclass(frozen=True, slots=True)
class TableActivity:
    """The four measures of one table in the queue of one node."""

    node: str
    owner: int
    schema: str | None
    """Name of the owner from the settings."""
    table: str
    sweeps_present: int
    access_frequency: float | None
    """Share of sweeps, 0 to 1."""
    access_intensity: float | None
    """Mean ordinal; a smaller value means more frequent access."""
    dirty_sweeps: int
    """Sum of UpdFlag."""
    dirty_share: float | None
    updates_per_hour: float | None
    """Sum of UpdFlag over observed time; see ``measures.UPDATE_RATE_BIASES``."""
    doubled: int
    odd_flags: int
    """Sweeps with an UpdFlag other than 0 and 1."""
    presence: PresenceView
    slots: SlotView


@dataclass(frozen=True, slots=True)
class ActivityReport:
    """All counts, with the names of the owners of tables."""

    activity: Activity
    owners: Mapping[int, str]
    """Names of schemas by the number of the owner."""

    def tables(self) -> list[TableActivity]:
        """The measures of all tables, present most often first."""
        nodes = {node.node: node for node in self.activity.nodes}
        return [
            self._table(nodes[each.node], each.owner, each.name, each.counts)
            for each in self.activity.tables
        ]

    def _table(
        self, node: NodeCounts, owner: int, name: str, counts: ActivityCounts
    ) -> TableActivity:
        return TableActivity(
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
        """Yields a warning for each kind of suspicious call, which counts nevertheless."""
        activity = self.activity
        flags, cut = (activity.warnings.get(kind, 0) for kind in ("flag", "cut"))
        doubled = sum(table.counts.doubled for table in activity.tables)
        if flags:
            yield (
                f"{flags:,} calls have an UpdFlag other than 0 and 1, which counts as 1: check"
                " identifier_length, long_bytes and byte_order (odd flags)"
            )
        if cut:
            yield f"{cut:,} names are cut inside a character and end in U+FFFD: check identifier_length"
        if doubled:
            yield (
                f"a table appears at a second ordinal of the same sweep {doubled:,} time(s), and counts once,"
                " at its smallest ordinal: the queue changed during the sweep (doubled)"
            )

    def table_name(self, owner: int, name: str) -> str:
        """Name of a table with its schema, or with the number of its owner if the schema is unknown."""
        return f"{self.owners.get(owner, owner)}.{name}"

    def content(self) -> dict[str, Any]:
        """The whole report as plain values for JSON; times in ISO 8601, UTC."""
        activity = self.activity
        return {
            "calls": activity.calls,
            "problems": [asdict(problem) for problem in activity.problems],
            "warnings": activity.warnings,
            "nodes": [_node(node) for node in activity.nodes],
            "gaps": [
                {"node": gap.node, "from": iso_time(gap.start), "to": iso_time(gap.stop)}
                for gap in activity.gaps
            ],
            "updates_per_hour_biases": list(measures.UPDATE_RATE_BIASES),
            "tables": [asdict(table) for table in self.tables()],
        }

    def csv_lines(self) -> Iterator[str]:
        """Yields the tables as CSV (RFC 4180) with a header, without line ends; unknown values are empty."""
        yield _csv_line(_CSV_COLUMNS)
        for table in self.tables():
            flat = _flat(asdict(table))
            yield _csv_line([flat[name] for name in _CSV_COLUMNS])


def presence(counts: ActivityCounts, observed_us: int) -> PresenceView:
    """The presence view of counts over an observed time."""
    return PresenceView(
        inclusions=counts.included,
        evictions=counts.evicted,
        evictions_per_hour=measures.eviction_rate(counts, observed_us),
        reinclusions=counts.reincluded,
        reinclusions_per_hour=measures.reinclusion_rate(counts, observed_us),
        absence_seconds=measures.absence_seconds(counts),
    )


def slots(counts: ActivityCounts, observed_us: int) -> SlotView:
    """The slot view of counts over an observed time."""
    return SlotView(counts.replaced, measures.replacement_rate(counts, observed_us))


def iso_time(us: int | None) -> str | None:
    """Formats a time in ISO 8601, UTC."""
    return None if us is None else (_EPOCH + timedelta(microseconds=us)).isoformat()


def _node(node: NodeCounts) -> dict[str, Any]:
    exclusions = ("incomplete", "failed", "implausible", "conflicting")
    return {
        "node": node.node,
        "sweeps": node.sweeps,
        "sweeps_without_time": node.untimed,
        "sweeps_left_out": {name: getattr(node, name) for name in exclusions},
        "sweep_numbers_missing": node.missing,
        "duplicate_calls": node.duplicates,
        "first": iso_time(node.first),
        "last": iso_time(node.last),
        "observed_seconds": node.observed_us / 1e6,
        "gaps": node.gaps,
        "gap_seconds": node.gap_us / 1e6,
        "gap_limit_seconds": None if node.gap_limit_us is None else node.gap_limit_us / 1e6,
        "elements": {"least": node.shortest, "most": node.longest},
    }


_VIEWS = {"presence": PresenceView, "slots": SlotView}
_CSV_COLUMNS = [
    name
    for field in fields(TableActivity)
    for name in (
        [f"{field.name}_{part.name}" for part in fields(_VIEWS[field.name])]
        if field.name in _VIEWS
        else [field.name]
    )
]


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """Flattens the numbers of each view into columns named after the view."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        parts = value if name in _VIEWS else None
        flat |= {name: value} if parts is None else {f"{name}_{k}": v for k, v in parts.items()}
    return flat


def _csv_line(values: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
