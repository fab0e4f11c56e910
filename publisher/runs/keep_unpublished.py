"""Tells compared tables which of their changes were rejected or refused: the state must not count them as
published."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.ledger.job import Ledger
from publisher.ledger.lane_result import LaneNames, LaneResult
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.model.change import Outcome
from publisher.runs.prepare import RunRequest
from publisher.runs.recorded_splits import restore_split
from publisher.sources.contract import ComparingSource
from publisher.sources.registry import FORMATS
from publisher.sources.work import Work

Rows = dict[int, set[int]]
"""Numbers of records by the number of their split in the run."""


def keep_rejected(request: RunRequest, work: Work, results: Sequence[LaneResult]) -> None:
    """Adds the changes that planning has rejected to the new states of compared tables."""
    first = 0
    for number, source in enumerate(work.sources):
        state = request.ledger_run.state_folder(source.name)
        if isinstance(source.source, ComparingSource) and state.is_dir():
            rows: Rows = {}
            for result in results:
                folder = result.folder(request.ledger_run.staging)
                rejected = pc.field("outcome") == int(Outcome.REJECTED)
                _add(rows, folder / LaneNames(result.lane).records, number, rejected)
            splits = [(source.splits[n - first], frozenset(rows[n])) for n in sorted(rows)]
            if splits:
                before = (request.state or {}).get(source.name)
                source.source.keep_unpublished(state, before, splits)
        first += len(source.splits)


def keep_refused(
    ledger: Ledger, ledger_run: LedgerRun, manifest: Manifest, refused: Collection[tuple[int, int]]
) -> None:
    """Adds the changes whose documents the sink has refused, by lane and document; may be repeated."""
    if not refused:
        return
    lanes: dict[int, list[int]] = {}
    for lane, document in refused:
        lanes.setdefault(lane, []).append(document)
    for number, entry in enumerate(manifest.sources):
        state = ledger_run.state(entry.name)
        source = FORMATS[entry.format].restore(entry.options, entry.reading)
        if state is None or not isinstance(source, ComparingSource):
            continue
        rows: Rows = {}
        for lane, documents in lanes.items():
            sent = pc.field("document").isin(documents)
            _add(rows, ledger_run.place / LaneNames(lane).records, number, sent)
        splits = [(restore_split(entry, n), frozenset(rows[n])) for n in sorted(rows)]
        if splits:
            before = ledger.state_before(manifest.run, entry.name)
            source.keep_unpublished(state, before, splits)


def _add(rows: Rows, records: Path, source: int, where: pc.Expression) -> None:
    """Adds the changes of a source in the records of a lane."""
    where &= (pc.field("source") == source) & pc.field("event_type").is_valid()
    for entry in pq.read_table(records, columns=["split", "row"], filters=where).to_pylist():
        rows.setdefault(entry["split"], set()).add(entry["row"])
