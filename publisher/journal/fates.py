"""Where the records of each split ended, from the decisions that the lanes of a run have staged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.change import Outcome, Reason
from publisher.journal.lane import LaneNames, LaneResult

_COLUMNS = ["split", "outcome", "reason", "records"]
_MARKERS = frozenset({Reason.COMMIT, Reason.ROLLBACK, Reason.NOTHING_TO_COMMIT})
"""Reasons of ignored records that end transactions."""


@dataclass(frozen=True, slots=True)
class SplitFates:
    """Records of a split by outcome; without ends of transactions, which are neither."""

    rejected: int = 0
    used: int = 0
    """Published, superseded or held."""
    ignored: int = 0


def fates_of_splits(results: Sequence[LaneResult], staging: Path) -> Mapping[int, SplitFates]:
    """The fates of the records of each split that has any."""
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
    return found


def _add(fates: SplitFates, outcome: int, reason: str | None, records: int) -> SplitFates:
    rejected, used, ignored = fates.rejected, fates.used, fates.ignored
    if outcome == Outcome.REJECTED:
        rejected += records
    elif outcome != Outcome.IGNORED:
        used += records
    elif reason not in _MARKERS:
        ignored += records
    return SplitFates(rejected, used, ignored)
