"""Histories of objects: their events with outcomes, and the changes in their documents."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from publisher.consumer import (
    Add,
    AddValue,
    AttributeChange,
    Delete,
    DocumentError,
    Modify,
    ModifyAssociation,
    Operation,
    RemoveAllValues,
    RemoveValue,
    Value,
    parse_document,
)
from publisher.dispatch.refusals import refusals_of
from publisher.ledger.parts import LedgerPart, document_rows
from publisher.model.change import EventType, Object, Outcome, Position, Reason
from publisher.model.reason_texts import EVENT_NAMES, REASON_TEXTS
from publisher.reports.selectors import PositionTexts

_COLUMNS = (
    *("source", *Position._fields, "schema", "table", "key", "event_type", "columns"),
    *("event_time", "perpetrator", "outcome", "reason", "detail", "document"),
)
_OF_DOCUMENTS = ("operation", "association", "event_id")


@dataclass(frozen=True, slots=True)
class AttributeDiff:
    """Values that a document removes from an attribute, and values that it adds."""

    attribute: str
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removes_all: bool = False


@dataclass(frozen=True, slots=True)
class HistoryDocument:
    """A document of an object."""

    operation: str
    association: str
    event_id: str
    text: str | None
    """``None`` if the document was moved or deleted at the sink."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """A source record of an object with its outcome."""

    run: str
    source: str
    position: str
    time: int | None
    """Microseconds since 1970-01-01 UTC."""
    perpetrator: str | None
    event: str | None
    columns: tuple[str, ...]
    outcome: str
    reason: str | None
    meaning: str
    document: HistoryDocument | None
    """Events that were published together have the same document."""


MAX_EVENTS = 50
"""Maximum number of events of an object in memory."""


@dataclass(slots=True)
class ObjectHistory:
    """The newest events of one object, oldest first, and the number of all."""

    object: Object
    events: deque[HistoryEvent] = field(default_factory=lambda: deque(maxlen=MAX_EVENTS))
    count: int = 0

    def add(self, event: HistoryEvent) -> None:
        """Adds the next event."""
        self.events.append(event)
        self.count += 1

    @property
    def name(self) -> str:
        """The association of the last document, or the key and table of an object without documents."""
        for event in reversed(self.events):
            if event.document is not None:
                return event.document.association
        return f"{self.object.key} of {self.object.table}"


def read_histories(
    part: LedgerPart, objects: Collection[Object]
) -> Iterator[tuple[Object, HistoryEvent]]:
    """Yields the events of these objects in the order of their lanes.

    Raises:
        FatalError: A file of the ledger is missing or damaged.
    """
    keys = pc.field("key").isin(sorted({obj.key for obj in objects}))
    wanted = set(objects)
    records = part.records(_COLUMNS, keys)
    if not records.num_rows:
        return
    documents = part.documents(_OF_DOCUMENTS)
    rows = document_rows(records, documents).tolist()
    of_rows = _read_documents(part, documents, sorted({row for row in rows if row >= 0}))
    reader = _EventReader(part)
    for entry, row in zip(records.to_pylist(), rows, strict=True):
        obj = Object(entry["schema"], entry["table"], entry["key"])
        if obj in wanted:
            yield obj, reader.event(entry, of_rows.get(row))


def _read_documents(
    part: LedgerPart, documents: pa.Table, rows: Sequence[int]
) -> dict[int, HistoryDocument]:
    """Reads documents by their row in the index."""
    entries = documents.take(pa.array(rows, pa.int64())).to_pylist()
    return {
        row: HistoryDocument(entry["operation"], entry["association"], entry["event_id"], text)
        for row, entry, text in zip(rows, entries, part.texts(rows), strict=True)
    }


class _EventReader:
    """Turns the records of a part into events."""

    def __init__(self, part: LedgerPart) -> None:
        self._runs = part.runs
        self._positions = PositionTexts(part.runs)
        self._refused = refusals_of(part.runs)

    def event(self, entry: Mapping[str, Any], document: HistoryDocument | None) -> HistoryEvent:
        manifest = self._runs[entry["run"]].manifest
        refusal = self._refused.get((entry["run"], entry["lane"], entry["document"]))
        type_ = entry["event_type"]
        return HistoryEvent(
            run=manifest.run,
            source=manifest.sources[entry["source"]].name,
            position=self._positions.of(entry),
            time=entry["event_time"],
            perpetrator=entry["perpetrator"],
            event=None if type_ is None else EVENT_NAMES[EventType(type_)],
            columns=tuple(entry["columns"] or ()),
            outcome=(Outcome(entry["outcome"]) if refusal is None else Outcome.REJECTED).label,
            reason=entry["reason"] if refusal is None else refusal.reason,
            meaning=_meaning(entry["reason"], entry["detail"])
            if refusal is None
            else refusal.detail,
            document=document,
        )


def _meaning(reason: str | None, detail: str | None) -> str:
    return detail or (REASON_TEXTS.get(Reason(reason), "") if reason else "")


def read_diffs(text: str) -> tuple[AttributeDiff, ...] | None:
    """The changes of a document by attribute; ``None`` if it is too large to be read."""
    try:
        return tuple(
            diff for operation in parse_document(text) for diff in operation_diffs(operation)
        )
    except DocumentError:  # larger than the limits of a consumer
        return None


def operation_diffs(operation: Operation) -> Iterator[AttributeDiff]:
    """Yields the changes of an operation by attribute."""
    match operation:
        case Add(changes=changes) | Modify(changes=changes):
            by_attribute: dict[str, list[AttributeChange]] = {}
            for change in changes:
                by_attribute.setdefault(change.attribute, []).append(change)
            yield from (_diff(name, each) for name, each in by_attribute.items())
        case ModifyAssociation(old, new):
            yield AttributeDiff("association", (old,), (new,))
        case Delete():
            return


def _diff(attribute: str, changes: Sequence[AttributeChange]) -> AttributeDiff:
    """The effect of changes of one attribute together: values that come and go again are left out."""
    removed: dict[str, None] = {}
    added: dict[str, None] = {}
    removes_all = False
    for change in changes:
        match change:
            case AddValue(_, value):
                added[value_text(value)] = None
            case RemoveValue(_, value):
                text = value_text(value)
                if text in added:
                    del added[text]
                else:
                    removed[text] = None
            case RemoveAllValues():
                removes_all = True
                added.clear()
                removed.clear()
    return AttributeDiff(attribute, tuple(removed), tuple(added), removes_all)


def value_text(value: Value) -> str:
    """The text of a value, a reference with the object that it refers to."""
    if value.components:
        return ", ".join(f"{part.name}={part.text}" for part in value.components)
    if value.association_ref is not None and value.association_ref != value.text:
        return f"{value.text} → {value.association_ref}"
    return value.text
