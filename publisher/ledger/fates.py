"""Outcomes of the records of each split, from the counts of the lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from publisher.ledger.lane_writer import PlannedLane
from publisher.model.change import Outcome, Reason

_MARKERS = frozenset({Reason.COMMIT, Reason.ROLLBACK, Reason.NOTHING_TO_COMMIT})
"""Reasons of records that end transactions."""


@dataclass(slots=True)
class SplitFates:
    """Records of a split by outcome."""

    rejected: int = 0
    used: int = 0
    """Published, superseded or held."""
    ignored: int = 0
    markers: int = 0
    """Ends of transactions; they do not count as an effect of a file."""

    @property
    def total(self) -> int:
        """Number of records of the split."""
        return self.rejected + self.used + self.ignored + self.markers

    def add(self, outcome: int, reason: str | None, records: int) -> None:
        """Counts records with an outcome."""
        if outcome == Outcome.REJECTED:
            self.rejected += records
        elif outcome != Outcome.IGNORED:
            self.used += records
        elif reason in _MARKERS:
            self.markers += records
        else:
            self.ignored += records


def fates_of_splits(
    lanes: Sequence[PlannedLane], splits_of_sources: Sequence[Sequence[int]]
) -> Mapping[int, SplitFates]:
    """Counts the outcomes of each split.

    ``splits_of_sources`` has the numbers of the splits of each source."""
    fates = {split: SplitFates() for splits in splits_of_sources for split in splits}
    for lane in lanes:
        for (_, split, outcome, reason), records in lane.splits.items():
            fates[split].add(outcome, reason, records)
    framed = {split: records for lane in lanes for split, records in lane.result.tallies}
    for splits in splits_of_sources:
        _add_fetched_records(splits, framed, fates)
    return fates


def _add_fetched_records(
    splits: Sequence[int], framed: Mapping[int, int], fates: Mapping[int, SplitFates]
) -> None:
    """Corrects the counts of one source, in which a split may have counted records of another split.

    An UPDATE may fetch its before image from another split, and then its own split counts both records.  The
    missing records of a split count as used if any split that fetched records has used records; otherwise
    they count as rejected."""
    missing = {split: framed.get(split, 0) - fates[split].total for split in splits}
    is_used = any(fates[split].used for split, records in missing.items() if records < 0)
    for split, records in missing.items():
        if records > 0:
            fates[split].add(Outcome.HELD if is_used else Outcome.REJECTED, None, records)
