"""Plans the simple objects of a batch column by column."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import ROW_QUERY_BACK, Decision
from publisher.model.document_batches import Documents, join_batches
from publisher.model.published_objects import PublishedObjects
from publisher.planning.columnar import eligibility
from publisher.planning.columnar.minimal import MinimalWriter, Reduction
from publisher.planning.columnar.query_back import QueryBackPlanner, QueryBackResult
from publisher.planning.columnar.rows import ChangeColumns, Flags, Numbers, numbers_of
from publisher.planning.columnar.rows_ahead import RowsAhead
from publisher.planning.columnar.templates import change_templates
from publisher.planning.columnar.values import convert_values
from publisher.planning.columnar.writer import DocumentFields, DocumentGroups, DocumentWriter
from publisher.planning.drafts import Draft
from publisher.planning.filters import Filter
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import ObjectLookup, RowLookups
from publisher.planning.renderer import Renderer


class ColumnarPart(NamedTuple):
    """A part of the plan of a batch; its documents follow those of the parts before."""

    documents: list[Documents]
    """In rank order, without equal ranks."""
    drafts: list[Draft]
    """Documents of single query-backs."""
    decisions: list[Decision]
    lookups: list[ObjectLookup | RowLookups]
    end: int | None
    """The rank before which nothing of the batch remains to be planned; ``None`` in the last part."""


class ColumnarPlan(NamedTuple):
    """The plan of the simple objects of a batch; ``remaining`` are the rows to be planned one by one."""

    remaining: Flags
    parts: Iterator[ColumnarPart]


class _BatchPlan(NamedTuple):
    """What is known of a batch before rows are read."""

    rows: ChangeColumns
    remaining: Flags
    query_backs: Flags
    """The rows that ``planner`` plans."""
    planner: QueryBackPlanner
    reduction: Reduction | None


class ColumnarPlanner:
    """Plans the simple objects of one event log in one lane, batch by batch."""

    def __init__(
        self,
        renderer: Renderer,
        filter_: Filter,
        polls: PollOptions,
        rows_ahead: RowsAhead,
        published: PublishedObjects | None = None,
    ) -> None:
        """For ``published`` see ``Planner``."""
        self._published = published
        self._renderer = renderer
        self._filter = filter_
        self._polls = polls
        self._rows_ahead = rows_ahead

    def is_one_poll(self, first: pa.RecordBatch, last: pa.RecordBatch) -> bool:
        """Returns whether all changes from the first of a batch to the last of another are in one poll."""
        ranks = first.column("rank")[0].as_py(), last.column("rank")[last.num_rows - 1].as_py()
        return len({(rank - 1) // self._polls.poll_size for rank in ranks}) == 1

    def count_complete(self, batch: pa.RecordBatch) -> int:
        """Counts the changes in polls before the poll of the last change."""
        rank = numbers_of(batch.column("rank"))
        size = self._polls.poll_size
        return int(np.searchsorted((rank - 1) // size, (rank[-1] - 1) // size))

    def read_ahead(self, batch: pa.RecordBatch) -> None:
        """Begins to read rows for the first query-backs of the next batch, see ``RowsAhead.begin``.

        Rows may turn out to be superfluous because of changes that are not known yet."""
        types = pc.unique(batch.column("event_type")).to_pylist()
        if ROW_QUERY_BACK.isdisjoint(types) or eligibility.is_ineligible_batch(batch):
            return
        rows = ChangeColumns.of(batch)
        ineligible = rows.spread(self._ineligible_rows(rows, None))
        reads = eligibility.row_query_backs(rows) & ~ineligible
        self._rows_ahead.begin(rows, reads)

    def plan(
        self,
        batch: pa.RecordBatch,
        lane_rows: Numbers,
        *,
        after: tuple[int, int] | None,
        single_keys: Collection[str],
        following: pa.RecordBatch | None,
    ) -> ColumnarPlan:
        """Plans the simple objects of ``batch``, which holds changes only, in rank order.

        ``lane_rows`` are the row numbers of the changes in the lane.  ``after`` has rank and high of the
        next change, which is in a later poll; ``None`` if no change follows.  ``single_keys`` are the
        keys of objects that earlier changes concern, or that change their keys.  ``following`` are the first
        changes of the next batch, whose rows may be read ahead; other changes may follow in their polls.
        """
        if not batch.num_rows or eligibility.is_ineligible_batch(batch):
            return ColumnarPlan(np.ones(batch.num_rows, np.bool_), iter(()))
        rows = ChangeColumns.of(batch)
        remaining = self._ineligible_objects(rows, after, single_keys, following)
        reads = eligibility.row_query_backs(rows)
        self._rows_ahead.begin(rows, reads & ~remaining)
        templates = change_templates(rows, ~remaining & ~reads, self._renderer)
        old, new, bad = convert_values(rows, templates)
        remaining = rows.spread(remaining | bad | ((templates.of_row < 0) & ~reads))
        groups = DocumentGroups.of(rows, remaining | reads, self._polls.poll_size)
        fields = DocumentFields(rows, lane_rows, self._polls, self._renderer)
        reduction = None if self._published is None else Reduction(self._published, lane_rows)
        writer = (
            DocumentWriter(fields, templates, (old, new))
            if reduction is None
            else MinimalWriter(fields, templates, (old, new), reduction)
        )
        logged = _sort_by_rank([*filter(len, map(writer.documents, groups.parts(rows)))])
        planner = QueryBackPlanner(rows, lane_rows, self._polls, self._renderer, reduction)
        plan = _BatchPlan(rows, remaining, reads & ~remaining, planner, reduction)
        return ColumnarPlan(remaining, self._parts(plan, logged, following))

    def _parts(
        self, plan: _BatchPlan, logged: list[Documents], following: pa.RecordBatch | None
    ) -> Iterator[ColumnarPart]:
        """Plans query-backs as their rows are read; their documents are put among those of logged values."""
        rows, wanted = plan.rows, np.flatnonzero(plan.query_backs)
        first_remaining = int(rows.rank[plan.remaining].min(initial=_LAST_RANK))
        result = QueryBackResult()
        begin_next = partial(self._read_following, following)
        for read in self._rows_ahead.parts(rows, plan.query_backs, begin_next):
            result = plan.planner.plan(read)
            unread = wanted[np.searchsorted(wanted, read.rows[-1], "right") :]
            if len(unread):
                end = int(rows.rank[unread[0]])
                before, logged = _divide(logged, end)
                documents = _sort_by_rank([*before, *result.documents])
                end = min(end, first_remaining)
                yield ColumnarPart(documents, result.drafts, result.decisions, result.lookups, end)
        documents = _sort_by_rank([*logged, *result.documents])
        decisions = result.decisions + (plan.reduction.decisions if plan.reduction else [])
        yield ColumnarPart(documents, result.drafts, decisions, result.lookups, None)

    def _read_following(self, following: pa.RecordBatch | None) -> None:
        if following is not None:
            self.read_ahead(following)

    def _ineligible_objects(
        self,
        rows: ChangeColumns,
        after: tuple[int, int] | None,
        single_keys: Collection[str],
        following: pa.RecordBatch | None,
    ) -> Flags:
        """Flags the rows of objects that are ineligible whatever the values."""
        end, next_high = after or (None, None)
        return rows.spread(
            self._ineligible_rows(rows, next_high)
            | eligibility.continued_polls(rows, self._polls, end, following)
            | eligibility.rows_of_keys(rows, single_keys)
        )

    def _ineligible_rows(self, rows: ChangeColumns, next_high: int | None) -> Flags:
        """Flags rows that are ineligible whatever the values and the changes before and after the batch."""
        ineligible = (
            eligibility.ineligible_rows(rows, self._filter)
            | eligibility.ineligible_neighbours(rows, self._polls)
            | eligibility.ineligible_repeats(rows, next_high)
            | eligibility.unpublished_tables(rows, self._filter, self._renderer)
            | eligibility.changes_after_delete(rows, self._renderer)
        )
        if self._published is not None:
            ineligible |= eligibility.query_backs_among_others(rows)
        return ineligible


def _sort_by_rank(documents: list[Documents]) -> list[Documents]:
    """Sorts batches of documents by rank; no two documents have equal ranks."""
    last = -1
    for batch in documents:
        if batch.ranks[0] < last:
            return [join_batches(documents)]
        last = batch.ranks[-1]
    return documents


def _divide(documents: list[Documents], rank: int) -> tuple[list[Documents], list[Documents]]:
    """Divides sorted batches of documents at a rank."""
    before: list[Documents] = []
    later: list[Documents] = []
    for batch in documents:
        place = int(np.searchsorted(batch.ranks, rank))
        before.append(batch.slice(0, place))
        later.append(batch.slice(place, len(batch)))
    return [*filter(len, before)], [*filter(len, later)]


_LAST_RANK = np.iinfo(np.int64).max
