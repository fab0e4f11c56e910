"""Event logs of the IDM driver for JDBC, in files or in a table of a database.

The table and its columns may have any names; order, number and types of the columns are fixed.  So files
without column names are read by position, in one of two documented orders.  Of a table only rows of the
configured status are read.
"""

from __future__ import annotations

from publisher.errors import UsageError
from publisher.formats.event_log.changes import changes
from publisher.formats.event_log.check_layout import check_layout
from publisher.formats.event_log.decode import decode
from publisher.formats.event_log.fingerprints import fingerprints_of_rows
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.live.find_table import LiveTable
from publisher.formats.live.table_split import DatabaseTable
from publisher.formats.row_source import RowFormat, RowSource
from publisher.model.change import Position


def event_log(
    options: EventLogOptions | None = None,
    snapshot: SnapshotOptions | None = None,
    table: DatabaseTable | None = None,
) -> RowSource:
    """Returns the source of an event log, in a table or in files."""
    options, snapshot = options or EventLogOptions(), snapshot or SnapshotOptions()
    return RowSource(ROWS, options, snapshot, table)


def position_of(text: str) -> Position:
    """Parses a record_id (``4711``), or the place of a record without record_id (``events.csv:17``).

    Raises ``UsageError`` for anything else.
    """
    part, _, number = text.strip().rpartition(":")
    if not number.isascii() or not number.isdigit():
        raise UsageError(
            f"{text!r} is not a position of an event log; write a record_id or FILE:NUMBER"
        )
    return Position(part, int(number), 0, 0)


def rows_to_read(options: EventLogOptions, table: str) -> LiveTable:
    """Describes the rows of a table to read, which are divided by record_id."""
    written_name = options.expected_columns().written_name
    status = None if options.status == "any" else (written_name("status"), options.status)
    return LiveTable(table, order=written_name("record_id"), where=status)


ROWS = RowFormat(
    name="event-log",
    decode=decode,
    changes=changes,
    table=rows_to_read,
    parse_position=position_of,
    fingerprints=fingerprints_of_rows,
    check=check_layout,
)
