"""Rows of live logs that stay N after a run.

A held row waits for its event time, and a rejected row without a usable record_id cannot get a status.  The
next poll reads both again.  A job remembers these rows, so that it neither plans a run for them at every poll
nor reports a reject more than once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from publisher.acknowledge.reasons import written_id
from publisher.formats.files.digest import digest_of_text
from publisher.ledger.job import Leftovers
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.ledger.source_state import PUBLISHED_OBJECTS
from publisher.ledger.tables import RECORDS
from publisher.model.change import Outcome, Reason

_HELD = ("part", "high", "schema", "table", "key", "event_type", "event_time", "columns")
"""Columns that identify a held row."""
_COLUMNS = [*_HELD, "source", "outcome", "reason", "raw"]
_ALL_BITS = (1 << 64) - 1


def leftovers_of(ledger_run: LedgerRun, manifest: Manifest, source: int) -> Leftovers:
    """Finds the rows of one source that stay N after a run, planned or committed.

    Raises:
        FatalError: A file of the ledger cannot be read.
    """
    if not _may_stay(manifest, source):
        return Leftovers()
    held, count, reported = 0, 0, set[int]()
    for row in _rows(ledger_run, manifest, source):
        if row["outcome"] == Outcome.HELD:
            held = held + digest_of_text(repr([row[name] for name in _HELD])) & _ALL_BITS
            count += 1
        elif written_id(row["raw"]) is None:
            reported.add(digest_of_text(row["raw"] or ""))
    return Leftovers(f"{count}:{held:016x}" if count else "", frozenset(reported))


def _may_stay(manifest: Manifest, source: int) -> bool:
    return any(
        count.source == source
        and (count.outcome in (Outcome.HELD, Outcome.REJECTED) or count.reason == Reason.REPORTED)
        for result in manifest.results
        for count in result.counts
    )


def _rows(ledger_run: LedgerRun, manifest: Manifest, source: int) -> Iterator[dict[str, Any]]:
    """Reads the rows of a source that are held, or rejected without a record id."""
    for lane in ledger_run.lanes(manifest):
        for batch in lane.batches(RECORDS, _COLUMNS):
            yield from batch.filter(_stays_new(batch, source)).to_pylist()


def _stays_new(batch: pa.RecordBatch, source: int) -> pa.Array:
    outcome, of_source = batch["outcome"], pc.equal(batch["source"], source)
    without_id = pc.not_equal(pc.fill_null(batch["part"], ""), "")
    was_reported = pc.fill_null(pc.equal(batch["reason"], str(Reason.REPORTED)), False)
    rejected = pc.or_(pc.equal(outcome, int(Outcome.REJECTED)), was_reported)
    return pc.and_(
        of_source, pc.or_(pc.equal(outcome, int(Outcome.HELD)), pc.and_(without_id, rejected))
    )


def has_nothing_new(
    ledger_run: LedgerRun,
    manifest: Manifest,
    live: Collection[str],
    earlier: Mapping[str, Leftovers],
) -> bool:
    """Returns whether a planned run has read only rows that stayed N after earlier runs.

    ``live`` are the names of the sources whose rows get statuses.
    """
    states = {*manifest.states} - {PUBLISHED_OBJECTS}
    if states or any(result.documents for result in manifest.results):
        return False
    if any(entry.files for entry in manifest.sources):
        return False
    held = set()
    for result in manifest.results:
        for count in result.counts:
            if manifest.sources[count.source].name not in live:
                return False
            if count.outcome == Outcome.HELD:
                held.add(count.source)
            elif count.reason != Reason.REPORTED:
                return False
    return all(
        leftovers_of(ledger_run, manifest, source).held
        == earlier.get(manifest.sources[source].name, Leftovers()).held
        for source in held
    )
