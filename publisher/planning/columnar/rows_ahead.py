"""Reads the rows of query-backs in a thread, while others are planned and their documents are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.change import Object
from publisher.planning.columnar.rows import ChangeColumns, Flags, Numbers
from publisher.planning.query_back import Answer, Answers
from publisher.planning.row_readers import PresentRows, RowQuestion

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
    read: Future[BatchRead | None]
    """``None`` if it was not made, because the rows before are long."""


class RowsAhead:
    """Reads rows in a thread, also before they are certainly needed.

    Their owner does not use the reader at the same time."""

    rows_at_once: ClassVar[int] = 2_000
    """Maximum number of objects in one look-up: rows may be long."""
    short_rows_at_once: ClassVar[int] = 4_000
    """The same after short rows: larger parts take less time for each row."""
    bytes_at_once: ClassVar[int] = 8 << 20
    """Rows are short if so many of them have documents of at most this size."""
    first_rows: ClassVar[int] = 500
    """Maximum number of objects in a look-up for which planning probably waits."""

    def __init__(self, current_rows: PresentRows) -> None:
        self._current_rows = current_rows
        self._thread: ThreadPoolExecutor | None = None
        self._reading: deque[_BegunLookup] = deque()
        """The look-ups that have begun, in the order of their rows."""

    def close(self) -> None:
        """Ends the thread after the look-ups that have begun."""
        if self._thread is not None:
            self._thread.shutdown()

    def answers(self, questions: Sequence[RowQuestion]) -> Sequence[Answer]:
        """Answers each of the questions."""
        wait([begun.read for begun in self._reading])
        return self._current_rows.answers(questions)

    def begin(self, rows: ChangeColumns, wanted: Flags) -> None:
        """Begins to read the first of the rows that are probably wanted, unless others are being read.

        The next call of ``parts`` uses them if ``rows`` are the first of its rows."""
        if self._reading:
            return
        places = np.flatnonzero(wanted)
        if self._begin(rows, places[: self.rows_at_once]):
            before = self._reading[-1].read
            self._begin(rows, places[self.rows_at_once : self.rows_ahead()], before)

    @classmethod
    def rows_ahead(cls) -> int:
        """Returns the maximum number of rows that ``begin`` reads."""
        return cls.rows_at_once + cls.short_rows_at_once

    def parts(
        self, rows: ChangeColumns, wanted: Flags, begin_next: Callable[[], None]
    ) -> Iterator[BatchRead]:
        """Reads the wanted rows part by part, in their order; reads the next parts while one is used.

        Calls ``begin_next`` when the last part is read."""
        unread = np.flatnonzero(wanted)
        begun = self._count_begun(rows, wanted) or self._begin(rows, unread[: self.first_rows])
        unread, reading = unread[begun:], len(self._reading)
        size = self.rows_at_once
        if not reading:
            begin_next()
        while reading:
            lookup = self._reading.popleft()
            read = lookup.read.result()
            reading -= 1
            if read is None:
                unread = np.append(lookup.rows[wanted[lookup.rows]], unread)
            else:
                # the next rows are probably as long; of long rows only few are held in memory
                is_long = self._has_long_rows(read)
                size = self.rows_at_once if is_long else self.short_rows_at_once
            if len(unread) and not reading:
                unread = unread[self._begin(rows, unread[:size]) :]
                reading = 1
            if not reading:
                begin_next()
            if read is not None:
                yield read.select(wanted[read.rows])

    def _has_long_rows(self, read: BatchRead) -> bool:
        expected = read.bytes_of_documents * self.short_rows_at_once / len(read.rows)
        return expected > self.bytes_at_once

    def _count_begun(self, rows: ChangeColumns, wanted: Flags) -> int:
        """Counts the first wanted rows that are being read; forgets other rows that are being read."""
        unread, count = np.flatnonzero(wanted), 0
        for begun, ranks, _ in self._reading:
            if begun[-1] >= len(rows.rank) or not np.array_equal(rows.rank[begun], ranks):
                break
            found = begun[wanted[begun]]
            if not np.array_equal(found, unread[count : count + len(found)]):
                break
            count += len(found)
        else:
            if count:
                return count
        wait([begun.read for begun in self._reading])
        self._reading.clear()
        return 0

    def _begin(
        self, rows: ChangeColumns, places: Numbers, before: Future[BatchRead | None] | None = None
    ) -> int:
        """Begins to read rows, after other rows only if these are short; returns their number."""
        if len(places):
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "look-up")
            # the thread uses the connections that this thread keeps
            read = self._thread.submit(copy_context().run, self._read, rows, places, before)
            self._reading.append(_BegunLookup(places, rows.rank[places], read))
        return len(places)

    def _read(
        self, rows: ChangeColumns, places: Numbers, before: Future[BatchRead | None] | None
    ) -> BatchRead | None:
        if before is not None and ((read := before.result()) is None or self._has_long_rows(read)):
            return None
        objects = rows.batch.select(list(Object._fields)).take(pa.array(places))
        return BatchRead(places, objects, self._current_rows.read(objects))
