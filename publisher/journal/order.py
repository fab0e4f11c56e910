"""How far a job has read its live logs, and which records of a run came late.

A record is late where its record_id lies below the greatest that an earlier run has read: its
transaction committed after those of greater ids, or it was held or retried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.change import Outcome
from publisher.errors import FatalError
from publisher.journal.durable import write_durably
from publisher.journal.lane import LaneNames

_COLUMNS = ["source", "part", "high", "outcome"]


class Passed(NamedTuple):
    """What a run read of a live source: the greatest record id, 0 for none, and how many of the
    published records are late."""

    greatest: int
    late: int


def passed(root: Path, lanes: int, source: int, behind: int) -> Passed:
    """Looks through a journal's decisions on one source; ``behind`` is the greatest id before it.

    Raises:
        FatalError: A file of the journal is missing or damaged.
    """
    greatest, late = 0, 0
    for lane in range(lanes):
        path = root / LaneNames(lane).decisions
        try:
            with pq.ParquetFile(path) as file:
                for records in file.iter_batches(columns=_COLUMNS):
                    found = _passed(records, source, behind)
                    greatest, late = max(greatest, found.greatest), late + found.late
        except (OSError, pa.ArrowInvalid) as error:
            raise FatalError(
                f"{path} of the journal cannot be read ({error}): restore it"
            ) from error
    return Passed(greatest, late)


def _passed(records: pa.RecordBatch, source: int, behind: int) -> Passed:
    named = pc.equal(pc.fill_null(records["part"], ""), "")
    ids = records.filter(pc.and_(pc.equal(records["source"], source), named))
    greatest = pc.max(ids["high"]).as_py() or 0
    published = pc.equal(ids["outcome"], int(Outcome.PUBLISHED))
    late = pc.sum(pc.and_(published, pc.less(ids["high"], behind))).as_py() or 0
    return Passed(greatest, late)


def read_greatest(path: Path) -> dict[str, int]:
    """The greatest record ids that were read, by name of the source.

    Raises:
        FatalError: The file is damaged.
    """
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): int(number) for name, number in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise FatalError(
            f"{path} is damaged: remove it; then it is not known any more which records come late"
        ) from error


def write_greatest(path: Path, greatest: Mapping[str, int]) -> None:
    """Writes them durably."""
    write_durably(path, json.dumps(dict(greatest), indent=1) + "\n")
