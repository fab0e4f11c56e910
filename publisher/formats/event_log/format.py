"""The descriptor of event logs."""

# ruff: noqa: PLC0415 - a start that finds nothing to publish only counts the rows of a table

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.format import Format, LiveFormat

if TYPE_CHECKING:
    from publisher.database.options import DatabaseOptions
    from publisher.formats.event_log.backlog import EventLogBacklog
    from publisher.formats.files.file_splits import FileRange, Split
    from publisher.formats.files.options import SnapshotOptions
    from publisher.formats.live.table_split import DatabaseTable
    from publisher.formats.retry import CorrectedRecord, RetryFiles
    from publisher.formats.row_source import RowSource


def _source(options: EventLogOptions, reading: SnapshotOptions) -> RowSource:
    from publisher.formats.event_log.source import event_log

    return event_log(options, reading)


def _live_source(options: EventLogOptions, table: DatabaseTable) -> RowSource:
    from publisher.formats.event_log.source import event_log

    return event_log(options, table=table)


def _backlog(options: EventLogOptions, database: DatabaseOptions, table: str) -> EventLogBacklog:
    from publisher.formats.event_log.backlog import EventLogBacklog

    return EventLogBacklog(options, database, table)


def _split() -> type[Split[FileRange]]:
    from publisher.formats.files.file_splits import FileRange, Split

    return Split[FileRange]


def _write_retry(
    options: EventLogOptions, records: Sequence[CorrectedRecord], folder: Path
) -> RetryFiles:
    from publisher.formats.retry import write_json_lines

    return write_json_lines(records, folder, options.expected_columns().written, "record_id")


EVENT_LOG = Format(
    name="event-log",
    title="Event log",
    position_text="a record_id or FILE:NUMBER",
    options=EventLogOptions,
    source=_source,
    split=_split,
    live=LiveFormat(_live_source, _backlog, has_status=True),
    reads_snapshots=True,
    names_users=True,
    in_polls=True,
    write_retry=_write_retry,
)
