"""Tells compared tables which of their changes were rejected or refused: the state must not count them as
published."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow.compute as pc

from publisher.formats.contract import ComparingSource
from publisher.formats.registry import FORMATS
from publisher.formats.work import Work
from publisher.ledger.job import Ledger
from publisher.ledger.lane_rows import LaneRows
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.ledger.tables import RECORDS
from publisher.model.change import Outcome
from publisher.runs.prepare import RunRequest
from publisher.runs.recorded_splits import restore_split

Rows = dict[int, set[int]]
"""Numbers of records by the number of their split in the run."""


def keep_rejected(request: RunRequest, work: Work, lanes: Sequence[LaneRows]) -> None:
    """Adds the changes that planning has rejected to the new states of compared tables."""
    first = 0
    for number, source in enumerate(work.sources):
        state = request.ledger_run.state_folder(source.name)
        if isinstance(source.source, ComparingSource) and state.is_dir():
            rows: Rows = {}
            for lane in lanes:
                _add(rows, lane, number, pc.field("outcome") == int(Outcome.REJECTED))
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
    by_lane: dict[int, list[int]] = {}
    for number, document in refused:
        by_lane.setdefault(number, []).append(document)
    lanes = [lane for lane in ledger_run.lanes(manifest) if lane.lane in by_lane]
    for number, entry in enumerate(manifest.sources):
        state = ledger_run.state(entry.name)
        source = FORMATS[entry.format].restore(entry.options, entry.reading)
        if state is None or not isinstance(source, ComparingSource):
            continue
        rows: Rows = {}
        for lane in lanes:
            _add(rows, lane, number, pc.field("document").isin(by_lane[lane.lane]))
        splits = [(restore_split(entry, n), frozenset(rows[n])) for n in sorted(rows)]
        if splits:
            before = ledger.state_before(manifest.run, entry.name)
            source.keep_unpublished(state, before, splits)


def _add(rows: Rows, lane: LaneRows, source: int, where: pc.Expression) -> None:
    """Adds the changes of a source in the records of a lane."""
    where &= (pc.field("source") == source) & pc.field("event_type").is_valid()
    for entry in lane.read(RECORDS, ["split", "row"], where).to_pylist():
        rows.setdefault(entry["split"], set()).add(entry["row"])
