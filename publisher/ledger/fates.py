"""Outcomes of the records of each split, counted in the staged records of the lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.ledger.lane_result import LaneNames, LaneResult
from publisher.model.change import Outcome, Reason

_COLUMNS = ["split", "outcome", "reason", "records"]
_MARKERS = frozenset({Reason.COMMIT, Reason.ROLLBACK, Reason.NOTHING_TO_COMMIT})
"""Reasons of records that end transactions."""


@dataclass(frozen=True, slots=True)
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


def fates_of_splits(
    results: Sequence[LaneResult], staging: Path, splits_of_sources: Sequence[Sequence[int]]
) -> Mapping[int, SplitFates]:
    """Counts the outcomes of each split that has records.

    ``splits_of_sources`` has the numbers of the splits of each source."""
    fates: dict[int, SplitFates] = {}
    for result in results:
        path = result.folder(staging) / LaneNames(result.lane).records
        with pq.ParquetFile(path) as file:  # read_table would take longer for a small file
            table = file.read(_COLUMNS)
        grouped: pa.Table = table.group_by(["split", "outcome", "reason"]).aggregate(
            [("records", "sum")]
        )
        for row in grouped.to_pylist():
            before = fates.get(row["split"], SplitFates())
            fates[row["split"]] = _add(before, row["outcome"], row["reason"], row["records_sum"])
    framed = {split: records for result in results for split, records in result.tallies}
    for splits in splits_of_sources:
        fates |= _with_fetched_records(splits, framed, fates)
    return fates


def _with_fetched_records(
    splits: Sequence[int], framed: Mapping[int, int], fates: Mapping[int, SplitFates]
) -> dict[int, SplitFates]:
    """Corrects the counts of one source, in which a split may have counted records of another split.

    An UPDATE may fetch its before image from another split, and then its own split counts both records.  The
    missing records of a split count as used if any split that fetched records has used records; otherwise
    they count as rejected."""
    by_split = {split: fates.get(split, SplitFates()) for split in splits}
    is_used = any(
        fate.used for split, fate in by_split.items() if fate.total > framed.get(split, 0)
    )
    corrected = {}
    for split, fate in by_split.items():
        missing = framed.get(split, 0) - fate.total
        if missing > 0 and is_used:
            corrected[split] = replace(fate, used=fate.used + missing)
        elif missing > 0:
            corrected[split] = replace(fate, rejected=fate.rejected + missing)
    return corrected


def _add(fates: SplitFates, outcome: int, reason: str | None, records: int) -> SplitFates:
    if outcome == Outcome.REJECTED:
        return replace(fates, rejected=fates.rejected + records)
    if outcome != Outcome.IGNORED:
        return replace(fates, used=fates.used + records)
    if reason in _MARKERS:
        return replace(fates, markers=fates.markers + records)
    return replace(fates, ignored=fates.ignored + records)
