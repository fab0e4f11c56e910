"""What is counted in sweeps of the table queue, per table and per interval; all else is made of it.

Two views of one thing, never added up.  In the *presence view* a table that is missing from a sweep and
was in the one before was evicted, and one that is new was included; it holds whatever an ordinal means.
In the *slot view* an ordinal names a place in memory, and another table at the same ordinal is a
replacement.  The page of DIRR says both that new elements become first and that elements are never moved,
and both cannot be true of one numbering (reference, 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over sweeps, of a table, an interval, or both."""

    present: int = 0
    """Sweeps in which a table was in the queue, behind the three system elements."""
    ordinals: int = 0
    """Sum of its ordinals there, the smallest where it stood twice in a sweep."""
    dirty: int = 0
    """Sum of UpdFlag: sweeps in which it had changes not yet flushed."""
    dirty_observed: int = 0
    """Those of them that end an observed interval: not the first of a recording or behind a gap."""
    included: int = 0
    """Presence view: in a sweep and not in the one before."""
    reincluded: int = 0
    """Those of them that had been evicted before, with no gap between."""
    absent_us: int = 0
    """Microseconds from the first sweep without it to the one that had it again, over ``reincluded``."""
    evicted: int = 0
    """Presence view: in a sweep and not in the next; counted where it is missing first."""
    replaced: int = 0
    """Slot view: another table stood at its ordinal in the next sweep."""
    doubled: int = 0
    """Times it stood at a further ordinal of one sweep: a sweep is many calls, and the queue moves."""
    odd_flags: int = 0
    """Sweeps in which its UpdFlag was neither 0 nor 1; they count as 1."""


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The sweeps of one LINTER server."""

    node: str
    sweeps: int
    """Sweeps that count."""
    untimed: int
    """Those of them without a time: they have no neighbours and count for presence and ordinals."""
    first: int | None
    """Times of the first and the last sweep, in microseconds since 1970 UTC."""
    last: int | None
    observed_us: int
    """Time between sweeps, without gaps."""
    gaps: int
    gap_us: int
    gap_limit_us: int | None
    """Sweeps further apart have a gap between them."""
    shortest: int | None
    """Elements of the shortest and the longest sweep, without the system's."""
    longest: int | None
    missing: int
    """Numbers of sweeps that are missing between those recorded."""
    incomplete: int
    """Sweeps left out since a call is missing, or the EORR at their end."""
    failed: int
    """Sweeps left out since a call of theirs failed or cannot be used."""
    implausible: int
    """Sweeps left out since EORR came at one of the first three ordinals, where system tables always are."""
    conflicting: int
    """Sweeps left out since calls of one sweep and ordinal differ."""
    duplicates: int
    """Calls that were recorded twice and are the same; they count once."""


@dataclass(frozen=True, slots=True)
class Gap:
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
    counts: Counts


@dataclass(frozen=True, slots=True)
class IntervalCounts:
    """All tables of a node in an interval."""

    node: str
    start: int
    """Microseconds since 1970 UTC."""
    sweeps: int
    observed_us: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class CellCounts:
    """A table in an interval."""

    node: str
    owner: int
    name: str
    start: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be used, of one kind."""

    problem: str
    calls: int
    file: str
    """The first of them: file, line or byte offset in it, what to do."""
    row: int
    detail: str


@dataclass(frozen=True, slots=True)
class Activity:
    """Everything that was counted."""

    calls: int
    """Calls and pieces of the input that should be one."""
    nodes: tuple[NodeCounts, ...] = ()
    tables: tuple[TableCounts, ...] = ()
    """Present most often first."""
    interval_us: int = 0
    """Width of the intervals."""
    intervals: tuple[IntervalCounts, ...] = ()
    """Those with sweeps, in order of time."""
    cells: tuple[CellCounts, ...] = ()
    """Those of the first tables."""
    gaps: tuple[Gap, ...] = ()
    """The first of them."""
    problems: tuple[Problem, ...] = ()
    warnings: dict[str, int] = field(default_factory=dict)
    """Calls that count and are odd, by kind: ``flag``, ``cut``."""


_WIDTHS = (1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800)
_MOST = 96


def interval_width(first: int, last: int) -> int:
    """A width in microseconds that cuts the time between two moments into 96 intervals at most."""
    for seconds in _WIDTHS:
        width = seconds * 1_000_000
        if last // width - first // width < _MOST:
            return width
    weeks = -(-(last - first) // ((_MOST - 1) * _WIDTHS[-1] * 1_000_000))
    return weeks * _WIDTHS[-1] * 1_000_000
