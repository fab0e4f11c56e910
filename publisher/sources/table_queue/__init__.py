"""Samples of LINTER's table queue, as the command DIRR gives its elements.

They say which tables are in the queue and which have changes not yet flushed; they carry no rows, so
they are no source of changes by themselves.  ``xds-publisher activity`` makes statistics of them, the
triggerless mode takes hints from them.
"""

from publisher.sources.table_queue.calls import SAMPLE_SCHEMA, Call, Recorder
from publisher.sources.table_queue.hints import Hints, TouchedTable, hints_of, touched
from publisher.sources.table_queue.options import TableQueueOptions, options_of

__all__ = [
    "SAMPLE_SCHEMA",
    "Call",
    "Hints",
    "Recorder",
    "TableQueueOptions",
    "TouchedTable",
    "hints_of",
    "options_of",
    "touched",
]
