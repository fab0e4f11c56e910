"""The Arrow schema of records between reading tasks and lanes."""

from __future__ import annotations

import pyarrow as pa

RECORD_SCHEMA = pa.schema(
    [
        # destination: number of the source in the job, lane
        ("source", pa.int32()),
        ("lane", pa.int32()),
        # order: see Position and Change.rank
        ("part", pa.string()),
        ("rank", pa.int64()),
        ("high", pa.int64()),
        ("low", pa.int64()),
        ("ordinal", pa.int32()),
        # origin: number of the split, number of the record in its file (from 1)
        ("split", pa.int32()),
        ("row", pa.int64()),
        # number of source records that the row represents (counted for conservation)
        ("records", pa.int32()),
        # the change; null in records without one
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
        # the class: true if it is a view; table and column as the source names them where these are other
        # names; the child table of each of ``columns``, null for columns of the class's own table
        ("is_view", pa.bool_()),
        ("logged_table", pa.string()),
        ("logged_column", pa.string()),
        ("children", pa.list_(pa.string())),
        # fingerprint of a row of a live log
        ("fingerprint", pa.int64()),
        # record without a change: Outcome (or TALLY, IDS), Reason, the problem, the raw record
        ("outcome", pa.int32()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("raw", pa.string()),
    ]
)
"""The output of reading tasks, which the shuffle moves to lanes: one row for each change and each record
without a change, one tally for each split, and for an event log the file of a split's ids for each lane.
``raw`` is the record as JSON text, for rejects only."""
