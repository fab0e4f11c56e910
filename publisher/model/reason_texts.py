"""Texts of reasons and event types for reports."""

from __future__ import annotations

from collections.abc import Mapping

from publisher.model.change import EventType, Reason

REASON_TEXTS: Mapping[Reason, str] = {
    Reason.ROW_QUERY_BACK: "a row query-back (5, 6) of the same object and poll publishes its columns",
    Reason.FIELD_QUERY_BACK: "a field query-back (7, 8) of the same column and poll publishes its value",
    Reason.STATUS: "its status is not N; --status any publishes processed logs, too",
    Reason.LOOPBACK: "the driver's own user caused it; allow_loopback publishes such changes",
    Reason.EXCLUDED: "include or exclude filters its table or column",
    Reason.OUT_OF_RANGE: "it lies outside --from and --until",
    Reason.DUPLICATE: "the same record appears twice with the same content",
    Reason.ENDED_BY_DELETE: "a later delete of the same poll removes the row that it reads",
    Reason.ROW_GONE: "the row no longer exists; of an object with child tables, the row of the parent table",
    Reason.CHILD_AFTER_DELETE: "its object is deleted; child_after_delete publishes values of child tables",
    Reason.NOTHING_TO_PUBLISH: "it has neither an old nor a new value: the modify would be empty",
    Reason.REPORTED: "an earlier run rejected it; without a record_id its status cannot be written",
    Reason.FUTURE: "its event time lies after the run's clock",
    Reason.COMMIT: "it ends a transaction and changes no row",
    Reason.UNCHANGED: "no change since the previous comparison, or from the values published last",
    Reason.BASELINE: "rows of the first comparison; startup_option = future publishes later changes only",
}

EVENT_NAMES: Mapping[EventType, str] = {
    EventType.INSERT_FIELD: "insert field",
    EventType.UPDATE_FIELD: "update field",
    EventType.REPLACE_FIELD: "update field (remove all values)",
    EventType.DELETE_ROW: "delete row",
    EventType.INSERT_ROW_QUERY_BACK: "insert row (query-back)",
    EventType.UPDATE_ROW_QUERY_BACK: "update row (query-back)",
    EventType.INSERT_FIELD_QUERY_BACK: "insert field (query-back)",
    EventType.UPDATE_FIELD_QUERY_BACK: "update field (query-back)",
    EventType.KEY_CHANGE: "change of the key",
}
"""Names of the driver's guide (event log columns, event types), and of the program's own type."""
