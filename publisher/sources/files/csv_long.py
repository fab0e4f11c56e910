"""Records longer than ``max_record``: each is one reject, and its end is found without keeping it.

Such a record ends at the first line end behind ``max_record`` bytes.  Where that lies inside quotes, it
ends where the grammar ends it, if these close well within ``max_record`` bytes more; one whose quote
never closes must not take the rest of the file.  Both follow from the bytes alone, not from the blocks
in which they come.
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
"""Faults after which nobody knows which quotes open a field and which close one."""


class LongRecord:
    """The rest of a record behind its first ``max_record`` bytes."""

    def __init__(self, options: SnapshotOptions) -> None:
        self._limit = options.max_record
        self._dialect = dialect_of(options)
        self._least = options.max_record
        """Bytes before the first line end that may end the record."""
        self._opening: bytes | None = b""
        """A short text after which the rest means what it means; ``None`` in doubt."""
        self._in_quotes = False
        """Whether that line end was inside quotes."""

    def end(self, data: bytes, *, final: bool) -> tuple[int, bool]:
        """How many of the next bytes belong to the record, and whether it ends there.

        Ask again with the others and more where it does not.
        """
        if self._in_quotes:
            return self._end_of_quotes(data, final=final)
        stop = data.find(b"\n", self._least) + 1
        if not stop:
            used = len(data) if final else self._pass_by(data)
            self._least = max(0, self._least - used)
            return used, final
        self._pass_by(data[:stop])
        self._in_quotes = bool(self._dialect.quote) and self._opening == self._dialect.quote
        return stop, not self._in_quotes

    def _pass_by(self, data: bytes) -> int:
        """Reads on; returns how many bytes are not needed any more."""
        if self._opening is None or not data:
            return len(data)
        whole = self._without_begin_of_end(self._opening + data)
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

    def _without_begin_of_end(self, text: bytes) -> bytes:
        """The text without what may be the first bytes of a line end or of a delimiter."""
        text, delimiter = text.removesuffix(b"\r"), self._dialect.delimiter
        for size in range(len(delimiter) - 1, 0, -1):
            if text.endswith(delimiter[:size]):
                return text[:-size]
        return text

    def _end_of_quotes(self, data: bytes, *, final: bool) -> tuple[int, bool]:
        """As ``end`` for what follows a line end inside quotes: all of the record, or nothing."""
        limit = self._limit
        record = read_record(self._dialect.quote + data, 0, self._dialect)
        if record.why is None and (record.after is not None or final):
            text = data[: record.stop - 1].removesuffix(b"\r")
            after = len(data) if record.after is None else record.after - 1
            return (after if len(text) <= limit else 0), True
        may_close = record.why is None or (record.open and record.why == OPEN_QUOTE)
        return 0, final or not may_close or len(data) > limit + 1  # CR may be its last


class PieceFinder:
    """Finds the records of blocks that follow each other; keeps what is not complete."""

    def __init__(self, width: int, options: SnapshotOptions) -> None:
        self._width = width
        self._options = options
        self._long: LongRecord | None = None
        self.rest = b""
        """Bytes that are looked at again with the next block."""

    def pieces(self, block: bytes, *, final: bool) -> Iterator[tuple[bytes, Piece]]:
        """The records that end in a block, and the bytes in which their places are."""
        data, again = self.rest + block, True
        while again:
            if self._long is not None:
                used, ends = self._long.end(data, final=final)
                yield data, Piece(np.empty(0, np.int64), np.empty(0, np.int64), {}, used)
                data = data[used:]
                if not ends:
                    break
            found = find(data, self._width, self._options, final=final)
            piece, self._long = _limit(data, found, self._options, final=final)
            yield data, piece
            data = data[piece.used :]
            again = self._long is not None or piece.used < found.used
        self.rest = data


def _limit(
    data: bytes, piece: Piece, options: SnapshotOptions, *, final: bool
) -> tuple[Piece, LongRecord | None]:
    """The records up to the first whose end by the grammar is not believed, long ones marked and cut to
    what may be shown of them; and the pending record where it is too long already."""
    limit = options.max_record
    long = np.flatnonzero(piece.stops - piece.starts > limit).tolist()
    for place, index in enumerate(long):
        start, stop = int(piece.starts[index]), int(piece.stops[index])
        line_end = data.find(b"\n", start + limit, stop) + 1
        if line_end and (piece.wrong.get(index) in _DOUBTS or stop - line_end > limit):
            return _shown(_first(piece, index + 1, line_end), long[: place + 1], limit), None
    piece = _shown(piece, long, limit)
    if final or len(data) - piece.used <= limit + 1:  # CR may be its last
        return piece, None
    start = piece.used
    starts, stops = np.append(piece.starts, start), np.append(piece.stops, start + limit)
    wrong = piece.wrong | {len(piece.starts): TOO_LONG}
    return Piece(starts, stops, wrong, start), LongRecord(options)


def _first(piece: Piece, count: int, used: int) -> Piece:
    """The first records of a piece."""
    wrong = {index: why for index, why in piece.wrong.items() if index < count}
    return Piece(piece.starts[:count], piece.stops[:count], wrong, used)


def _shown(piece: Piece, long: list[int], limit: int) -> Piece:
    """The same with long records marked as broken and cut."""
    if not long:
        return piece
    stops = piece.stops.copy()
    stops[long] = piece.starts[long] + limit
    return piece._replace(stops=stops, wrong=piece.wrong | dict.fromkeys(long, TOO_LONG))
