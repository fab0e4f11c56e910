"""The four measures that the page of DIRR derives from the table queue.

* access frequency: the share of sweeps in which the table is present;
* access intensity: the mean of its ordinals, a heuristic: smaller means more often;
* update rate: the sum of UpdFlag over time;
* pressure on the queue: evictions and re-inclusions over time.

Rates are per observed time, not per sweep, because sweeps need not be evenly spaced.
"""

from __future__ import annotations

from publisher.activity.counts import ActivityCounts

_HOUR = 3_600_000_000

UPDATE_RATE_BIASES = (
    (
        "too low if the database flushes more often than the sweeps follow each other: a change that was"
        " flushed between two sweeps leaves no mark"
    ),
    "too high if it flushes less often: one change is then seen in several sweeps",
)
"""Known biases, shown beside every update rate."""


def frequency(counts: ActivityCounts, sweeps: int) -> float | None:
    """Share of sweeps in which a table was present, 0 to 1."""
    return counts.present / sweeps if sweeps else None


def intensity(counts: ActivityCounts) -> float | None:
    """Mean ordinal of a table while it was present; from 4."""
    return counts.ordinals / counts.present if counts.present else None


def dirty_share(counts: ActivityCounts, sweeps: int) -> float | None:
    """Share of sweeps in which a table had changes not yet flushed, 0 to 1."""
    return counts.dirty / sweeps if sweeps else None


def update_rate(counts: ActivityCounts, observed_us: int) -> float | None:
    """Sum of UpdFlag per hour of observed time."""
    return per_hour(counts.dirty_observed, observed_us)


def eviction_rate(counts: ActivityCounts, observed_us: int) -> float | None:
    """Evictions per hour of observed time."""
    return per_hour(counts.evicted, observed_us)


def reinclusion_rate(counts: ActivityCounts, observed_us: int) -> float | None:
    """Re-inclusions per hour of observed time."""
    return per_hour(counts.reincluded, observed_us)


def replacement_rate(counts: ActivityCounts, observed_us: int) -> float | None:
    """Replacements per hour of observed time, in the slot view."""
    return per_hour(counts.replaced, observed_us)


def absence_seconds(counts: ActivityCounts) -> float | None:
    """Mean time from an eviction to the re-inclusion; a short time means that the queue is too short."""
    return counts.absent_us / counts.reincluded / 1e6 if counts.reincluded else None


def per_hour(events: int, observed_us: int) -> float | None:
    """Events per hour of observed time; ``None`` if no time was observed."""
    return events * _HOUR / observed_us if observed_us else None
