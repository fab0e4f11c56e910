"""The descriptor of dispatch queues."""

from __future__ import annotations

from publisher.formats.dispatch_queue.dispatch_attrs import with_attributes
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.retry import write_retry
from publisher.formats.dispatch_queue.source import DispatchQueue
from publisher.formats.dispatch_queue.splits import QueueSplit
from publisher.formats.format import Format

DISPATCH_QUEUE = Format(
    name="dispatch-queue",
    title="Dispatch queue",
    position_text="DATABASE:FILE.ADDRESS",
    options=DispatchQueueOptions,
    source=DispatchQueue,
    split=lambda: QueueSplit,
    complete_options=with_attributes,
    reads_snapshots=True,
    in_commits=True,
    knows_repetitions=True,
    write_retry=write_retry,
)
