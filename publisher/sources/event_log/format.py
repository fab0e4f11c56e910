"""The descriptor of event logs."""

from __future__ import annotations

from publisher.sources.event_log.backlog import EventLogBacklog
from publisher.sources.event_log.live_table import LiveEventLog
from publisher.sources.event_log.options import EventLogOptions
from publisher.sources.event_log.source import EventLog
from publisher.sources.files.file_splits import FileRange, Split
from publisher.sources.format import Format, LiveFormat

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
)
