"""The plain part of a batch, planned by the column instead of change by change.

Most changes of an event log speak of one column of an object that nothing else happens to: no
query-back, no problem, no filter, nothing that goes on in the next batch.  Their documents are made
here, with the renderer's own parts; every object that is not as plain is left to ``Planner``, whole.
What both give is the same, which a test holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.change import Document, Object, Position
from publisher.filters import Filter
from publisher.polls import PollOptions
from publisher.records import plain_values, tuples
from publisher.renderer import PlainHead, Renderer
from publisher.xds.escape import FORBIDDEN, ValueProblem

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

T = TypeVar("T")

_Render = Callable[[str | None, str | None], str | None]

_DELETE = 4
_FIELD_TYPES = (1, 2, 3)
_KIND = np.array([-1, 0, 1, 1, 2, -1, -1, -1, -1])
"""By event type: the same number for the same kind of operation."""


class Plain(NamedTuple):
    """Documents with the rank of their first change; ``left`` are the rows of the batch that are
    still to be planned."""

    documents: list[tuple[int, Document]]
    left: Flags


@dataclass(slots=True)
class _Rows:
    """Columns of a batch, row by row, and rows grouped by object in rank order."""

    batch: pa.RecordBatch
    object: Numbers
    table: Numbers
    column: Numbers
    """Index in ``names``, -1 where a change names none or several."""
    names: list[str]
    rank: Numbers
    type: Numbers
    order: Numbers

    def text(self, name: str, place: int) -> str | None:
        """The text in one row of a column."""
        text: str | None = self.batch.column(name)[place].as_py()
        return text


class Bulk:
    """Plans the plain part of the batches of one event log in one lane."""

    def __init__(self, renderer: Renderer, filter_: Filter, polls: PollOptions) -> None:
        self._renderer = renderer
        self._filter = filter_
        self._polls = polls

    def complete(self, batch: pa.RecordBatch) -> int:
        """How many of the first changes belong to polls before that of the last one."""
        rank = _numbers(batch, "rank")
        size = self._polls.poll_size
        return int(np.searchsorted((rank - 1) // size, (rank[-1] - 1) // size))

    def plan(
        self,
        batch: pa.RecordBatch,
        rows: Sequence[int],
        *,
        after: tuple[int, int] | None,
        going_on: Collection[Object],
    ) -> Plain:
        """Plans what is plain in ``batch``, which has changes only, in rank order.

        ``rows`` are their row numbers in the lane.  ``after`` are rank and high of the change after
        them, which is in a later poll, ``None`` where there is none; ``going_on`` are the objects whose poll
        began before.
        """
        if not batch.num_rows or _forbidden(batch) or _has_parts(batch):
            return Plain([], np.ones(batch.num_rows, np.bool_))
        found = self._rows(batch)
        end, next_high = after or (None, None)
        odd = self._odd_rows(found) | self._odd_neighbours(found, end)
        odd |= self._odd_repeats(found, next_high)
        if going_on:
            keys = pa.array([obj.key for obj in going_on], pa.string())
            odd |= pc.is_in(batch.column("key"), keys).to_numpy(zero_copy_only=False)
        left = self._spread(found, odd)
        parts: list[str] = [""] * batch.num_rows
        self._render(found, left, parts)
        left = self._spread(found, left)
        return Plain(self._documents(found, left, parts, rows), left)

    def _rows(self, batch: pa.RecordBatch) -> _Rows:
        codes = _codes(batch.column("key"))
        tables = _codes(batch.column("table")) + _codes(batch.column("schema")) * batch.num_rows
        if tables.any():
            codes = np.unique(tables * batch.num_rows + codes, return_inverse=True)[1]
        columns, names = _column_codes(batch.column("columns"))
        order = np.argsort(codes, kind="stable")
        rank, event_type = _numbers(batch, "rank"), _numbers(batch, "event_type")
        return _Rows(batch, codes, tables, columns, names, rank, event_type, order)

    def _odd_rows(self, found: _Rows) -> Flags:
        """Rows that are not plain by themselves."""
        batch = found.batch
        per_field = np.isin(found.type, _FIELD_TYPES)
        odd: Flags = np.where(
            per_field, found.column < 0, (found.type != _DELETE) | (found.column >= 0)
        )
        user, held_after = self._filter.loopback_user, self._filter.held_after
        if user is not None:
            odd |= _true(pc.equal(batch.column("perpetrator"), user))
        if held_after is not None:
            odd |= _true(pc.greater(batch.column("event_time"), held_after))
        return odd

    def _odd_neighbours(self, found: _Rows, end: int | None) -> Flags:
        """Rows that are not plain because of the rows of the same object around them."""
        order, size, slack = found.order, self._polls.poll_size, self._polls.poll_slack
        obj, rank = found.object[order], found.rank[order]
        poll = (rank - 1) // size
        same, gap = obj[1:] == obj[:-1], rank[1:] - rank[:-1]
        # into the next poll by the slack; the same position twice
        odd = np.zeros(len(order), np.bool_)
        odd[1:] = same & (((poll[1:] != poll[:-1]) & (gap <= slack)) | (gap == 0))
        starts = np.flatnonzero(np.concatenate(([True], ~same | (poll[1:] != poll[:-1]))))
        lengths = np.diff(np.append(starts, len(order)))
        odd[starts[lengths > size]] = True
        if end is not None:
            odd |= end - rank <= slack
        result = np.zeros(len(order), np.bool_)
        result[order] = odd
        return result

    def _odd_repeats(self, found: _Rows, next_high: int | None) -> Flags:
        """Records that may stand twice for their object, here or at the begin of the next batch."""
        high = _numbers(found.batch, "high")
        odd: Flags = high == next_high
        if not np.array_equal(high, found.rank):  # else they have one rank, and are neighbours
            order = np.lexsort((high, found.object))
            obj, high = found.object[order], high[order]
            odd[order[1:][(obj[1:] == obj[:-1]) & (high[1:] == high[:-1])]] = True
        return odd

    def _spread(self, found: _Rows, odd: Flags) -> Flags:
        """All rows of the objects that have an odd one."""
        objects = np.zeros(int(found.object.max(initial=-1)) + 1, np.bool_)
        objects[found.object[odd]] = True
        return objects[found.object]

    def _render(self, found: _Rows, left: Flags, parts: list[str]) -> None:
        """Fills in the attributes of each row; rows that cannot be plain are added to ``left``."""
        old, new = _single(found.batch.column("old")), _single(found.batch.column("new"))
        fields = np.flatnonzero(~left)
        alike = (found.table * (len(found.names) + 1) + found.column + 1) * 9 + found.type
        for places in _grouped(fields, alike[fields]):
            first = places[0]
            obj = Object(found.text("schema", first), str(found.text("table", first)), "")
            event_type = int(found.type[first])
            if event_type == _DELETE:
                left[places] = not self._filter.table_wanted(obj)
                continue
            render = self._part(obj, found.names[found.column[first]], event_type)
            values = [old[place] for place in places], [new[place] for place in places]
            for place, part in zip(places, _rendered(render, *values), strict=True):
                if part is None:
                    left[place] = True
                else:
                    parts[place] = part

    def _part(self, obj: Object, name: str, event_type: int) -> _Render:
        """What makes the attribute of a column from old and new values."""
        if not (self._filter.table_wanted(obj) and self._filter.column_wanted(obj.table, name)):
            return _nothing
        try:
            column = self._renderer.column(obj, name)
        except ValueProblem:
            return _nothing
        meaning = self._renderer.meanings[event_type]
        convert, shown, part = column.convert, column.name, meaning.part

        def render(old: str | None, new: str | None) -> str | None:
            text = part(
                shown,
                None if old is None else convert(old),
                None if new is None else convert(new),
            )
            # an empty modify is not published, an empty add is
            return text if text or event_type == 1 else None

        return render

    def _documents(
        self, found: _Rows, left: Flags, parts: list[str], rows: Sequence[int]
    ) -> list[tuple[int, Document]]:
        """The documents of the rows that are not left, one for each operation."""
        order = found.order[~left[found.order]]
        if not len(order):
            return []
        obj, rank, kind = found.object[order], found.rank[order], _KIND[found.type[order]]
        poll = (rank - 1) // self._polls.poll_size
        deletes = kind == _KIND[_DELETE]
        breaks = (obj[1:] != obj[:-1]) | (poll[1:] != poll[:-1]) | (kind[1:] != kind[:-1])
        breaks |= deletes[1:]
        starts = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(order)]
        firsts = found.batch.take(pa.array(order[starts[:-1]]))
        heads = zip(
            tuples(Object, firsts, Object._fields),
            poll[starts[:-1]].tolist(),
            found.type[order[starts[:-1]]].tolist(),
            tuples(Position, firsts, Position._fields),
            strict=True,
        )
        ranks = rank[starts[:-1]].tolist()
        parts = _picked(parts, order)
        numbers = _picked(rows, order)
        texts = [str(high) for high in _numbers(found.batch, "high")[order].tolist()]
        document = self._renderer.plain_document
        return [
            (first, document(head, parts[start:stop], numbers[start:stop], texts[start:stop]))
            for first, head, (start, stop) in zip(
                ranks, map(PlainHead._make, heads), pairwise(starts), strict=True
            )
        ]


def _nothing(_old: str | None, _new: str | None) -> str | None:
    return None


def _rendered(
    render: _Render, old: Sequence[str | None], new: Sequence[str | None]
) -> list[str | None]:
    """The attribute of each row, ``None`` where the row is not plain."""
    try:
        return list(map(render, old, new))
    except ValueProblem:
        return [_one_rendered(render, *values) for values in zip(old, new, strict=True)]


def _one_rendered(render: _Render, old: str | None, new: str | None) -> str | None:
    try:
        return render(old, new)
    except ValueProblem:
        return None


def _grouped(places: Numbers, by: Numbers) -> list[list[int]]:
    """Places with equal numbers together."""
    order = np.argsort(by, kind="stable")
    bounds = np.flatnonzero(np.diff(by[order])) + 1
    return [group.tolist() for group in np.split(places[order], bounds) if len(group)]


def _forbidden(batch: pa.RecordBatch) -> bool:
    """Whether a key or the name of a table has a character that XML forbids."""
    texts = [pc.unique(batch.column(name)).to_pylist() for name in ("key", "table", "schema")]
    return bool(FORBIDDEN.search("".join([text for part in texts for text in part if text])))


def _has_parts(batch: pa.RecordBatch) -> bool:
    """Whether positions are more than record ids."""
    return bool(pc.unique(batch.column("part")).to_pylist() != [""])


def _codes(column: pa.Array) -> Numbers:
    """A number for each different value, null being one of them."""
    codes: Numbers = (
        pc.dictionary_encode(column, null_encoding="encode")
        .indices.to_numpy(zero_copy_only=False)
        .astype(np.int64)
    )
    return codes


def _column_codes(column: pa.ListArray) -> tuple[Numbers, list[str]]:
    """A number for the only column that each change names, -1 where there is none; the names."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    encoded = pc.dictionary_encode(column.flatten())
    codes = np.full(len(column), -1, np.int64)
    if (lengths == 1).any():
        at = np.cumsum(lengths)[lengths == 1] - 1
        codes[lengths == 1] = encoded.indices.to_numpy(zero_copy_only=False)[at]
    return codes, encoded.dictionary.to_pylist()


def _numbers(batch: pa.RecordBatch, name: str) -> Numbers:
    numbers: Numbers = batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _true(column: pa.Array) -> Flags:
    flags: Flags = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return flags


def _single(column: pa.ListArray) -> Sequence[str | None]:
    """The only element of each list, ``None`` where a list is null, empty or longer."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    values: Sequence[Any] = plain_values(column.flatten())
    if (lengths == 1).all():
        return values
    single = np.full(len(column), None, object)
    if (lengths == 1).any():
        at = np.cumsum(lengths) - 1
        single[lengths == 1] = np.array(values, object)[at[lengths == 1]]
    return single.tolist()


def _picked(values: Sequence[T], places: Numbers) -> list[T]:
    return [values[place] for place in places.tolist()]
