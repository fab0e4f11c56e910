"""Outcomes of the records of each split, from the counts of the lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum

from publisher.ledger.lane_writer import PlannedLane
from publisher.model.change import Outcome, Reason

_MARKERS = frozenset({Reason.COMMIT, Reason.ROLLBACK, Reason.NOTHING_TO_COMMIT})


class RecordUse(Enum):
    """The result of a record for the file that it came from.

    Used records are published, superseded or held.  Markers end transactions, and have no effect."""

    REJECTED, USED, IGNORED, MARKER = range(4)


SplitFates = Counter[RecordUse]
"""Numbers of records of a split."""


def _fate_of(outcome: int, reason: str | None) -> RecordUse:
    if outcome == Outcome.REJECTED:
        return RecordUse.REJECTED
    if outcome != Outcome.IGNORED:
        return RecordUse.USED
    return RecordUse.MARKER if reason in _MARKERS else RecordUse.IGNORED


def fates_of_splits(
    lanes: Sequence[PlannedLane], splits_of_sources: Sequence[Sequence[int]]
) -> Mapping[int, SplitFates]:
    """Counts the outcomes of each split.

    ``splits_of_sources`` has the numbers of the splits of each source."""
    fates = {split: SplitFates() for splits in splits_of_sources for split in splits}
    for lane in lanes:
        for (_, split, outcome, reason), records in lane.splits.items():
            fates[split][_fate_of(outcome, reason)] += records
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
    missing = {split: framed.get(split, 0) - fates[split].total() for split in splits}
    is_used = any(fates[split][RecordUse.USED] for split, records in missing.items() if records < 0)
    for split, records in missing.items():
        if records > 0:
            fates[split][RecordUse.USED if is_used else RecordUse.REJECTED] += records
