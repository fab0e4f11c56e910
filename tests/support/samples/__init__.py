"""Small inputs of each format, to hold sources and engines to their promises."""

from __future__ import annotations

from tests.support.samples import change_table, dispatch_queue, event_log, linkexpress, triggerless

SAMPLES = tuple(
    sample
    for format_ in (event_log, change_table, dispatch_queue, linkexpress, triggerless)
    for sample in format_.SAMPLES
)
