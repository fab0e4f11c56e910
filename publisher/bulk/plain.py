"""Which objects of a batch are plain: what can be seen without looking at values."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.bulk.rows import Flags, Rows, flags_of
from publisher.change import Object
from publisher.filters import Filter
from publisher.polls import PollOptions
from publisher.xds.escape import FORBIDDEN, FORBIDDEN_RE2

DELETE = 4
_FIELD_TYPES = (1, 2, 3)


def impossible(batch: pa.RecordBatch) -> bool:
    """Whether a batch has what is never plain: a name that XML forbids, positions that are more than
    record ids."""
    simple = {"part": "", "ordinal": 0}
    if any(pc.unique(batch.column(name)).to_pylist() != [only] for name, only in simple.items()):
        return True
    names = [pc.unique(batch.column(name)).to_pylist() for name in ("table", "schema")]
    return bool(FORBIDDEN.search("".join([text for part in names for text in part if text])))


def odd_rows(rows: Rows, filter_: Filter) -> Flags:
    """Rows that are not plain by themselves."""
    batch = rows.batch
    per_field = np.isin(rows.type, _FIELD_TYPES)
    odd: Flags = np.where(per_field, rows.column < 0, (rows.type != DELETE) | (rows.column >= 0))
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
    if end is not None:
        odd |= end - rank <= slack
    result = np.zeros(len(order), np.bool_)
    result[order] = odd
    return result


def odd_repeats(rows: Rows, next_high: int | None) -> Flags:
    """Records that may stand twice, here or at the begin of the next batch, and ranks that do."""
    odd: Flags = rows.high == next_high
    twice = np.flatnonzero(rows.rank[1:] == rows.rank[:-1])
    odd[twice] = odd[twice + 1] = True
    if not np.array_equal(rows.high, rows.rank):  # else they have one rank
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
