"""Reads the rows of a live table again that an earlier run has read, whatever their status is now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.config.settings import Settings, SourceSettings
from publisher.errors import UsageError
from publisher.journal.lane_result import LaneNames
from publisher.journal.manifest import Journal, Manifest, SourceEntry

_COLUMNS = ("part", "high", "fingerprint")


def find_table(job: Settings | None, entry: SourceEntry) -> SourceSettings | None:
    """Finds the source of a job that reads the same table; ``None`` if there is none."""
    sources = () if job is None else job.sources
    named = (source for source in sources if source.name == entry.name)
    return next((source for source in named if source.table == entry.table), None)


def read_again(
    source: SourceSettings, live: SourceSettings, journal: Journal, number: int, file: Path
) -> SourceSettings:
    """Returns a source limited to the rows that a run read from it, in the database of ``live``.

    ``number`` is the number of the source in the run; their ids are written to ``file``.

    Raises:
        UsageError: Some rows have no usable record id.
    """
    manifest = journal.manifest()
    assert manifest is not None
    ids = []
    for part, high, _ in _rows(journal, manifest, number):
        if part.any():
            raise UsageError(
                f"run {manifest.run} cannot be planned again: it read rows of table {source.table} without "
                "a record id, which cannot be found again"
            )
        ids.append(high)
    np.save(file, np.unique(np.concatenate([np.zeros(0, np.int64), *ids])))
    return replace(source, database=live.database, record_ids=file)


def check_rows(journal: Journal, planned: Journal) -> None:
    """Checks that a run planned again has read the same rows of live tables.

    Raises:
        UsageError: Rows are missing or have changed, or the table is another one.
    """
    before, after = journal.manifest(), planned.manifest()
    assert before is not None
    assert after is not None
    for number, (entry, again) in enumerate(zip(before.sources, after.sources, strict=True)):
        if entry.table is None:
            continue
        if entry.identity != again.identity:
            raise UsageError(
                f"table {entry.table} of {again.database} is not the one that was read"
            )
        if _digest(journal, before, number) != _digest(planned, after, number):
            raise UsageError(
                f"run {before.run} cannot be planned again: rows of table {entry.table} that it read are "
                "deleted or have changed"
            )


def _digest(journal: Journal, manifest: Manifest, number: int) -> tuple[int, int]:
    """The number of rows and the sum of their fingerprints."""
    count = total = 0
    for _, _, fingerprints in _rows(journal, manifest, number):
        count += len(fingerprints)
        total += int(np.add.reduce(fingerprints, dtype=np.uint64))
    return count, total % (1 << 64)


def _rows(
    journal: Journal, manifest: Manifest, number: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields for the decisions of each lane whether they lack a record id, record ids and fingerprints."""
    for lane in range(manifest.lanes):
        path = journal.root / LaneNames(lane).decisions
        table = pq.read_table(path, columns=list(_COLUMNS), filters=pc.field("source") == number)
        part = pc.not_equal(pc.fill_null(table["part"], ""), "").to_numpy()
        high = table["high"].to_numpy()
        fingerprints = pc.fill_null(table["fingerprint"], 0).to_numpy().view(np.uint64)
        yield part, high, fingerprints
