"""Files of documents as rows of the table of documents that were read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from publisher.consumer.errors import DocumentError, Origin
from publisher.consumer.operations import (
    Add,
    AddValue,
    AttributeChange,
    Delete,
    Modify,
    ModifyAssociation,
    Operation,
    RemoveAllValues,
)
from publisher.consumer.parse import parse_document
from publisher.tables.columns import OPERATION_TYPE, READ_DOCUMENTS, schema_of
from publisher.xds.framing import BROKEN_FILE, documents

DOCUMENT_ROWS = schema_of(READ_DOCUMENTS)
_ROWS = 1_000
_BYTES = 8 << 20
"""Rows and bytes of documents in a batch; whichever comes first."""


def read_document_file(path: str) -> Iterator[pa.RecordBatch]:
    """Reads the documents of a file as batches of ``DOCUMENT_ROWS``.

    Raises:
        DocumentError: A document is not of this program, or the file cannot be read.
    """
    rows: list[tuple[Origin, str]] = []
    size = 0
    for row in _read(path):
        rows.append(row)
        size += len(row[1])
        if len(rows) >= _ROWS or size >= _BYTES:
            yield _build_batch(rows)
            rows, size = [], 0
    if rows:
        yield _build_batch(rows)


def _read(path: str) -> Iterator[tuple[Origin, str]]:
    origin = Origin(path, 0)
    try:
        for framed in documents(Path(path)):
            origin = Origin(path, framed.line)
            if framed.problem is not None:
                raise DocumentError(origin, framed.problem)
            yield origin, framed.data.decode()
    except BROKEN_FILE as error:
        raise DocumentError(
            origin, f"cannot be read ({error}): check the path, or copy the file again"
        ) from error
    except UnicodeDecodeError as error:
        raise DocumentError(origin, f"not UTF-8 ({error}): convert the file to UTF-8") from error


def _build_batch(rows: list[tuple[Origin, str]]) -> pa.RecordBatch:
    origins, texts = zip(*rows, strict=True)
    columns = [
        [origin.part for origin in origins],
        [origin.number for origin in origins],
        texts,
        operation_lists(rows),
    ]
    arrays = [
        pa.array(values, field.type) for values, field in zip(columns, DOCUMENT_ROWS, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=DOCUMENT_ROWS)


def operation_lists(documents: Iterable[tuple[Origin, str | None]]) -> pa.Array:
    """Parses the operations of documents into a column of lists of ``OPERATION_TYPE``; null for null.

    Raises:
        DocumentError: A document is not of this program.
    """
    lists = [
        None if text is None else list(map(_plain, parse_document(text, origin)))
        for origin, text in documents
    ]
    return pa.array(lists, pa.list_(OPERATION_TYPE))


def _plain(operation: Operation) -> dict[str, Any]:
    """The fields of an operation as ``OPERATION_TYPE`` has them."""
    fields: dict[str, Any] = {"event_id": operation.event_id, "changes": []}
    match operation:
        case ModifyAssociation(old, new):
            names = {"association": old, "new_association": new}
            return {"kind": "modify-association", **names, **fields}
        case Delete(association, class_name):
            kind = "delete"
        case Add(association, class_name, changes) | Modify(association, class_name, changes):
            kind = "add" if isinstance(operation, Add) else "modify"
            fields["changes"] = list(map(_plain_change, changes))
    return {"kind": kind, "association": association, "class_name": class_name, **fields}


def _plain_change(change: AttributeChange) -> dict[str, Any]:
    if isinstance(change, RemoveAllValues):
        return {"kind": "remove-all-values", "attribute": change.attribute, "components": []}
    value = change.value
    return {
        "kind": "add-value" if isinstance(change, AddValue) else "remove-value",
        "attribute": change.attribute,
        "value": value.text,
        "type": value.type,
        "association_ref": value.association_ref,
        "components": list(map(asdict, value.components)),
    }
