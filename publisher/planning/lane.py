"""Plans the changes of one source in one lane, chunk by chunk.

A chunk is planned in two steps: the rules that need no current rows, then, when the rows of its query-backs
are read, the rest.  While rows are read, the first step of the next chunk is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.arrays import Int64Array, booleans, integers, order_by, partners
from publisher.model.change_batches import objects_of
from publisher.model.outcomes import Outcomes
from publisher.model.packed_batches import concat
from publisher.model.published_objects import PublishedObjects
from publisher.planning.fields import Fields, take
from publisher.planning.minimal import reduce_pieces
from publisher.planning.plan import READS, ChunkPlan, Memory, PlanRules
from publisher.planning.query_back import Answer, Answers, Lookup, ObjectLookup, RowLookups
from publisher.planning.reads import NOTHING_READ, Questions, ask, read
from publisher.planning.texts import Form, Writer, gather_pieces, group_operations


@dataclass(slots=True)
class PlanResult:
    """A part of the plan: documents in their order, outcomes of changes without one, look-ups."""

    documents: list[pa.RecordBatch] = field(default_factory=list)
    """Batches of ``DOCUMENT_SCHEMA``."""
    outcomes: list[Outcomes] = field(default_factory=list)
    lookups: list[ObjectLookup | RowLookups] = field(default_factory=list)


class _OpenChunk(NamedTuple):
    """A chunk whose rows may still be read."""

    plan: ChunkPlan
    questions: Questions | None
    answers: Callable[[], Answers]
    first_open: int | None
    """Row of the first change of an open window, which later documents follow; ``None`` without one."""


class LanePlanner:
    """Plans batches of changes in the order of the lane."""

    fields_at_once: ClassVar[int] = 20_000
    """Size of a chunk, which is up to twice as large where batches are."""
    reads_at_once: ClassVar[int] = 2_000
    """Number of query-backs in a chunk, more if a poll has more; of short rows twice as many."""
    bytes_at_once: ClassVar[int] = 8 << 20
    """Size of the values of a chunk; a chunk has at least one change."""

    def __init__(
        self,
        rules: PlanRules,
        form: Form,
        lookup: Lookup,
        published: PublishedObjects | None = None,
    ) -> None:
        """With ``published`` operations are reduced to their differences from it."""
        self._rules = rules
        self._form = form
        self._lookup = lookup
        self._published = published
        self._memory = Memory()
        self._waiting: list[tuple[Int64Array, pa.RecordBatch]] = []
        """Rows and changes that are not planned yet."""
        self._open: list[tuple[Int64Array, pa.RecordBatch]] = []
        """Those of open windows, which are planned again with the next chunk."""
        self._chunk: _OpenChunk | None = None
        self._held: list[pa.RecordBatch] = []
        """Documents after the first change of an open window."""
        self._thread: ThreadPoolExecutor | None = None
        self._are_short = False
        """True if twice as many documents of rows as those last read are at most ``bytes_at_once``."""

    def close(self) -> None:
        """Ends the thread that reads rows; needed after an error, too."""
        if self._thread is not None:
            self._thread.shutdown()

    def add(self, rows: Int64Array, batch: pa.RecordBatch) -> Iterator[PlanResult]:
        """Adds the next changes, with their row numbers in the lane; yields the results that are ready."""
        self._waiting.append((rows, batch))
        while self._is_full():
            yield from self._plan_next(is_last=False)

    def finish(self) -> Iterator[PlanResult]:
        """Yields the remaining results at the end of the lane."""
        while self._open or self._waiting:
            yield from self._plan_next(is_last=True)
        yield from self._complete()

    def _is_full(self) -> bool:
        changes, size = _size(self._waiting)
        # at least as many new changes come with those of open windows
        most = max(self.fields_at_once, _size(self._open)[0])
        return changes > most or size > self.bytes_at_once

    def _plan_next(self, *, is_last: bool) -> Iterator[PlanResult]:
        """Plans the next chunk as far as no rows are needed, then completes the chunk before."""
        least = _size(self._open)[0]
        parts = [*self._open, *self._waiting]
        self._open, self._waiting = [], []
        rows = np.concatenate([part for part, _ in parts])
        batch = concat([part for _, part in parts])
        del parts
        end = self._end_of_chunk(batch, 2 * least)
        is_last = is_last and end == len(rows)
        fields = Fields.of(batch.slice(0, end), rows[:end], self._rules.names)
        plan = ChunkPlan(fields, self._rules, self._memory, is_last=is_last)
        plan.decide()
        carried = np.flatnonzero(plan.carried())
        if len(carried):
            self._open.append((rows[carried], batch.take(pa.array(carried))))
        if end < len(rows):
            self._waiting.append((rows[end:], batch.slice(end)))
        questions = ask(plan)
        answers = self._begin_reading(questions, ahead=not is_last or self._chunk is not None)
        first_open = int(rows[carried[0]]) if len(carried) else None
        yield from self._complete()
        self._chunk = _OpenChunk(plan, questions, answers, first_open)

    def _complete(self) -> Iterator[PlanResult]:
        if self._chunk is not None:
            chunk, self._chunk = self._chunk, None
            yield self._result(chunk)

    def _end_of_chunk(self, batch: pa.RecordBatch, least: int) -> int:
        """The number of changes of the next chunk, which has ``least`` of them even if they are many."""
        types = integers(batch["event_type"])
        sizes = np.zeros(len(types), np.int64)
        if batch.nbytes > self.bytes_at_once:
            sizes = _value_sizes(batch["old"]) + _value_sizes(batch["new"])
        columns = np.maximum(integers(pc.list_value_length(batch["columns"])), 1)
        reads_at_once = self.reads_at_once * (2 if self._are_short else 1)
        weights = (columns, READS[types], sizes)
        limits = (2 * self.fields_at_once, reads_at_once, self.bytes_at_once)
        ends = [
            np.searchsorted(np.cumsum(w), n, "right") for w, n in zip(weights, limits, strict=True)
        ]
        end = min(max(1, least, int(min(ends))), len(types))
        windows = self._rules.windows
        if windows is None or end == len(types):
            return end
        # few windows are open after the end of a poll and the slack behind it
        rank, size = integers(batch["rank"]), windows.poll_size
        begin = int(rank[end - 1] - 1) // size * size + windows.poll_slack
        before, after = (np.searchsorted(rank, (begin, begin + size), "right") + 1).tolist()
        if before < least or rank[0] > begin:
            before, end = after, len(types)
        return min(int(before), end)

    def _begin_reading(self, questions: Questions | None, *, ahead: bool) -> Callable[[], Answers]:
        """Reads rows in the thread if ``ahead``, else when the answers are asked for."""
        if questions is None:
            return partial(Answers, [], {})
        read_rows = partial(self._lookup.read, questions.rows, questions.named)
        if not ahead:
            return read_rows
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "look-up")
        # the thread uses the connections that this thread keeps
        return self._thread.submit(copy_context().run, read_rows).result

    def _result(self, chunk: _OpenChunk) -> PlanResult:
        """Completes a chunk when its rows are read."""
        plan, result, texts = chunk.plan, PlanResult(), NOTHING_READ
        if chunk.questions is not None:
            answers = chunk.answers()
            result.lookups = list(_lookups(plan, chunk.questions, answers))
            adds = self._form.options.insert_query_back == "add"
            texts = read(plan, chunk.questions, answers, adds)
        plan.drop_empty()
        operations = group_operations(plan, self._form)
        pieces = gather_pieces(plan, self._form, texts)
        if self._published is not None:
            operations, pieces = reduce_pieces(
                plan, self._form, operations, pieces, self._published
            )
        documents = list(Writer(plan, self._form, operations).documents(pieces))
        if chunk.questions is not None:
            size = 2 * self.reads_at_once * sum(batch.nbytes for batch in documents)
            self._are_short = 0 < size <= self.bytes_at_once * chunk.questions.rows.num_rows
        result.documents = self._release(documents, chunk.first_open)
        result.outcomes = [plan.outcomes()]
        return result

    def _release(
        self, documents: list[pa.RecordBatch], first_open: int | None
    ) -> list[pa.RecordBatch]:
        """Returns the documents before the first open window, in the order of their first changes."""
        late = bool(self._held)
        batches, self._held = [*self._held, *documents], []
        if first_open is None and not late:
            return batches
        ready: list[pa.RecordBatch] = []
        for batch in batches:
            firsts = _first_rows(batch)
            end = len(firsts) if first_open is None else int(np.searchsorted(firsts, first_open))
            if end:
                ready.append(batch.slice(0, end))
            if end < len(firsts):
                self._held.append(batch.slice(end))
        if not late or len(ready) < 2:
            return ready
        joined = pa.concat_batches(ready)
        return [joined.take(pa.array(order_by(_first_rows(joined))))]


def _size(parts: list[tuple[Int64Array, pa.RecordBatch]]) -> tuple[int, int]:
    """The number of changes, and their bytes."""
    return sum(len(rows) for rows, _ in parts), sum(batch.nbytes for _, batch in parts)


def _first_rows(documents: pa.RecordBatch) -> Int64Array:
    return integers(pc.list_element(documents["rows"], 0))


def _value_sizes(lists: pa.ListArray) -> Int64Array:
    """The bytes of the values of each list."""
    ends = np.cumsum(np.append(0, integers(pc.binary_length(lists.flatten()))))
    offsets = integers(lists.offsets) - lists.offsets[0].as_py()
    sizes: Int64Array = np.diff(ends[offsets])
    return sizes


def _lookups(
    plan: ChunkPlan, questions: Questions, answers: Answers
) -> Iterator[ObjectLookup | RowLookups]:
    """The questions with their answers, for the record of look-ups."""
    objects = plan.fields.objects
    keys = take(objects.key, questions.object)
    of_row = take(questions.rows, questions.asked)
    is_same = booleans(pc.equal(keys, of_row["key"]))
    single: dict[int, Answer] = {}
    for rows in answers.rows:
        row = partners(questions.asked, rows.places)
        same = np.flatnonzero((row >= 0) & is_same)
        if len(same):
            chosen = rows.select(row[same])
            numbers = questions.window_number[same]
            yield RowLookups(take(of_row, same), numbers, rows.columns, chosen.values)
        for question in np.flatnonzero((row >= 0) & ~is_same).tolist():
            ((_, single[question]),) = rows.select(row[question : question + 1]).answers()
    for question in np.flatnonzero(np.isin(questions.asked, list(answers.others))).tolist():
        single[question] = answers.others[int(questions.asked[question])]
    for question, answer in single.items():
        (obj,) = objects_of(of_row.slice(question, 1))
        key, row_key = keys[question].as_py(), None if is_same[question] else obj.key
        number = int(questions.window_number[question])
        yield ObjectLookup(obj._replace(key=key), number, answer, row_key)
