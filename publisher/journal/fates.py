"""Where the records of each split ended, from the decisions that the lanes of a run have staged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.journal.lane_writer import LaneNames, LaneResult
from publisher.model.change import Outcome, Reason

_COLUMNS = ["split", "outcome", "reason", "records"]
_MARKERS = frozenset({Reason.COMMIT, Reason.ROLLBACK, Reason.NOTHING_TO_COMMIT})
"""Reasons of ignored records that end transactions."""


@dataclass(frozen=True, slots=True)
class SplitFates:
    """Records of a split by outcome."""

    rejected: int = 0
    used: int = 0
    """Published, superseded or held."""
    ignored: int = 0
    markers: int = 0
    """Ends of transactions, which say nothing of the file."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.rejected + self.used + self.ignored + self.markers


def fates_of_splits(
    results: Sequence[LaneResult], staging: Path, splits_of_sources: Sequence[Sequence[int]]
) -> Mapping[int, SplitFates]:
    """The fates of the records of each split that has any.

    ``splits_of_sources`` has the numbers of the splits of each source."""
    found: dict[int, SplitFates] = {}
    for result in results:
        path = staging / result.staged / LaneNames(result.lane).decisions
        table = pq.read_table(path, columns=_COLUMNS)
        grouped: pa.Table = table.group_by(["split", "outcome", "reason"]).aggregate(
            [("records", "sum")]
        )
        for row in grouped.to_pylist():
            before = found.get(row["split"], SplitFates())
            found[row["split"]] = _add(before, row["outcome"], row["reason"], row["records_sum"])
    framed = {split: records for result in results for split, records in result.tallies}
    for splits in splits_of_sources:
        found |= _fetched(splits, framed, found)
    return found


def _fetched(
    splits: Sequence[int], framed: Mapping[int, int], found: Mapping[int, SplitFates]
) -> dict[int, SplitFates]:
    """The fates of splits of one source that lack records: another split has fetched and counted them,
    as an UPDATE its before image.  They are used where that split has used any."""
    fates = {split: found.get(split, SplitFates()) for split in splits}
    is_used = any(one.used for split, one in fates.items() if one.total > framed.get(split, 0))
    changed = {}
    for split, one in fates.items():
        lacking = framed.get(split, 0) - one.total
        if lacking > 0 and is_used:
            changed[split] = replace(one, used=one.used + lacking)
        elif lacking > 0:
            changed[split] = replace(one, rejected=one.rejected + lacking)
    return changed


def _add(fates: SplitFates, outcome: int, reason: str | None, records: int) -> SplitFates:
    if outcome == Outcome.REJECTED:
        return replace(fates, rejected=fates.rejected + records)
    if outcome != Outcome.IGNORED:
        return replace(fates, used=fates.used + records)
    if reason in _MARKERS:
        return replace(fates, markers=fates.markers + records)
    return replace(fates, ignored=fates.ignored + records)
