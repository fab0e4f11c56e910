"""Records longer than ``max_record``: each becomes one reject; its end is found without storing the record.

A long record ends at the first line end after ``max_record`` bytes.  If this line end is inside quotes, and
the quotes close correctly within another ``max_record`` bytes, the record ends where the grammar ends it; a
record whose quote never closes must not consume the rest of the file.  Both rules depend on the bytes alone,
not on how they are divided into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from publisher.sources.files.csv_dialect import dialect_of
from publisher.sources.files.csv_records import (
    AFTER_QUOTE,
    DOUBLE_ESCAPE,
    LONE_CR,
    OPEN_QUOTE,
    SHIFTED_DELIMITER,
    STRAY_QUOTE,
    TOO_LONG,
    Piece,
    find,
    read_record,
)
from publisher.sources.files.options import SnapshotOptions

_DOUBTS = frozenset(
    {OPEN_QUOTE, STRAY_QUOTE, AFTER_QUOTE, LONE_CR, DOUBLE_ESCAPE, SHIFTED_DELIMITER}
)
"""Faults after which it is uncertain which quotes begin a field and which end one."""


class LongRecord:
    """The rest of a record after its first ``max_record`` bytes."""

    def __init__(self, options: SnapshotOptions) -> None:
        self._limit = options.max_record
        self._dialect = dialect_of(options)
        self._least = options.max_record
        """Bytes before the first line end that may end the record."""
        self._opening: bytes | None = b""
        """A quote if the next byte is inside quotes, else the last byte of the field; ``None`` if unknown."""
        self._in_quotes = False
        """Whether the first line end that may end the record was inside quotes."""

    def end(self, data: bytes, *, final: bool) -> tuple[int, bool]:
        """Returns how many of the next bytes belong to the record, and whether it ends after them.

        If the record does not end, call again with the remaining bytes and more.
        """
        if self._in_quotes:
            return self._end_of_quotes(data, final=final)
        stop = data.find(b"\n", self._least) + 1
        if not stop:
            used = len(data) if final else self._advance(data)
            self._least = max(0, self._least - used)
            return used, final
        self._advance(data[:stop])
        self._in_quotes = bool(self._dialect.quote) and self._opening == self._dialect.quote
        return stop, not self._in_quotes

    def _advance(self, data: bytes) -> int:
        """Parses the next bytes; returns the number of bytes that are no longer needed."""
        if self._opening is None or not data:
            return len(data)
        whole = self._without_partial_mark(self._opening + data)
        if self._has_only_delimiters(whole):
            before, last = self._opening, whole.rfind(self._dialect.delimiter) + 1
            self._opening = whole[last:][-1:]
            return len(whole) - len(before)
        record = read_record(whole, 0, self._dialect)
        used = len(whole)
        if record.after is not None or record.why not in (None, OPEN_QUOTE):
            self._opening = None
            return len(data)
        if match := self._dialect.begun.match(whole, record.field):
            used = match.end()
        before, self._opening = (
            self._opening,
            self._dialect.quote if match else whole[record.field :][-1:],
        )
        return used - len(before)

    def _has_only_delimiters(self, text: bytes) -> bool:
        """Tests whether a text has no quotes and no line ends, so that its last field is easy to find."""
        marks = (self._dialect.quote, b"\r", b"\n")
        return self._dialect.is_plain and not any(mark and mark in text for mark in marks)

    def _without_partial_mark(self, text: bytes) -> bytes:
        """Removes trailing bytes that may be the beginning of a line end or a delimiter."""
        text, delimiter = text.removesuffix(b"\r"), self._dialect.delimiter
        for size in range(len(delimiter) - 1, 0, -1):
            if text.endswith(delimiter[:size]):
                return text[:-size]
        return text

    def _end_of_quotes(self, data: bytes, *, final: bool) -> tuple[int, bool]:
        """Finds the end after a quoted line end: where the grammar ends the record, else this line end."""
        limit = self._limit
        record = read_record(self._dialect.quote + data, 0, self._dialect)
        if record.why is None and (record.after is not None or final):
            text = data[: record.stop - 1].removesuffix(b"\r")
            after = len(data) if record.after is None else record.after - 1
            return (after if len(text) <= limit else 0), True
        may_close = record.why is None or (record.open and record.why == OPEN_QUOTE)
        return 0, final or not may_close or len(data) > limit + 1  # the last byte may be a CR


class PieceFinder:
    """Finds the records of consecutive blocks; keeps the incomplete rest."""

    def __init__(self, width: int, options: SnapshotOptions) -> None:
        self._width = width
        self._options = options
        self._long: LongRecord | None = None
        self.rest = b""
        """Bytes that are examined again with the next block."""

    def pieces(self, block: bytes, *, final: bool) -> Iterator[tuple[bytes, Piece]]:
        """Yields the records that end in a block, with the bytes that their offsets refer to."""
        data, has_more = self.rest + block, True
        while has_more:
            if self._long is not None:
                used, ends = self._long.end(data, final=final)
                yield data, Piece(np.empty(0, np.int64), np.empty(0, np.int64), {}, used)
                data = data[used:]
                if not ends:
                    break
            whole = find(data, self._width, self._options, final=final)
            piece, self._long = _limit(data, whole, self._options, final=final)
            yield data, piece
            data = data[piece.used :]
            has_more = self._long is not None or piece.used < whole.used
        self.rest = data


def _limit(
    data: bytes, piece: Piece, options: SnapshotOptions, *, final: bool
) -> tuple[Piece, LongRecord | None]:
    """Marks and truncates long records; returns the records up to the first whose end is uncertain.

    The second value is the pending record if it is already too long.
    """
    limit = options.max_record
    long = np.flatnonzero(piece.stops - piece.starts > limit).tolist()
    for place, index in enumerate(long):
        start, stop = int(piece.starts[index]), int(piece.stops[index])
        line_end = data.find(b"\n", start + limit, stop) + 1
        if line_end and (piece.wrong.get(index) in _DOUBTS or stop - line_end > limit):
            return _mark_long(_first(piece, index + 1, line_end), long[: place + 1], limit), None
    piece = _mark_long(piece, long, limit)
    if final or len(data) - piece.used <= limit + 1:  # the last byte may be a CR
        return piece, None
    start = piece.used
    starts, stops = np.append(piece.starts, start), np.append(piece.stops, start + limit)
    wrong = piece.wrong | {len(piece.starts): TOO_LONG}
    return Piece(starts, stops, wrong, start), LongRecord(options)


def _first(piece: Piece, count: int, used: int) -> Piece:
    """The first records of a piece."""
    wrong = {index: why for index, why in piece.wrong.items() if index < count}
    return Piece(piece.starts[:count], piece.stops[:count], wrong, used)


def _mark_long(piece: Piece, long: list[int], limit: int) -> Piece:
    """Marks long records as broken and truncates them."""
    if not long:
        return piece
    stops = piece.stops.copy()
    stops[long] = piece.starts[long] + limit
    return piece._replace(stops=stops, wrong=piece.wrong | dict.fromkeys(long, TOO_LONG))
