"""The status of each record of a live event log, computed from a committed ledger.

S published, W nothing to publish, E rejected, F permanently refused by the sink (event log page,
status); a superseded record has the status of its superseding record.  Held records stay N; records that were
ignored because of their status keep that status.

Works by the column: memory holds about 20 bytes for each record of the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.dispatch.refusals import Refusal
from publisher.ledger.lane_rows import LaneRows
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.ledger.tables import RECORDS
from publisher.model.arrays import (
    ByteArray,
    Int64Array,
    begins_island,
    booleans,
    integers,
)
from publisher.model.change import STATUS_OF, Outcome, Reason, Status

WINDOW = 1 << 20
"""Number of records whose letters are written together."""

NONE = 0
BIT_OF = {status: 1 << place for place, status in enumerate(Status)}
STATUS_OF_BIT = {bit: status for status, bit in BIT_OF.items()}
"""Statuses as bits, since records of one id may ask for different ones."""
_N, _S, _W, _E, _F = BIT_OF.values()

_BIT_OF_OUTCOME = np.zeros(8, np.uint8)
_BIT_OF_OUTCOME[list(STATUS_OF)] = [BIT_OF[status] for status in STATUS_OF.values()]
_UNCHANGED = pa.array([Reason.STATUS, Reason.OUT_OF_RANGE, Reason.REPORTED], pa.string())
_COLUMNS = ["source", "part", "high", "outcome", "reason", "by", "document", "fingerprint"]


def _letter_of(bits: int) -> int:
    """The letter of a row with these records, as ASCII code; 0 for a row that stays as it is.

    Ids are unique by the log's definition.  If they are not, rows of one id cannot be told apart and
    get one letter: the gravest of F and E, else S before W.  A held row makes all rows of its id wait.
    If one of them was published, it would be published again at each poll, so that is an error.
    """
    if bits & _F:
        return ord(Status.FATAL)
    if bits & _E or bits & (_S | _N) == _S | _N:
        return ord(Status.ERROR)
    if bits & _N:
        return 0
    return ord(Status.SUCCESS) if bits & _S else ord(Status.WARNING) if bits & _W else 0


_LETTERS = np.array([_letter_of(bits) for bits in range(32)], np.uint8)


@dataclass(frozen=True, slots=True)
class StatusWindow:
    """Record ids, sorted and unique, and the letter of each as ASCII code."""

    ids: Int64Array
    letters: ByteArray
    contradictory: Int64Array
    """Ids that got E because one of their records was published and another is held."""
    fingerprints: Int64Array
    """Fingerprints of all rows of these ids, sorted."""


RefusedDocuments = Mapping[tuple[int, int], tuple[str, str]]
"""Reason and detail of permanently refused documents, by lane and number in the lane."""


def refused_documents(refusals: Iterable[Refusal]) -> RefusedDocuments:
    """The refusals of dispatch records, by document."""
    return {(entry.lane, entry.document): (entry.reason, entry.detail) for entry in refusals}


class ReadProgress(NamedTuple):
    """Progress of a run in a live source."""

    greatest: int = 0
    """Greatest record id; 0 for none."""
    late: int = 0
    """Number of published records with ids below the greatest that an earlier run had read."""


class LaneLetters:
    """The letters of one lane's records of one source.

    Raises:
        FatalError: A file of the ledger is missing or damaged.
    """

    def __init__(
        self, rows: LaneRows, source: int, refused: Collection[int] = (), behind: int = 0
    ) -> None:
        """``refused`` are numbers of documents of the lane; ``behind`` is the greatest record id that
        an earlier run had read."""
        self.lane = rows.lane
        self._rows = rows
        table = rows.read(RECORDS, _COLUMNS)
        outcomes, of_source = integers(table["outcome"]), integers(table["source"]) == source
        self.ids: Int64Array = integers(table["high"])
        self.has_id = booleans(pc.equal(pc.fill_null(table["part"], ""), ""))
        """Flags the records with a record id; the others have a place in the input instead."""
        self.fingerprints: Int64Array = integers(table["fingerprint"])
        """The fingerprints of records; 0 for those without."""
        self.bits: ByteArray = _BIT_OF_OUTCOME[outcomes]
        """Status bit of each record of the lane; ``NONE`` for records of other sources."""
        is_unchanged = booleans(pc.is_in(table["reason"], value_set=_UNCHANGED))
        self.bits[~of_source | (is_unchanged & (outcomes == Outcome.IGNORED))] = NONE
        if refused:
            is_refused = np.isin(integers(table["document"]), np.array(sorted(refused), np.int64))
            self.bits[is_refused & (self.bits == _S)] = _F
        self.superseded = np.flatnonzero(of_source & (outcomes == Outcome.SUPERSEDED))
        """Rows of the superseded records."""
        self.by: Int64Array = integers(table["by"])[self.superseded]
        """Rows of the records that superseded them; -1 for a record that is not in the lane."""
        self._resolve_superseded_records()
        ids = self.ids[of_source & self.has_id]
        published = self.ids[of_source & self.has_id & (outcomes == Outcome.PUBLISHED)]
        late = int(np.count_nonzero(published < behind))
        self.progress = ReadProgress(int(ids.max(initial=0)), late)

    def _resolve_superseded_records(self) -> None:
        """Gives superseded records the bits of their superseders; S if there is none."""
        self.bits[self.superseded] = np.where(self.by < 0, _S, NONE)
        unresolved = np.flatnonzero(self.by >= 0)
        while len(unresolved):
            bits = self.bits[self.by[unresolved]]
            self.bits[self.superseded[unresolved]] = bits
            remaining = unresolved[bits == NONE]
            if len(remaining) == len(unresolved):
                return  # the superseders have no status
            unresolved = remaining

    def read(self, rows: Int64Array, columns: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Reads columns of the records in these rows, which are sorted."""
        if not len(rows):
            return
        first = 0
        for batch in self._rows.batches(RECORDS, columns):
            low, high = np.searchsorted(rows, (first, first + batch.num_rows))
            if low < high:
                records = batch.take(pa.array(rows[low:high] - first)).to_pylist()
                yield from zip(rows[low:high].tolist(), records, strict=True)
            first += batch.num_rows


def lanes_of(
    ledger_run: LedgerRun,
    manifest: Manifest,
    source: int,
    refused: RefusedDocuments,
    behind: int = 0,
) -> list[LaneLetters]:
    """The letters of all lanes of one source of a ledger; see ``LaneLetters`` for ``behind``."""
    by_lane: dict[int, list[int]] = {}
    for lane, document in refused:
        by_lane.setdefault(lane, []).append(document)
    return [
        LaneLetters(rows, source, by_lane.get(rows.lane, ()), behind)
        for rows in ledger_run.lanes(manifest)
    ]


def join_progress(lanes: Sequence[LaneLetters]) -> ReadProgress:
    """Joins the progress of a run in the lanes of a source."""
    parts = [lane.progress for lane in lanes]
    greatest = max((part.greatest for part in parts), default=0)
    return ReadProgress(greatest, sum(part.late for part in parts))


def status_windows(lanes: Sequence[LaneLetters], window: int = WINDOW) -> Iterator[StatusWindow]:
    """Yields the letters by record id, in windows of about ``window`` records, sorted over all windows.

    Omits records whose id is not a positive number; ``rejected_ids`` yields them.
    """
    chosen = [(lane.bits != NONE) & lane.has_id for lane in lanes]
    pairs = [*zip(lanes, chosen, strict=True)]
    ids: Int64Array = np.concatenate([lane.ids[rows] for lane, rows in pairs])
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    bits = np.concatenate([lane.bits[rows] for lane, rows in pairs])[order]
    fingerprints = np.concatenate([lane.fingerprints[rows] for lane, rows in pairs])[order]
    cuts = np.searchsorted(ids, ids[window::window])  # the records of one id stay together
    for low, high in pairwise([0, *cuts.tolist(), len(ids)]):
        if low < high:
            merged = _merge(ids[low:high], bits[low:high], np.sort(fingerprints[low:high]))
            if len(merged.ids):
                yield merged


def _merge(ids: Int64Array, bits: ByteArray, fingerprints: Int64Array) -> StatusWindow:
    """Gives each of the sorted ids one letter, and removes ids whose rows stay as they are."""
    firsts = np.flatnonzero(begins_island(ids))
    ids, bits = ids[firsts], np.bitwise_or.reduceat(bits, firsts)
    letters = _LETTERS[bits]
    changes = letters != 0
    contradictory = ids[(bits & (_S | _E | _F | _N)) == _S | _N]
    return StatusWindow(ids[changes], letters[changes], contradictory, fingerprints)
