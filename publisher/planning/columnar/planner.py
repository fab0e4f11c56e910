"""Plans the plain part of a batch."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.change import Object
from publisher.model.document_batches import Documents, joined
from publisher.planning.columnar import eligibility
from publisher.planning.columnar.query_back import ReadBack, Reader
from publisher.planning.columnar.rows import Flags, Numbers, Rows, numbers_of
from publisher.planning.columnar.templates import shapes_of
from publisher.planning.columnar.values import contents_of
from publisher.planning.columnar.writer import Envelopes, Groups, Writer
from publisher.planning.filters import Filter
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import Lookup
from publisher.planning.renderer import Renderer


class Plain(NamedTuple):
    """Documents and the like of what is plain; ``left`` are the rows that are still to be planned."""

    left: Flags
    documents: list[Documents]
    """In rank order, no rank twice."""
    read: ReadBack
    """What query-backs gave besides documents by the column."""


class Bulk:
    """Plans the plain part of the batches of one event log in one lane."""

    def __init__(
        self, renderer: Renderer, filter_: Filter, polls: PollOptions, lookup: Lookup
    ) -> None:
        self._renderer = renderer
        self._filter = filter_
        self._polls = polls
        self._lookup = lookup

    def complete(self, batch: pa.RecordBatch) -> int:
        """How many of the first changes belong to polls before that of the last one."""
        rank = numbers_of(batch.column("rank"))
        size = self._polls.poll_size
        return int(np.searchsorted((rank - 1) // size, (rank[-1] - 1) // size))

    def plan(
        self,
        batch: pa.RecordBatch,
        lane_rows: Numbers,
        *,
        after: tuple[int, int] | None,
        going_on: Collection[Object],
    ) -> Plain:
        """Plans what is plain in ``batch``, which has changes only, in rank order.

        ``lane_rows`` are their row numbers in the lane.  ``after`` are rank and high of the change
        after them, which is in a later poll, ``None`` where there is none; ``going_on`` are the
        objects whose poll began before.
        """
        if not batch.num_rows or eligibility.impossible(batch):
            return Plain(np.ones(batch.num_rows, np.bool_), [], ReadBack())
        rows = Rows.of(batch)
        end, next_high = after or (None, None)
        odd = eligibility.odd_rows(rows, self._filter) | eligibility.odd_neighbours(
            rows, self._polls, end
        )
        odd |= eligibility.odd_repeats(rows, next_high) | eligibility.odd_begun(rows, going_on)
        odd |= eligibility.odd_tables(rows, self._filter)
        left = rows.spread(odd)
        reads = eligibility.reads_row(rows)
        shapes = shapes_of(rows, ~left & ~reads, self._renderer)
        old, new, bad = contents_of(rows, shapes)
        left = rows.spread(left | bad | ((shapes.of_row < 0) & ~reads))
        groups = Groups.of(rows, left | reads, self._polls.poll_size)
        envelopes = Envelopes(rows, lane_rows, self._polls, self._renderer)
        writer = Writer(envelopes, shapes, (old, new))
        logged = [writer.documents(part) for part in groups.parts(rows)]
        reader = Reader(rows, lane_rows, self._polls, self._renderer, self._lookup)
        read = reader.read(reads & ~left)
        return Plain(left, _in_order([*logged, *read.documents]), read)


def _in_order(documents: list[Documents]) -> list[Documents]:
    """Documents whose ranks are all different, in rank order."""
    last = -1
    for batch in documents:
        if batch.ranks[0] < last:
            return [joined(documents)]
        last = batch.ranks[-1]
    return documents
