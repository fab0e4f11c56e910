"""The one model that every source format is mapped to.

A *change* is one normalised change of one row, or of some of its columns.  Event types 1 to 8 of
the IDM driver for JDBC are the normal form.  A column of a change is in one of three states, kept
outside the value: *absent* (its name is not among ``columns``, or the whole image ``old`` or ``new``
is ``None``), *null* (the element is ``None``) or *a value* (the element is text).
"""

from __future__ import annotations

import json
from enum import IntEnum, StrEnum
from typing import NamedTuple

import pyarrow as pa


class EventType(IntEnum):
    """What happened, in the driver's own numbers (event log columns, table of event types)."""

    INSERT_FIELD = 1
    UPDATE_FIELD = 2
    REPLACE_FIELD = 3
    """Update field, remove all values: the old value is not looked at."""
    DELETE_ROW = 4
    INSERT_ROW_QUERY_BACK = 5
    UPDATE_ROW_QUERY_BACK = 6
    INSERT_FIELD_QUERY_BACK = 7
    UPDATE_FIELD_QUERY_BACK = 8


PER_FIELD = frozenset({1, 2, 3, 7, 8})
"""Event types that speak of one column each."""

PER_FIELD_LOGGED = frozenset({1, 2, 3})
"""Per-field event types whose values stand in the log."""

QUERY_BACK = frozenset({5, 6, 7, 8})
"""Event types whose values are read from the database when they are published."""

ROW_QUERY_BACK = frozenset({5, 6})


class Outcome(IntEnum):
    """Where a source record ends.  Every record ends in exactly one of the five.

    The numbers are stored in journals: never change or reuse one.
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


class Reason(StrEnum):
    """Why a record ended as it did.  Stored in journals: never change or reuse one."""

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
    VALUE = "value"
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


class Position(NamedTuple):
    """Where a change stands in its source.  Tuples order the changes of a source totally.

    ``part`` is the node or file ("" where the source is one whole), ``high`` and ``low`` are 64-bit
    integers (an event log has its record_id in ``high``), ``ordinal`` counts the operations that one
    record gives.
    """

    part: str
    high: int
    low: int
    ordinal: int

    def text(self) -> str:
        """The position as users know it: ``4711`` of an event log, ``events.csv:17`` of a file."""
        return f"{self.part}:{self.high}" if self.part else str(self.high)


class Object(NamedTuple):
    """What a change is about: schema (``None`` where unknown), table and canonical key text.

    The key text is ``column=value`` joined with ``+``, columns in code-point order, values in double
    quotes where the grammar asks for it; so equal text means the same row.
    """

    schema: str | None
    table: str
    key: str


class Change(NamedTuple):
    """One normalised change.

    ``row`` numbers the changes of a lane in the order of their arrival and names the change in
    decisions.  ``rank`` orders an event log for its polls: the place of its record id among those of the
    source, or the place by event time with future events; tasks that read splits give the record id.
    ``event_time`` is in microseconds since 1970-01-01 UTC.
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


class Decision(NamedTuple):
    """The outcome of one change: why, which change superseded it, which document it is in.

    Changes that a document publishes have no decision of their own: the document names them.
    ``by`` is the ``row`` of the change that superseded it, -1 where there is none.  ``detail`` says
    for a reject what is wrong and what to do, ``raw`` is the rejected record as JSON text.
    """

    row: int
    outcome: Outcome
    reason: Reason | None = None
    by: int = -1
    detail: str | None = None
    raw: str | None = None


def reject(change: Change, position: str, reason: Reason, detail: str) -> Decision:
    """The decision that rejects a change, with the change as its raw record; ``position`` as users of
    its source write it."""
    record = change._asdict() | {"object": change.object._asdict(), "position": position}
    del record["row"], record["rank"]
    raw = json.dumps(record, ensure_ascii=False)
    return Decision(change.row, Outcome.REJECTED, reason, detail=detail, raw=raw)


class Document(NamedTuple):
    """One XDS document: the operations of one object in one poll that go out together.

    ``text`` is one line without its line end.  ``rows`` are the changes in it, ``records`` the
    positions of their records as users know them.  ``operation`` is ``add``, ``modify`` or
    ``delete``, several joined with a blank.  ``association`` is the key of a Kafka record.
    """

    object: Object
    position: Position
    poll: int
    operation: str
    association: str
    event_id: str
    text: str
    rows: tuple[int, ...]
    records: str


TALLY = 127
"""Value of ``outcome`` in the one row of each split that is no change: ``row`` holds the number of
records which the split read, counted where they were framed."""

IDS = 126
"""Value of ``outcome`` in rows that are no changes either: they tell each lane where the record ids of
a split lie (``event_ranks``)."""

RECORD_SCHEMA = pa.schema(
    [
        # where it goes: number of the source in the job, lane
        ("source", pa.int32()),
        ("lane", pa.int32()),
        # order: see Position and Change.rank
        ("part", pa.string()),
        ("rank", pa.int64()),
        ("high", pa.int64()),
        ("low", pa.int64()),
        ("ordinal", pa.int32()),
        # where it was read: number of the split, number of the record in its file (from 1)
        ("split", pa.int32()),
        ("row", pa.int64()),
        # how many source records it stands for (conservation counts these)
        ("records", pa.int32()),
        # the change; null in records that gave none
        ("schema", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("event_type", pa.int32()),
        ("columns", pa.list_(pa.string())),
        ("old", pa.list_(pa.string())),
        ("new", pa.list_(pa.string())),
        ("event_time", pa.int64()),
        ("perpetrator", pa.string()),
        ("transaction", pa.string()),
        # of a row of a live log: see ``sources.event_log_fingerprints``
        ("fingerprint", pa.int64()),
        # a record that gave no change: Outcome (or TALLY, IDS), Reason, what is wrong, the raw record
        ("outcome", pa.int32()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("raw", pa.string()),
    ]
)
"""What reading tasks give and the shuffle carries: one row for each change, one for each record that
gave no change, one tally for each split, of an event log a note of the split's ids to each lane.
``raw`` is the record as JSON text, for rejects only."""
