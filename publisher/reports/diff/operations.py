"""Reads the operations of documents, with a digest of the changes of each attribute."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence

from publisher.consumer import (
    Add,
    AttributeChange,
    Delete,
    DocumentError,
    Modify,
    ModifyAssociation,
    Operation,
    parse_document,
)
from publisher.ledger.parts import LedgerPart
from publisher.model.event_ids import without_origin
from publisher.reports.diff.compare_objects import (
    ComparedDocument,
    ComparedOperation,
    DocumentPlace,
)
from publisher.reports.diff.ledger_rows import read_texts, together

UNREADABLE = "unreadable"
"""Kind of the operation in place of a document larger than a consumer reads."""


def read_operations(
    parts: Sequence[LedgerPart], documents: Collection[ComparedDocument]
) -> dict[DocumentPlace, list[ComparedOperation]]:
    """Reads the operations of documents by their places.

    Raises:
        UsageError: A document was moved or deleted.
        FatalError: A document is damaged.
    """
    by_part: dict[int, list[ComparedDocument]] = {}
    for document in documents:
        by_part.setdefault(document.place.part, []).append(document)
    found = {}
    for number, of_part in by_part.items():
        by_row = {document.place.row: document for document in of_part}
        sizes = [document.place.length for document in by_row.values()]
        for rows in together(list(by_row), sizes):
            for row, text in zip(rows, read_texts(parts[number], rows), strict=True):
                found[by_row[row].place] = list(_operations(by_row[row], text))
    return found


def _operations(document: ComparedDocument, text: str) -> Iterator[ComparedOperation]:
    known, place = document.is_known, document.place
    operations = parse_operations(text)
    if operations is None:
        unread = (("", document.digest),)
        id_ = document.event_id
        yield ComparedOperation(id_, known, False, UNREADABLE, "", unread, place, 0)
        return
    for number, each in enumerate(operations):
        kind, association, changes = parts_of(each)
        values = tuple(_digests(changes))
        own = each.event_id and without_origin(each.event_id)
        origin = (own or document.event_id, known, own is not None)
        yield ComparedOperation(*origin, kind, association, values, place, number)


def parse_operations(text: str) -> tuple[Operation, ...] | None:
    """The operations of a document; ``None`` if it is too large to be read."""
    try:
        return parse_document(text)
    except DocumentError:  # larger than the limits of a consumer
        return None


def parts_of(operation: Operation) -> tuple[str, str, Sequence[AttributeChange]]:
    """The kind of an operation, the association, and the changes of attributes."""
    match operation:
        case Add(association=association, changes=changes):
            return "add", association, changes
        case Modify(association=association, changes=changes):
            return "modify", association, changes
        case Delete(association=association):
            return "delete", association, ()
        case ModifyAssociation(old, new):
            return "modify-association", f"{old} → {new}", ()


def _digests(changes: Sequence[AttributeChange]) -> Iterator[tuple[str, bytes]]:
    """A digest of all changes of each attribute, in the order of the attributes' first changes."""
    texts: dict[str, list[str]] = {}
    for change in changes:
        texts.setdefault(change.attribute, []).append(repr(change))
    for attribute, of_attribute in texts.items():
        data = "\n".join(of_attribute).encode()
        yield attribute, hashlib.blake2b(data, digest_size=8).digest()
