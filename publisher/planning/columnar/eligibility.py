"""Which objects of a batch are plain: what can be seen without looking at values."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import ROW_QUERY_BACK, Object
from publisher.planning.columnar.rows import Flags, Rows, flags_of
from publisher.planning.filters import Filter
from publisher.planning.polls import PollOptions
from publisher.xds.escape import FORBIDDEN, FORBIDDEN_RE2

DELETE = 4
_FIELD_TYPES = (1, 2, 3)
_ROW_TYPES = (DELETE, *sorted(ROW_QUERY_BACK))


def impossible(batch: pa.RecordBatch) -> bool:
    """Whether a batch has what is never plain: a name that XML forbids, positions that are more than
    record ids."""
    simple = {"part": "", "ordinal": 0}
    if any(pc.unique(batch.column(name)).to_pylist() != [only] for name, only in simple.items()):
        return True
    names = [pc.unique(batch.column(name)).to_pylist() for name in ("table", "schema")]
    return bool(FORBIDDEN.search("".join([text for part in names for text in part if text])))


def reads_row(rows: Rows) -> Flags:
    """Rows that are query-backs of a whole row."""
    reads: Flags = np.isin(rows.type, sorted(ROW_QUERY_BACK))
    return reads


def odd_rows(rows: Rows, filter_: Filter) -> Flags:
    """Rows that are not plain by themselves."""
    batch = rows.batch
    per_field = np.isin(rows.type, _FIELD_TYPES)
    per_row = np.isin(rows.type, _ROW_TYPES)
    odd: Flags = np.where(per_field, rows.column < 0, ~per_row | (rows.column >= 0))
    odd |= flags_of(pc.match_substring_regex(batch.column("key"), pattern=FORBIDDEN_RE2))
    if filter_.loopback_user is not None:
        odd |= flags_of(pc.equal(batch.column("perpetrator"), filter_.loopback_user))
    if filter_.held_after is not None:
        odd |= flags_of(pc.greater(batch.column("event_time"), filter_.held_after))
    return odd


def odd_neighbours(rows: Rows, polls: PollOptions, end: int | None) -> Flags:
    """Rows that are not plain because of the rows around them; ``end`` is the rank of the next one."""
    order, size, slack = rows.order, polls.poll_size, polls.poll_slack
    obj, rank = rows.object[order], rows.rank[order]
    poll = (rank - 1) // size
    same, gap = obj[1:] == obj[:-1], rank[1:] - rank[:-1]
    odd = np.zeros(len(order), np.bool_)
    odd[1:] = same & (poll[1:] != poll[:-1]) & (gap <= slack)  # into the next poll by the slack
    starts = np.flatnonzero(np.concatenate(([True], ~same | (poll[1:] != poll[:-1]))))
    lengths = np.diff(np.append(starts, len(order)))
    odd[starts[lengths > size]] = True
    odd |= np.repeat(lengths > 1, lengths) & reads_row(rows)[order]  # precedence has a say
    if end is not None:
        odd |= end - rank <= slack
    result = np.zeros(len(order), np.bool_)
    result[order] = odd
    return result


def odd_repeats(rows: Rows, next_high: int | None) -> Flags:
    """Records that may stand twice, here or at the begin of the next batch, and ranks that do."""
    odd: Flags = rows.high == next_high
    step = np.diff(rows.high)
    twice = np.flatnonzero((np.diff(rows.rank) == 0) | (step == 0))
    odd[twice] = odd[twice + 1] = True
    if np.any(step < 0):  # ranks by event time: else the same record is a neighbour
        order = np.lexsort((rows.high, rows.object))
        obj, high = rows.object[order], rows.high[order]
        odd[order[1:][(obj[1:] == obj[:-1]) & (high[1:] == high[:-1])]] = True
    return odd


def odd_begun(rows: Rows, going_on: Collection[Object]) -> Flags:
    """Rows of objects whose poll began in an earlier batch."""
    if not going_on:
        return np.zeros(len(rows.rank), np.bool_)
    keys = pa.array([obj.key for obj in going_on], pa.string())
    return flags_of(pc.is_in(rows.batch.column("key"), keys))


def odd_tables(rows: Rows, filter_: Filter) -> Flags:
    """Rows of tables that are not published."""
    tables, firsts, places = np.unique(rows.table, return_index=True, return_inverse=True)
    unwanted = np.zeros(len(tables), np.bool_)
    for number, row in enumerate(firsts.tolist()):
        obj = Object(rows.text("schema", row), str(rows.text("table", row)), "")
        unwanted[number] = not filter_.table_wanted(obj)
    odd: Flags = unwanted[places]
    return odd
