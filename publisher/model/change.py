"""The one model that every source format is mapped to.

A *change* is one normalised change of one row, or of some of its columns.  Event types 1 to 8 of
the IDM driver for JDBC are the normal form.  A column of a change is in one of three states, kept
outside the value: *absent* (its name is not among ``columns``, or the whole image ``old`` or ``new``
is ``None``), *null* (the element is ``None``) or *a value* (the element is text).  A column that has several
values appears once for each of them, side by side.
"""

from __future__ import annotations

import json
from enum import IntEnum, StrEnum
from typing import NamedTuple


class EventType(IntEnum):
    """Type of a change, with the driver's numbers (event log columns, table of event types)."""

    INSERT_FIELD = 1
    UPDATE_FIELD = 2
    REPLACE_FIELD = 3
    """Update field, remove all values: the old value does not matter."""
    DELETE_ROW = 4
    INSERT_ROW_QUERY_BACK = 5
    UPDATE_ROW_QUERY_BACK = 6
    INSERT_FIELD_QUERY_BACK = 7
    UPDATE_FIELD_QUERY_BACK = 8
    KEY_CHANGE = 9
    """Change of the key itself (``key_changes``): not a number of the driver, and not read from logs."""


PER_FIELD = frozenset({1, 2, 3, 7, 8})
"""Event types of single columns."""

QUERY_BACK = frozenset({5, 6, 7, 8})
"""Event types whose values are read from the database at publication."""

ROW_QUERY_BACK = frozenset({5, 6})

INSERTS = frozenset({1, 5, 7})
"""Event types after which an object exists that may not have existed before."""


class Outcome(IntEnum):
    """Result of a source record.  Every record has exactly one of the five outcomes.

    The numbers are stored in ledger: never change or reuse one.
    """

    PUBLISHED = 1
    SUPERSEDED = 2
    IGNORED = 3
    HELD = 4
    REJECTED = 5

    @property
    def label(self) -> str:
        """The name of the outcome in reports and metrics."""
        return self.name.lower()


class Status(StrEnum):
    """Status letter of a row of an event log."""

    NEW = "N"
    SUCCESS = "S"
    WARNING = "W"
    ERROR = "E"
    FATAL = "F"


STATUS_OF = {
    Outcome.PUBLISHED: Status.SUCCESS,
    Outcome.IGNORED: Status.WARNING,
    Outcome.HELD: Status.NEW,
    Outcome.REJECTED: Status.ERROR,
}
"""Status of a record by its outcome; a superseded record gets the status of the change that superseded it."""

LOG_COLUMNS = (
    "record_id",
    "table_key",
    "status",
    "event_type",
    "event_time",
    "perpetrator",
    "table_name",
    "column_name",
    "old_value",
    "new_value",
)
"""Columns of an event log in the order of driver 3.5 and later (event log columns)."""


class Reason(StrEnum):
    """Reason of an outcome.  The values are stored in ledger: never change or reuse one."""

    # superseded
    ROW_QUERY_BACK = "row-query-back"
    FIELD_QUERY_BACK = "field-query-back"
    # ignored
    STATUS = "status"
    LOOPBACK = "loopback"
    EXCLUDED = "excluded"
    OUT_OF_RANGE = "out-of-range"
    DUPLICATE = "duplicate"
    ENDED_BY_DELETE = "ended-by-delete"
    ROW_GONE = "row-gone"
    CHILD_AFTER_DELETE = "child-after-delete"
    NOTHING_TO_PUBLISH = "nothing-to-publish"
    COMMIT = "commit"
    EMPTY_TABLE = "empty-table"
    UNCHANGED = "unchanged"
    BASELINE = "baseline"
    ROLLBACK = "rollback"
    NOTHING_TO_COMMIT = "nothing-to-commit"
    NOT_CHOSEN = "not-chosen"
    REPORTED = "reported-before"
    # held
    FUTURE = "future"
    OPEN_TRANSACTION = "open-transaction"
    OPEN_PAIR = "open-pair"
    # rejected
    BROKEN_RECORD = "broken-record"
    RECORD_ID = "record-id"
    EVENT_TYPE = "event-type"
    EVENT_TIME = "event-time"
    TABLE_NAME = "table-name"
    TABLE_KEY = "table-key"
    COLUMN_NAME = "column-name"
    CHILD_ROW = "child-row"
    VALUE = "value"
    SEVERAL_VALUES = "several-values"
    FORBIDDEN_CHARACTER = "forbidden-character"
    DOUBLE_RECORD = "double-record"
    NO_DATABASE = "no-database"
    DATABASE_REFUSED = "database-refused"
    OPERATION_CODE = "operation-code"
    CHANGE_SEQ = "change-seq"
    CHANGE_OPERATION = "change-operation"
    CHANGE_MASK = "change-mask"
    TRUNCATE = "truncate"
    BEFORE_IMAGE_ALONE = "before-image-alone"
    KEY_CHANGE = "key-change"
    UNMASKED_UPDATE = "unmasked-update"
    PARTS = "parts"
    ROW_IMAGE = "row-image"
    HELD_BACK = "held-back"
    LONG_VALUE = "long-value"


class Position(NamedTuple):
    """Place of a change in its source.  Tuples order the changes of a source totally.

    ``part`` is the node or file ("" if the source has no parts), ``high`` and ``low`` are 64-bit
    integers (``high`` is the record_id of an event log), ``ordinal`` numbers the operations of one
    record.
    """

    part: str
    high: int
    low: int
    ordinal: int

    def text(self) -> str:
        """The position in the notation of users: ``4711`` of an event log, ``events.csv:17`` of a file."""
        return f"{self.part}:{self.high}" if self.part else str(self.high)


class Object(NamedTuple):
    """The row of a change: schema (``None`` if unknown), table and canonical key text.

    The key text is ``column=value`` joined with ``+``, columns in code-point order, values in double
    quotes where the grammar requires it; equal text means the same row.
    """

    schema: str | None
    table: str
    key: str

    @property
    def qualified_table(self) -> str:
        """The table with its schema, if that is known."""
        return f"{self.schema}.{self.table}" if self.schema else self.table


class Change(NamedTuple):
    """One normalised change.

    ``row`` numbers the changes of a lane in the order of their arrival and identifies the change in
    decisions.  ``rank`` is the place of the change in its event log, from which polls are cut: by record
    id, or by event time with future events.  Tasks that read splits set it to the record id; the rank
    replaces the record id before planning.  ``event_time`` is in microseconds since 1970-01-01 UTC.
    """

    row: int
    object: Object
    position: Position
    rank: int
    event_type: int
    columns: tuple[str, ...]
    old: tuple[str | None, ...] | None
    new: tuple[str | None, ...] | None
    event_time: int | None = None
    perpetrator: str | None = None
    transaction: str | None = None


def raw_record(change: Change, position: str) -> str:
    """A rejected change as JSON text; ``position`` is in the source's notation."""
    record = change._asdict() | {"object": change.object._asdict(), "position": position}
    del record["row"], record["rank"]
    return json.dumps(record, ensure_ascii=False)


TALLY = 127
"""Value of ``outcome`` in the tally of a split: its ``row`` holds the number of records of the split, counted
where they were framed."""

IDS = 126
"""Value of ``outcome`` in rows that give each lane the file with the record ids of a split
(``event_ranks``)."""
