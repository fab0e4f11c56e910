"""The columns of the tables that programs read: names, types, descriptions.

A name in several tables means the same in all of them, unless a table describes it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")


class TableColumn(NamedTuple):
    """One column of a table."""

    name: str
    type: pa.DataType
    description: str


def schema_of(columns: tuple[TableColumn, ...]) -> pa.Schema:
    """Returns the Arrow schema of a table."""
    return pa.schema([(column.name, column.type) for column in columns])


_RUN = (
    TableColumn("run", pa.string(), "id of the run"),
    TableColumn("lane", pa.int32(), "number of the lane, from 0"),
)
_NUMBER = TableColumn("number", pa.int64(), "number of the row in its run and lane, from 0")
_SOURCE = TableColumn("source", pa.string(), "name of the source")
_POSITION = (
    TableColumn("position", pa.string(), "position as `explain` takes it"),
    TableColumn("part", pa.string(), "node or file of the position; empty if it has none"),
    TableColumn("high", pa.int64(), "greater number of the position, for instance the record id"),
    TableColumn("low", pa.int64(), "smaller number of the position"),
    TableColumn("ordinal", pa.int32(), "number of the change among those of its record"),
)
_OBJECT = (
    TableColumn("schema", pa.string(), "schema of the class; null if it is not known"),
    TableColumn("table", pa.string(), "class: the table, or its parent table"),
    TableColumn("key", pa.string(), "canonical key of the object"),
)
_RECORDS = TableColumn("records", pa.int32(), "number of source records that the row represents")
_EVENT = (
    TableColumn("event_type", pa.int32(), "event type, 1 to 9"),
    TableColumn(
        "columns", pa.list_(pa.string()), "changed columns; one with several values repeats"
    ),
)
_ORIGIN = (
    TableColumn("event_time", TIME, "time of the change; null if it is not known"),
    TableColumn("perpetrator", pa.string(), "user who made the change; null if it is not known"),
    TableColumn("transaction", pa.string(), "transaction; null in formats without transactions"),
    TableColumn("is_view", pa.bool_(), "true if the class is a view, else null"),
    TableColumn("logged_table", pa.string(), "table as the source names it, if `table` is another"),
    TableColumn("logged_column", pa.string(), "column as the source names it, if it is another"),
    TableColumn(
        "children",
        pa.list_(pa.string()),
        "child table of each of `columns`, null for columns of the class; null if there is none",
    ),
)
_RAW = TableColumn("raw", pa.string(), "rejected record as JSON")

CHANGES: tuple[TableColumn, ...] = (
    *_POSITION,
    TableColumn("file", pa.string(), "file of the record"),
    TableColumn("row", pa.int64(), "number of the record in its file, from 1"),
    _RECORDS,
    *_OBJECT,
    *_EVENT,
    TableColumn(
        "old", pa.list_(pa.string()), "old values of `columns`; null if the change has none"
    ),
    TableColumn(
        "new", pa.list_(pa.string()), "new values of `columns`; null if the change has none"
    ),
    *_ORIGIN,
    TableColumn(
        "outcome",
        pa.string(),
        "null for a change; `ignored`, `held` or `rejected` for a record that gives no change",
    ),
    TableColumn("reason", pa.string(), "reason of the outcome; null for a change"),
    TableColumn("detail", pa.string(), "for rejected records: the problem, and what to do"),
    _RAW,
)
RECORDS: tuple[TableColumn, ...] = (
    *_RUN,
    _NUMBER,
    _SOURCE,
    *_POSITION,
    TableColumn("split", pa.int32(), "number of the part of the input that was read"),
    TableColumn("row", pa.int64(), "number of the record in its file, from 1"),
    _RECORDS,
    *_OBJECT,
    *_EVENT,
    *_ORIGIN,
    TableColumn(
        "outcome", pa.string(), "`published`, `superseded`, `ignored`, `held` or `rejected`"
    ),
    TableColumn("reason", pa.string(), "reason of the outcome; null for published records"),
    TableColumn(
        "by", pa.int64(), "`number` of the decision that superseded it; null if there is none"
    ),
    TableColumn("document", pa.int64(), "`number` of its document; null if there is none"),
    TableColumn("detail", pa.string(), "for rejected records: the problem, and what to do"),
    _RAW,
)
DOCUMENTS: tuple[TableColumn, ...] = (
    *_RUN,
    _NUMBER,
    _SOURCE,
    *_POSITION,
    TableColumn("poll", pa.int64(), "number of the poll"),
    TableColumn("operation", pa.string(), "operations of the document, separated by blanks"),
    *_OBJECT[:2],
    TableColumn("association", pa.string(), "association of the object"),
    TableColumn("new_association", pa.string(), "association after a change of the key, else null"),
    TableColumn("event_id", pa.string(), "event id of the document"),
    TableColumn("records", pa.string(), "ids of all records of the document, separated by commas"),
    TableColumn("refused", pa.string(), "reason why the sink refused the document, else null"),
    TableColumn("text", pa.string(), "the document; null if its file was moved or deleted"),
)
LOOKUPS: tuple[TableColumn, ...] = (
    *_RUN,
    _SOURCE,
    *_OBJECT,
    TableColumn("poll", pa.int64(), "number of the poll"),
    TableColumn("answer", pa.string(), "`row`, `gone` or `refused`"),
    TableColumn("text", pa.string(), "the row as JSON, or why the database refused; null if gone"),
)

_COMPONENT = pa.struct(
    [("name", pa.string()), ("text", pa.string()), ("association_ref", pa.string())]
)
_CHANGE = pa.struct(
    [
        ("kind", pa.string()),
        ("attribute", pa.string()),
        ("value", pa.string()),
        ("type", pa.string()),
        ("association_ref", pa.string()),
        ("components", pa.list_(_COMPONENT)),
    ]
)
OPERATION_TYPE = pa.struct(
    [
        ("kind", pa.string()),
        ("association", pa.string()),
        ("new_association", pa.string()),
        ("class_name", pa.string()),
        ("event_id", pa.string()),
        ("changes", pa.list_(_CHANGE)),
    ]
)
READ_DOCUMENTS: tuple[TableColumn, ...] = (
    TableColumn("file", pa.string(), "file of the document"),
    TableColumn("line", pa.int64(), "line of the document in its file, from 1"),
    TableColumn("text", pa.string(), "the document, XML or JSON"),
    TableColumn(
        "operations",
        pa.list_(OPERATION_TYPE),
        "operations in their order: `kind` is `add`, `modify`, `delete` or `modify-association`; the "
        "`kind` of a change is `add-value`, `remove-value` or `remove-all-values`",
    ),
)

TABLES: Mapping[str, tuple[TableColumn, ...]] = {
    "changes": CHANGES,
    "records": RECORDS,
    "documents": DOCUMENTS,
    "lookups": LOOKUPS,
    "read_documents": READ_DOCUMENTS,
}
"""The tables by the names that the documentation gives them."""
