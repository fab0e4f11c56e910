"""The descriptor of event logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from publisher.sources.event_log.backlog import EventLogBacklog
from publisher.sources.event_log.live_table import LiveEventLog
from publisher.sources.event_log.options import EventLogOptions
from publisher.sources.event_log.source import EventLog
from publisher.sources.files.file_splits import FileRange, Split
from publisher.sources.format import Format, LiveFormat
from publisher.sources.retry import CorrectedRecord, RetryFiles, write_json_lines


def _write_retry(
    options: EventLogOptions, records: Sequence[CorrectedRecord], folder: Path
) -> RetryFiles:
    return write_json_lines(records, folder, options.expected_columns().written)


EVENT_LOG = Format(
    name="event-log",
    title="Event log",
    position_text="a record_id or FILE:NUMBER",
    options=EventLogOptions,
    source=EventLog,
    split=Split[FileRange],
    live=LiveFormat(LiveEventLog, EventLogBacklog, has_status=True),
    reads_snapshots=True,
    names_users=True,
    in_polls=True,
    write_retry=_write_retry,
)
