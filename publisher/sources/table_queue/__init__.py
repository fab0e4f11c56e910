"""Samples of LINTER's table queue, recorded with the command DIRR.

They show which tables are in the queue and which of them have unflushed changes.  Samples carry no rows, so
they are not a source of changes.  ``xds-publisher activity`` computes statistics from them, and the
triggerless mode takes hints from them.
"""

from publisher.sources.table_queue.calls import SAMPLE_SCHEMA, Call, Recorder
from publisher.sources.table_queue.hints import Hints, TouchedTable, find_touched_tables, read_hints
from publisher.sources.table_queue.options import TableQueueOptions

__all__ = [
    "SAMPLE_SCHEMA",
    "Call",
    "Hints",
    "Recorder",
    "TableQueueOptions",
    "TouchedTable",
    "find_touched_tables",
    "read_hints",
]
