"""Counts over sweeps of the table queue, per table; all measures derive from them.

There are two views, whose numbers must not be added.  In the *presence view*, a table that disappears
between two sweeps was evicted, and a table that appears was included; this view is valid whatever an
ordinal means.  In the *slot view*, an ordinal names a place in memory, and another table at the same
ordinal is a replacement.  The page of DIRR says both that new elements become first and that elements
never move; one numbering cannot satisfy both statements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

GAPS_SHOWN = 50
MEDIANS_OF_A_GAP = 3
"""An interval longer than this number of median intervals of the node is a gap."""


@dataclass(frozen=True, slots=True)
class ActivityCounts:
    """Sums of a table over sweeps."""

    present: int = 0
    """Sweeps with the table in the queue, after the three system elements."""
    ordinals: int = 0
    """Sum of the table's ordinals in these sweeps; only the smallest one counts per sweep."""
    dirty: int = 0
    """Sum of UpdFlag: sweeps in which the table had unflushed changes."""
    dirty_observed: int = 0
    """Dirty sweeps that end an observed interval; not the first sweep of a recording or after a gap."""
    included: int = 0
    """Presence view: sweeps with the table whose previous sweep lacks it."""
    reincluded: int = 0
    """Inclusions after an earlier eviction, without a gap in between."""
    absent_us: int = 0
    """Microseconds from the first sweep without the table to the next sweep with it, summed over
    ``reincluded``."""
    evicted: int = 0
    """Presence view: sweeps without the table whose previous sweep has it."""
    replaced: int = 0
    """Slot view: sweeps with the table at an ordinal that another table has in the next sweep."""
    doubled: int = 0
    """Further ordinals of the table within one sweep: the queue may change during the calls of a sweep."""
    odd_flags: int = 0
    """Sweeps in which UpdFlag was neither 0 nor 1; it counts as 1."""


COUNTS = tuple(counts.name for counts in fields(ActivityCounts))


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The sweeps of one LINTER server."""

    node: str
    sweeps: int
    """Number of usable sweeps: complete, and without failed or contradictory calls."""
    untimed: int
    """Sweeps without a time; they have no neighbours and count only for presence and ordinals."""
    first: int | None
    """Time of the first sweep, in microseconds since 1970 UTC; ``last``: of the last sweep."""
    last: int | None
    observed_us: int
    """Time between sweeps, without gaps."""
    gaps: int
    gap_us: int
    gap_limit_us: int | None
    """Maximum interval between two sweeps; a longer interval is a gap."""
    shortest: int | None
    """Elements in the shortest sweep, without system elements; ``longest``: in the longest sweep."""
    longest: int | None
    missing: int
    """Number of sweep numbers that are missing between the recorded ones."""
    incomplete: int
    """Sweeps excluded because a call, or the EORR at the end, is missing."""
    failed: int
    """Sweeps excluded because a call failed or is unusable."""
    implausible: int
    """Sweeps excluded because EORR came at one of the first three ordinals, which system tables occupy."""
    conflicting: int
    """Sweeps excluded because two calls with the same sweep and ordinal differ."""
    duplicates: int
    """Identical calls that were recorded twice; they count once."""


@dataclass(frozen=True, slots=True)
class SweepGap:
    """Two neighbouring sweeps that are too far apart."""

    node: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TableCounts:
    """A table in the queue of a node."""

    node: str
    owner: int
    name: str
    counts: ActivityCounts


@dataclass(frozen=True, slots=True)
class ProblemCount:
    """The number of unusable calls with one kind of problem, and the first of them."""

    problem: str
    calls: int
    file: str
    """File of the first call; ``row`` is the line or byte offset in it, ``detail`` says what to do."""
    row: int
    detail: str


@dataclass(frozen=True, slots=True)
class Activity:
    """All counts of a set of samples."""

    calls: int
    """Calls in the input, including unreadable pieces."""
    nodes: tuple[NodeCounts, ...] = ()
    tables: tuple[TableCounts, ...] = ()
    """Sorted by the number of sweeps in which the table is present, highest first."""
    gaps: tuple[SweepGap, ...] = ()
    """The first gaps."""
    problems: tuple[ProblemCount, ...] = ()
    warnings: dict[str, int] = field(default_factory=dict)
    """Number of suspicious calls, which count nevertheless, by kind: ``flag``, ``cut``."""


def sort_tables(tables: Iterable[TableCounts]) -> tuple[TableCounts, ...]:
    """Sorts tables as ``Activity.tables``."""
    return tuple(sorted(tables, key=lambda t: (-t.counts.present, t.node, t.owner, t.name)))
