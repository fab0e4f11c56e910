"""Plans the changes of one source in one lane: by the column where possible, otherwise one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from publisher.model.change_batches import changes_of
from publisher.model.key_changes import KeyHistory
from publisher.model.packed_batches import concat
from publisher.model.published_objects import PublishedObjects
from publisher.planning.columnar import ColumnarPlanner
from publisher.planning.columnar.rows import Numbers
from publisher.planning.columnar.rows_ahead import RowsAhead
from publisher.planning.filters import Filter, Window
from publisher.planning.planner import Planner, PlanResult
from publisher.planning.polls import PollOptions
from publisher.planning.renderer import Renderer
from publisher.planning.row_readers import PresentRows
from publisher.planning.torn_transactions import RejectedTransactions


class LanePlanner:
    """Plans batches of changes in position order; holds back the last poll, which may continue.

    ``rows`` are the row numbers of changes in the lane.
    """

    few_rows: ClassVar[int] = 150
    """Maximum number of complete changes that are planned one by one, which is faster for so few."""

    def __init__(
        self,
        renderer: Renderer,
        filter_: Filter,
        *,
        polls: PollOptions | None,
        rows: PresentRows,
        window: Window | None,
        rejected: RejectedTransactions | None,
        history: KeyHistory | None = None,
        published: PublishedObjects | None = None,
    ) -> None:
        """For ``polls`` and ``published`` see ``Planner``."""
        self._rows_ahead = RowsAhead(rows)
        self._planner = Planner(
            renderer,
            filter_,
            polls=polls,
            rows=self._rows_ahead,
            window=window,
            rejected=rejected,
            history=history,
            published=published,
        )
        self._columnar: ColumnarPlanner | None = None
        if polls is not None and window is None and renderer.has_uniform_documents:
            self._columnar = ColumnarPlanner(renderer, filter_, polls, self._rows_ahead, published)
        self._changing_keys = [obj.key for obj in history.old_keys] if history else []
        if history is not None and published is not None:
            self._changing_keys += [obj.key for obj in history.new_keys]
        self._held: list[tuple[Numbers, pa.RecordBatch]] = []
        """Rows and changes of the last poll, in batches."""

    def close(self) -> None:
        """Ends the thread that reads rows; needed after an error, too."""
        self._rows_ahead.close()

    def read_ahead(self, batch: pa.RecordBatch) -> None:
        """Begins to read rows for the first changes of a lane, which ``add`` gets next."""
        if self._columnar is not None and not self._held and batch.num_rows > self.few_rows:
            self._columnar.read_ahead(batch.slice(0, RowsAhead.rows_ahead()))

    def add(self, rows: Numbers, batch: pa.RecordBatch) -> Iterator[PlanResult]:
        """Adds the next changes; yields the results that are ready."""
        if self._columnar is None:
            yield self._plan_singly(rows, batch)
            return
        self._held.append((rows, batch))
        if self._columnar.is_one_poll(self._held[0][1], batch):
            return
        rows, batch = self._release()
        ready = self._columnar.count_complete(batch)
        after = (batch["rank"][ready].as_py(), batch["high"][ready].as_py())
        last = np.arange(ready, len(rows))  # a slice would keep all rows in memory
        self._held.append((rows[last], batch.take(pa.array(last))))
        results = self._plan_by_column(rows[:ready], batch.slice(0, ready), after)
        del batch  # the results need its memory
        yield from results

    def finish(self) -> Iterator[PlanResult]:
        """Yields the remaining results at the end of the lane."""
        if self._held:
            yield from self._plan_by_column(*self._release(), None)
        yield self._planner.finish()

    def _release(self) -> tuple[Numbers, pa.RecordBatch]:
        """Joins and removes the rows and changes that are held back."""
        held, self._held = self._held, []
        rows, batches = zip(*held, strict=True)
        return np.concatenate(rows), concat(batches)

    def _plan_by_column(
        self, rows: Numbers, batch: pa.RecordBatch, after: tuple[int, int] | None
    ) -> Iterator[PlanResult]:
        """Plans complete polls; ``after`` are rank and high of the next change, if there is one."""
        assert self._columnar is not None
        open_objects = self._planner.advance(batch["rank"][0].as_py())
        if batch.num_rows <= self.few_rows:
            changes = changes_of(batch, rows.tolist())
            del batch  # the changes have copies of its values
            yield self._planner.add(changes)
            return
        single_keys = [obj.key for obj in open_objects]
        single_keys += [*self._planner.deletes.keys, *self._changing_keys]
        single_keys += self._planner.waiting_keys()
        held = self._held[0][1] if self._held else None
        columnar = self._columnar.plan(
            batch,
            rows,
            after=after,
            single_keys=single_keys,
            following=held if held is not None and held.num_rows > self.few_rows else None,
        )
        self._planner.deletes.add_batch(batch, rows, ~columnar.remaining)
        for part in columnar.parts:
            self._planner.add_documents(part.documents, part.drafts)
            yield PlanResult(decisions=part.decisions, lookups=part.lookups)
            if part.end is not None:
                yield self._planner.take(part.end)
        remaining = batch.filter(pa.array(columnar.remaining))
        yield self._plan_singly(rows[columnar.remaining], remaining)

    def _plan_singly(self, rows: Numbers, batch: pa.RecordBatch) -> PlanResult:
        return self._planner.add(changes_of(batch, rows.tolist()))
