"""Record ids of a sent run whose statuses are still being written while the next run reads the log."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from publisher.acknowledge.status_letters import Ids, LaneLetters, status_windows
from publisher.acknowledge.write_status import log_table
from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from publisher.database.ordered_ranges import IdRanges
from publisher.model.catalogue import ColumnKind
from publisher.sources.event_log.options import EventLogOptions

MOST_RECORDS = 10_000
"""Maximum number of records of a run that the next run need not wait for."""
MOST_RANGES = 100
"""Maximum number of ranges that a statement leaves out."""


def changing_ids(lanes: Iterable[LaneLetters]) -> Ids:
    """The record ids whose rows get a status, sorted and unique; rows of other records stay N."""
    parts = [window.ids for window in status_windows(list(lanes))]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def id_ranges(ids: Ids) -> IdRanges:
    """Joins sorted ids to ranges without gaps: a missing id may belong to a row that is committed later."""
    if not len(ids):
        return ()
    ends = np.flatnonzero(np.diff(ids) != 1)
    firsts = ids[np.concatenate(([0], ends + 1))].tolist()
    lasts = ids[np.concatenate((ends, [len(ids) - 1]))].tolist()
    return tuple(zip(firsts, lasts, strict=True))


def has_integer_ids(options: DatabaseOptions, table: str, format_options: object) -> bool:
    """Returns whether statements can leave ranges of record ids out of a log, which needs PostgreSQL."""
    with Database(options) as database:
        if not database.can_copy or not isinstance(format_options, EventLogOptions):
            return False
        log = log_table(database, table, format_options)
        return log.relation.table.columns[log.record_id] is ColumnKind.INT
