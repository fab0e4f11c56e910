"""Reads the rows of query-backs in a thread, while others are planned and their documents are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.change import Object
from publisher.planning.columnar.rows import ChangeColumns, Flags, Numbers
from publisher.planning.query_back import Answer, Answers
from publisher.planning.row_readers import CurrentRowReader, RowQuestion

_BYTES_OF_TAGS = 100
"""Bytes of the tags around a value in a document, roughly."""


class BatchRead(NamedTuple):
    """Some query-backs with their objects and the answers of the database."""

    rows: Numbers
    objects: pa.RecordBatch
    """Schemas, tables and keys."""
    answers: Answers

    @property
    def bytes_of_documents(self) -> int:
        """The size of the values and of the tags around them, roughly."""
        return sum(
            column.nbytes + _BYTES_OF_TAGS * len(column)
            for rows in self.answers.rows
            for column in rows.values
        )

    def select(self, wanted: Flags) -> BatchRead:
        """Keeps the answers for wanted rows only; ``wanted`` has a flag for each of ``rows``."""
        if wanted.all():
            return self
        rows = [rows.select(np.flatnonzero(wanted[rows.places])) for rows in self.answers.rows]
        others = {place: each for place, each in self.answers.others.items() if wanted[place]}
        return self._replace(answers=Answers([each for each in rows if len(each.places)], others))


class _BegunLookup(NamedTuple):
    """A look-up that has begun."""

    rows: Numbers
    ranks: Numbers
    read: Future[BatchRead]


class RowsAhead:
    """Reads rows in a thread, also before they are certainly needed.

    The thread and its owner do not use the reader at the same time."""

    rows_at_once: ClassVar[int] = 2_000
    """Maximum number of objects in one look-up: rows may be long."""
    short_rows_at_once: ClassVar[int] = 4_000
    """The same after short rows: larger parts take less time for each row."""
    bytes_at_once: ClassVar[int] = 8 << 20
    """Rows are short if so many of them have documents of at most this size."""
    first_rows: ClassVar[int] = 500
    """Maximum number of objects in a look-up for which planning probably waits."""

    def __init__(self, current_rows: CurrentRowReader) -> None:
        self._current_rows = current_rows
        self._thread: ThreadPoolExecutor | None = None
        self._reading: _BegunLookup | None = None

    def close(self) -> None:
        """Ends the thread after the look-up that it has begun."""
        if self._thread is not None:
            self._thread.shutdown()

    def answers(self, questions: Sequence[RowQuestion]) -> Sequence[Answer]:
        """Answers each of the questions."""
        if self._reading is not None:
            wait([self._reading.read])
        return self._current_rows.answers(questions)

    def begin(self, rows: ChangeColumns, wanted: Flags, at_most: int) -> None:
        """Begins to read the first of the rows that are probably wanted, unless others are being read.

        The next call of ``parts`` uses them if ``rows`` are the first of its rows."""
        places = np.flatnonzero(wanted)[:at_most]
        if len(places) and self._reading is None and self._current_rows.may_read_ahead:
            self._begin(rows, places)

    def parts(
        self, rows: ChangeColumns, wanted: Flags, begin_next: Callable[[], None]
    ) -> Iterator[BatchRead]:
        """Reads the wanted rows part by part, in their order; reads the next part while one is used.

        Calls ``begin_next`` when the last part is read."""
        unread = np.flatnonzero(wanted)
        if not self._has_begun(rows, wanted):
            self._begin(rows, unread[: self.first_rows])
        if not len(unread):
            begin_next()
        while len(unread):
            reading, self._reading = self._reading, None
            assert reading is not None
            read = reading.read.result()
            is_wanted = wanted[read.rows]
            unread = unread[np.count_nonzero(is_wanted) :]
            if len(unread):
                self._begin(rows, unread[: self._rows_after(read)])
            else:
                begin_next()
            yield read.select(is_wanted)

    def _rows_after(self, read: BatchRead) -> int:
        """Returns the size of the next look-up, whose rows are probably as long as those of the last."""
        expected = read.bytes_of_documents * self.short_rows_at_once / len(read.rows)
        return self.short_rows_at_once if expected <= self.bytes_at_once else self.rows_at_once

    def _has_begun(self, rows: ChangeColumns, wanted: Flags) -> bool:
        """Returns whether the first wanted rows are being read; forgets other rows that are being read."""
        if self._reading is None:
            return False
        begun, ranks, read = self._reading
        if begun[-1] < len(rows.rank) and np.array_equal(rows.rank[begun], ranks):
            unread, found = np.flatnonzero(wanted), begun[wanted[begun]]
            if len(found) and np.array_equal(found, unread[: len(found)]):
                return True
        wait([read])
        self._reading = None
        return False

    def _begin(self, rows: ChangeColumns, places: Numbers) -> None:
        if not len(places):
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "look-up")
        # the thread uses the connections that this thread keeps
        read = self._thread.submit(copy_context().run, self._read, rows, places)
        self._reading = _BegunLookup(places, rows.rank[places], read)

    def _read(self, rows: ChangeColumns, places: Numbers) -> BatchRead:
        objects = rows.batch.select(list(Object._fields)).take(pa.array(places))
        return BatchRead(places, objects, self._current_rows.read(objects, rows.rank[places]))
