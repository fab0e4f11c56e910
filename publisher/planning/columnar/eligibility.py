"""Finds the rows of a batch that columnar planning cannot plan, without looking at values.

A row that is ineligible makes all rows of its object ineligible (``ChangeColumns.spread``).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import ROW_QUERY_BACK, Object
from publisher.planning.columnar.characters import is_forbidden
from publisher.planning.columnar.rows import ChangeColumns, Flags, flags_of, group_equal
from publisher.planning.filters import Filter
from publisher.planning.polls import PollOptions
from publisher.planning.renderer import Renderer
from publisher.xds.escape import FORBIDDEN, ValueProblem

INSERT_FIELD, DELETE = 1, 4
_FIELD_TYPES = (1, 2, 3)
_ROW_TYPES = (DELETE, *sorted(ROW_QUERY_BACK))


def is_ineligible_batch(batch: pa.RecordBatch) -> bool:
    """Returns whether all rows are ineligible: XML forbids a name, or positions are not just record ids."""
    simple = {"part": "", "ordinal": 0}
    if any(pc.unique(batch.column(name)).to_pylist() != [value] for name, value in simple.items()):
        return True
    names = [pc.unique(batch.column(name)).to_pylist() for name in ("table", "schema")]
    return bool(FORBIDDEN.search("".join([text for part in names for text in part if text])))


def row_query_backs(rows: ChangeColumns) -> Flags:
    """Query-backs of a whole row."""
    reads: Flags = np.isin(rows.type, sorted(ROW_QUERY_BACK))
    return reads


def query_backs_among_others(rows: ChangeColumns) -> Flags:
    """Row query-backs whose object has other changes in the batch, which are planned in another order."""
    counts = np.bincount(rows.object)
    flags: Flags = row_query_backs(rows) & (counts[rows.object] > 1)
    return flags


def ineligible_rows(rows: ChangeColumns, filter_: Filter) -> Flags:
    """Rows that are ineligible by themselves."""
    batch = rows.batch
    per_field = np.isin(rows.type, _FIELD_TYPES)
    per_row = np.isin(rows.type, _ROW_TYPES)
    flags: Flags = np.where(per_field, rows.column < 0, ~per_row | (rows.column >= 0))
    flags |= is_forbidden(batch.column("key"))
    if filter_.loopback_user is not None:
        flags |= flags_of(pc.equal(batch.column("perpetrator"), filter_.loopback_user))
    if filter_.held_after is not None:
        flags |= flags_of(pc.greater(batch.column("event_time"), filter_.held_after))
    return flags


def ineligible_neighbours(rows: ChangeColumns, polls: PollOptions) -> Flags:
    """Rows that are ineligible because of rows around them."""
    order, size, slack = rows.order, polls.poll_size, polls.poll_slack
    obj, rank = rows.object[order], rows.rank[order]
    poll = (rank - 1) // size
    same_object, gap = obj[1:] == obj[:-1], rank[1:] - rank[:-1]
    flags = np.zeros(len(order), np.bool_)
    # events that stay in a poll of an earlier block because of the slack
    flags[1:] = same_object & (poll[1:] != poll[:-1]) & (gap <= slack)
    starts = np.flatnonzero(np.concatenate(([True], ~same_object | (poll[1:] != poll[:-1]))))
    lengths = np.diff(np.append(starts, len(order)))
    flags[starts[lengths > size]] = True
    # precedence applies to query-backs that share a poll with another change
    flags |= np.repeat(lengths > 1, lengths) & row_query_backs(rows)[order]
    result = np.zeros(len(order), np.bool_)
    result[order] = flags
    return result


def continued_polls(
    rows: ChangeColumns, polls: PollOptions, end: int | None, following: pa.RecordBatch | None
) -> Flags:
    """Rows whose poll may continue after the batch because of the slack.

    ``end`` is the rank of the next row; ``following`` are some rows from there on, if they are known."""
    if end is None:
        return np.zeros(len(rows.rank), np.bool_)
    flags: Flags = end - rows.rank <= polls.poll_slack
    last = int(rows.rank[-1]) + polls.poll_slack
    if following is None or not flags.any() or following["rank"][-1].as_py() <= last:
        return flags
    near = following["key"].filter(pc.less_equal(following["rank"], last))
    return flags & flags_of(pc.is_in(rows.batch.column("key"), near))


def ineligible_repeats(rows: ChangeColumns, next_high: int | None) -> Flags:
    """Rows of equal ranks, and records that may be repeated here or at the start of the next batch."""
    flags: Flags = rows.high == next_high
    step = np.diff(rows.high)
    repeats = np.flatnonzero((np.diff(rows.rank) == 0) | (step == 0))
    flags[repeats] = flags[repeats + 1] = True
    if np.any(step < 0):  # ranks by event time: repetitions may lie apart
        order = np.lexsort((rows.high, rows.object))
        obj, high = rows.object[order], rows.high[order]
        flags[order[1:][(obj[1:] == obj[:-1]) & (high[1:] == high[:-1])]] = True
    return flags


def rows_of_keys(rows: ChangeColumns, keys: Collection[str]) -> Flags:
    """Rows of objects with some keys, whatever their table."""
    if not keys:
        return np.zeros(len(rows.rank), np.bool_)
    return flags_of(pc.is_in(rows.batch.column("key"), pa.array(keys, pa.string())))


def changes_after_delete(rows: ChangeColumns, renderer: Renderer) -> Flags:
    """Changes of child tables whose object is deleted, too: some of these may be ignored."""
    flags = np.zeros(len(rows.rank), np.bool_)
    if not (rows.type == DELETE).any():
        return flags
    per_field = np.flatnonzero(rows.column >= 0)
    pairs = rows.table[per_field] * len(rows.names) + rows.column[per_field]
    firsts, places = group_equal(pairs)
    multiple = [_is_multiple(rows, row, renderer) for row in per_field[firsts].tolist()]
    flags[per_field] = np.array(multiple, np.bool_)[places]
    return flags & rows.spread(rows.type == DELETE)


def _is_multiple(rows: ChangeColumns, row: int, renderer: Renderer) -> bool:
    obj = Object(rows.text("schema", row), str(rows.text("table", row)), "")
    try:
        return renderer.column(obj, rows.names[rows.column[row]]).is_multiple
    except ValueProblem:  # the change is rejected
        return False


def unpublished_tables(rows: ChangeColumns, filter_: Filter, renderer: Renderer) -> Flags:
    """Rows of tables that are excluded or refused."""
    firsts, places = group_equal(rows.table)
    unpublished = np.zeros(len(firsts), np.bool_)
    for number, row in enumerate(firsts.tolist()):
        obj = Object(rows.text("schema", row), str(rows.text("table", row)), "")
        try:
            renderer.check_table(obj)
        except ValueProblem:
            unpublished[number] = True
        else:
            unpublished[number] = not filter_.publishes_table(obj)
    flags: Flags = unpublished[places]
    return flags
