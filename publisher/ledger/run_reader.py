"""Reads the rows of one run as records, documents and look-ups."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.ledger.lane_result import part_name
from publisher.ledger.lookups import LookupAnswer
from publisher.ledger.parts import LedgerPart, parts_of
from publisher.ledger.runs import StoredRun
from publisher.ledger.tables import DOCUMENTS, LOOKUPS, RECORDS, RunTable
from publisher.model.change import Object, Outcome, Position, Reason

_ROWS_AT_ONCE = 1_000
Place = tuple[int, int]
"""The lane of a row, and its number in the lane."""


@dataclass(frozen=True, slots=True)
class DecidedRecord:
    """A record of the ledger with its outcome."""

    lane: int
    number: int
    """Number of the record in its lane, in the order of arrival."""
    source: int
    position: Position
    split: int
    row: int
    """Number of the record in its file."""
    object: Object | None
    event_type: int | None
    columns: tuple[str, ...]
    event_time: int | None
    perpetrator: str | None
    outcome: Outcome
    reason: Reason | None
    by: int
    document: int
    detail: str | None
    raw: str | None
    is_view: bool
    logged_table: str | None
    logged_column: str | None
    children: tuple[str | None, ...]
    """The child table of each column; empty if no column belongs to one."""
    fingerprint: int | None


@dataclass(frozen=True, slots=True)
class PublishedDocument:
    """A document of the ledger: its entry in the index, and its text."""

    number: int
    operation: str
    association: str
    new_association: str | None
    """The association after a change of the key."""
    event_id: str
    poll: int
    records: str
    part: str
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class RecordedLookup:
    """A look-up of the ledger: the kind of answer, and the row as a mapping."""

    poll: int
    answer: LookupAnswer
    row: dict[str, str | None] | None
    detail: str | None


class RunReader:
    """Reads the rows of one run, in the order of its lanes.

    ``lanes`` are those that may have the rows; others may be searched, too.  All methods raise ``FatalError``
    if a file of the ledger is missing or damaged."""

    def __init__(self, run: StoredRun, parts: Collection[LedgerPart] = ()) -> None:
        """``parts`` are those of the run, if it is not committed."""
        self.run = run
        self._parts = parts or [*parts_of([run])]

    def records(
        self, condition: pc.Expression | None = None, lanes: Collection[int] | None = None
    ) -> Iterator[DecidedRecord]:
        """Yields the records that fit a condition, by default all."""
        yield from map(_record, self._entries(RECORDS, condition, lanes))

    def documents(self) -> Iterator[PublishedDocument]:
        """Yields all documents."""
        yield from map(self._document, self._entries(DOCUMENTS))

    def find_records(self, places: Collection[Place]) -> dict[Place, DecidedRecord]:
        """Finds records by their places."""
        return {place: _record(entry) for place, entry in self._find(RECORDS, places).items()}

    def find_documents(self, places: Collection[Place]) -> dict[Place, PublishedDocument]:
        """Finds documents by their places."""
        found = self._find(DOCUMENTS, places)
        return {place: self._document(entry) for place, entry in found.items()}

    def lookups(
        self, objects: Collection[Object]
    ) -> dict[tuple[int, Object], list[RecordedLookup]]:
        """Reads the look-ups of objects in their order, by source and object."""
        lookups: dict[tuple[int, Object], list[RecordedLookup]] = {}
        condition = pc.field("key").isin(sorted({obj.key for obj in objects}))
        for entry in self._entries(LOOKUPS, condition) if objects else ():
            obj = Object(entry["schema"], entry["table"], entry["key"])
            lookups.setdefault((entry["source"], obj), []).append(_lookup(entry))
        return lookups

    def _find(self, table: RunTable, places: Collection[Place]) -> dict[Place, Mapping[str, Any]]:
        if not places:
            return {}
        condition = pc.field("number").isin(sorted({number for _, number in places}))
        entries = self._entries(table, condition, {lane for lane, _ in places})
        found = {(entry["lane"], entry["number"]): entry for entry in entries}
        for lane, number in set(places) - found.keys():
            raise FatalError(
                f"the ledger of run {self.run.manifest.run} has no row {number} in the {table.name} of lane "
                f"{lane}: it is damaged, publish again"
            )
        return {place: found[place] for place in places}

    def _entries(
        self,
        table: RunTable,
        condition: pc.Expression | None = None,
        lanes: Collection[int] | None = None,
    ) -> Iterator[Mapping[str, Any]]:
        for part in self._parts:
            if lanes is None or part.lane in (None, *lanes):
                for rows in part.rows(table, condition):
                    for batch in rows.to_batches(_ROWS_AT_ONCE):
                        yield from batch.to_pylist()

    def _document(self, entry: Mapping[str, Any]) -> PublishedDocument:
        part = part_name(entry["lane"])
        if entry["text"] is None:
            raise FatalError(
                f"{self.run.documents / part} is missing: restore it, or publish again"
            )
        copied = ("number", "operation", "association", "new_association", "event_id", "poll")
        more = ("records", "offset", "text")
        return PublishedDocument(part=part, **{name: entry[name] for name in (*copied, *more)})


def _lookup(entry: Mapping[str, Any]) -> RecordedLookup:
    answer, text = LookupAnswer(entry["answer"]), entry["text"]
    is_row = answer is LookupAnswer.ROW
    return RecordedLookup(
        entry["poll"], answer, json.loads(text) if is_row else None, None if is_row else text
    )


def _record(entry: Mapping[str, Any]) -> DecidedRecord:
    position = Position(*(entry[name] for name in Position._fields))
    obj = None
    if entry["key"] is not None:
        obj = Object(entry["schema"], entry["table"], entry["key"])
    copied = (
        *("lane", "number", "source", "split", "row", "event_type", "event_time", "perpetrator"),
        *("by", "document", "detail", "raw", "logged_table", "logged_column", "fingerprint"),
    )
    return DecidedRecord(
        position=position._replace(part=position.part or ""),
        object=obj,
        columns=tuple(entry["columns"] or ()),
        outcome=Outcome(entry["outcome"]),
        reason=None if entry["reason"] is None else Reason(entry["reason"]),
        is_view=bool(entry["is_view"]),
        children=tuple(entry["children"] or ()),
        **{name: entry[name] for name in copied},
    )
