"""The source formats by name."""

from __future__ import annotations

from publisher.sources.change_table.format import CHANGE_TABLE
from publisher.sources.dispatch_queue.format import DISPATCH_QUEUE
from publisher.sources.event_log.format import EVENT_LOG
from publisher.sources.format import Format
from publisher.sources.linkexpress.format import LINKEXPRESS
from publisher.sources.triggerless.format import TRIGGERLESS

FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (EVENT_LOG, CHANGE_TABLE, LINKEXPRESS, DISPATCH_QUEUE, TRIGGERLESS)
}
