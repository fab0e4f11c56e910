"""Plans the simple objects of a batch column by column."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.change import Decision
from publisher.model.document_batches import Documents, join_batches
from publisher.model.published_objects import PublishedObjects
from publisher.planning.columnar import eligibility
from publisher.planning.columnar.minimal import MinimalWriter, Reduction
from publisher.planning.columnar.query_back import QueryBackPlanner, QueryBackResult
from publisher.planning.columnar.rows import ChangeColumns, Flags, Numbers, numbers_of
from publisher.planning.columnar.templates import change_templates
from publisher.planning.columnar.values import convert_values
from publisher.planning.columnar.writer import DocumentFields, DocumentGroups, DocumentWriter
from publisher.planning.filters import Filter
from publisher.planning.polls import PollOptions
from publisher.planning.renderer import Renderer
from publisher.planning.row_readers import CurrentRowReader


class ColumnarPlan(NamedTuple):
    """The plan of the simple objects of a batch; ``remaining`` are the rows to be planned one by one."""

    remaining: Flags
    documents: list[Documents]
    """In rank order, without equal ranks."""
    decisions: list[Decision]
    query_backs: QueryBackResult
    """All results of query-backs; ``documents`` and ``decisions`` above include theirs, too."""


class ColumnarPlanner:
    """Plans the simple objects of one event log in one lane, batch by batch."""

    def __init__(
        self,
        renderer: Renderer,
        filter_: Filter,
        polls: PollOptions,
        current_rows: CurrentRowReader,
        published: PublishedObjects | None = None,
    ) -> None:
        """For ``published`` see ``Planner``."""
        self._published = published
        self._renderer = renderer
        self._filter = filter_
        self._polls = polls
        self._current_rows = current_rows

    def count_complete(self, batch: pa.RecordBatch) -> int:
        """Counts the changes in polls before the poll of the last change."""
        rank = numbers_of(batch.column("rank"))
        size = self._polls.poll_size
        return int(np.searchsorted((rank - 1) // size, (rank[-1] - 1) // size))

    def plan(
        self,
        batch: pa.RecordBatch,
        lane_rows: Numbers,
        *,
        after: tuple[int, int] | None,
        single_keys: Collection[str],
    ) -> ColumnarPlan:
        """Plans the simple objects of ``batch``, which holds changes only, in rank order.

        ``lane_rows`` are the row numbers of the changes in the lane.  ``after`` has rank and high of the
        next change, which is in a later poll; ``None`` if no change follows.  ``single_keys`` are the
        keys of objects that earlier changes concern, or that change their keys.
        """
        if not batch.num_rows or eligibility.is_ineligible_batch(batch):
            return ColumnarPlan(np.ones(batch.num_rows, np.bool_), [], [], QueryBackResult())
        rows = ChangeColumns.of(batch)
        remaining = self._ineligible_objects(rows, after, single_keys)
        reads = eligibility.row_query_backs(rows)
        templates = change_templates(rows, ~remaining & ~reads, self._renderer)
        old, new, bad = convert_values(rows, templates)
        remaining = rows.spread(remaining | bad | ((templates.of_row < 0) & ~reads))
        groups = DocumentGroups.of(rows, remaining | reads, self._polls.poll_size)
        fields = DocumentFields(rows, lane_rows, self._polls, self._renderer)
        reduction = None
        if self._published is None:
            writer = DocumentWriter(fields, templates, (old, new))
        else:
            reduction = Reduction(self._published, lane_rows)
            writer = MinimalWriter(fields, templates, (old, new), reduction)
        logged = [writer.documents(part) for part in groups.parts(rows)]
        reader = QueryBackPlanner(
            rows, lane_rows, self._polls, self._renderer, self._current_rows, reduction
        )
        query_backs = reader.read(reads & ~remaining)
        documents = _sort_by_rank([*filter(len, logged), *query_backs.documents])
        decisions = query_backs.decisions + (reduction.decisions if reduction else [])
        return ColumnarPlan(remaining, documents, decisions, query_backs)

    def _ineligible_objects(
        self, rows: ChangeColumns, after: tuple[int, int] | None, single_keys: Collection[str]
    ) -> Flags:
        """Flags the rows of objects that are ineligible whatever the values."""
        end, next_high = after or (None, None)
        ineligible = (
            eligibility.ineligible_rows(rows, self._filter)
            | eligibility.ineligible_neighbours(rows, self._polls, end)
            | eligibility.ineligible_repeats(rows, next_high)
            | eligibility.rows_of_keys(rows, single_keys)
            | eligibility.unpublished_tables(rows, self._filter, self._renderer)
            | eligibility.changes_after_delete(rows, self._renderer)
        )
        if self._published is not None:
            ineligible |= eligibility.query_backs_among_others(rows)
        return rows.spread(ineligible)


def _sort_by_rank(documents: list[Documents]) -> list[Documents]:
    """Sorts batches of documents by rank; no two documents have equal ranks."""
    last = -1
    for batch in documents:
        if batch.ranks[0] < last:
            return [join_batches(documents)]
        last = batch.ranks[-1]
    return documents
