"""Finds the records of CSV, and marks the records that violate its grammar.

Bytes are examined in bulk: if all quotes are where the grammar (RFC 4180) allows them, a line end after an
even number of quotes ends a record, and a delimiter after an even number of quotes ends a field.  If a quote
is elsewhere, a slower scanner reads the buffer again and finds the broken records.

The grammar is stricter than that of most readers: a quote inside an unquoted field, text after a closing
quote and a lone carriage return break their record.  Line ends are LF or CR LF.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from publisher.formats.files.csv_dialect import Dialect, dialect_of
from publisher.formats.files.options import SnapshotOptions

Offsets = npt.NDArray[np.int64]

LF, CR = 10, 13

OPEN_QUOTE = (
    "a quote is opened and never closed; close it, or double (escape) a quote that belongs to the"
    " text"
)
STRAY_QUOTE = (
    "a quote inside an unquoted field; put the field into quotes and double (escape) its quotes"
)
AFTER_QUOTE = "text after a closing quote; double (escape) the quotes that belong to the text"
DOUBLE_ESCAPE = (
    "two escape characters in a row, which may mean one or two; export the record with"
    " doubled quotes, or as Parquet"
)
SHIFTED_DELIMITER = (
    "a character of the delimiter beside a delimiter, which may belong to either field; put the fields"
    " into quotes, or export with another delimiter"
)
LONE_CR = "a carriage return inside an unquoted field; put the field into quotes"
TOO_LONG = "the record is longer than max_record; raise that setting, or close the open quote"
ENDS_FILE = (
    "the record is so much longer than max_record that a quote may be open, so the rest of the file is not"
    " read; close the quote, or raise that setting"
)
NO_TEXT = (
    "bytes that are not text in the file's encoding; set the right encoding, or fix the record"
)


class Piece(NamedTuple):
    """The records of a buffer, [start, stop) without the line end, and the faults of broken records."""

    starts: Offsets
    stops: Offsets
    wrong: dict[int, str]
    """The fault of each broken record, by its index."""
    used: int
    """Number of bytes that are finished; the others are examined again with the next block."""


def find(data: bytes, width: int, options: SnapshotOptions, *, final: bool) -> Piece:
    """Finds the records of a buffer, in bulk if its quotes allow, and checks their field counts."""
    dialect = dialect_of(options)
    if dialect.is_plain:
        piece = _find_in_bulk(data, width, dialect, final=final)
        if piece is not None:
            return piece
    return scan(data, options, final=final, width=width)


def _find_in_bulk(data: bytes, width: int, dialect: Dialect, *, final: bool) -> Piece | None:
    quote, delimiter = dialect.quote, dialect.delimiter[0]
    buffer = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(buffer == LF)
    any_quotes = bool(quote) and quote in data
    quotes = np.flatnonzero(buffer == quote[0]) if any_quotes else np.empty(0, np.int64)
    if len(quotes):
        ends = _outside(ends, quotes)
    used = len(data) if final else (int(ends[-1]) + 1 if len(ends) else 0)
    if (final and len(quotes) % 2) or not _quotes_are_valid(buffer, quotes, dialect):
        return None  # quotes after the last line end count, too: they may hide line ends
    delimiters = np.flatnonzero(buffer[:used] == delimiter)
    delimiters = _outside(delimiters, quotes) if len(quotes) else delimiters
    starts = np.concatenate(([0], ends + 1))
    stops = np.append(ends, used)
    if starts[-1] >= used:
        starts, stops = starts[:-1], stops[:-1]
    counts = np.searchsorted(delimiters, stops) - np.searchsorted(delimiters, starts) + 1
    stops = _without_cr(buffer, starts, stops)
    wrong = {
        int(i): _width_problem(int(counts[i]), width)
        for i in np.flatnonzero((counts != width) & ((stops > starts) | (width == 1)))
    }
    return Piece(starts, stops, wrong | _lone_cr(buffer, quotes, starts, stops), used)


def _outside(positions: Offsets, quotes: Offsets) -> Offsets:
    outside: Offsets = positions[np.searchsorted(quotes, positions) % 2 == 0]
    return outside


def _without_cr(buffer: npt.NDArray[np.uint8], starts: Offsets, stops: Offsets) -> Offsets:
    if not len(stops):
        return stops
    ends_in_cr = (stops > starts) & (buffer[np.maximum(stops - 1, 0)] == CR)
    without: Offsets = stops - ends_in_cr.astype(np.int64)
    return without


def _lone_cr(
    buffer: npt.NDArray[np.uint8], quotes: Offsets, starts: Offsets, stops: Offsets
) -> dict[int, str]:
    returns = np.flatnonzero(buffer == CR)
    if not len(returns):
        return {}
    returns = _outside(returns, quotes)
    records = np.searchsorted(starts, returns, side="right") - 1
    inside = (
        returns < stops[np.minimum(records, len(stops) - 1)]
        if len(stops)
        else np.zeros(len(returns), bool)
    )
    return {int(i): LONE_CR for i in records[inside]}


def _quotes_are_valid(buffer: npt.NDArray[np.uint8], quotes: Offsets, dialect: Dialect) -> bool:
    """Tests that each quote opens or closes a field or is half of a doubled one; the last may be open."""
    if not len(quotes):
        return True
    delimiter, quote = dialect.delimiter[0], dialect.quote[0]
    opens, closes = quotes[0::2], quotes[1::2]
    before = np.where(opens > 0, buffer[opens - 1], LF)
    last = len(buffer) - 1
    after = np.where(closes < last, buffer[np.minimum(closes + 1, last)], LF)
    after_next = np.where(closes + 1 < last, buffer[np.minimum(closes + 2, last)], LF)
    return bool(
        np.isin(before, (delimiter, LF, quote)).all()
        and (np.isin(after, (delimiter, LF, quote)) | ((after == CR) & (after_next == LF))).all()
    )


def _width_problem(count: int, width: int) -> str:
    return f"{count} fields where there should be {width}; fix the record, or the delimiter in the settings"


def scan(
    data: bytes,
    options: SnapshotOptions,
    *,
    final: bool,
    width: int | None = None,
    only_first: bool = False,
) -> Piece:
    """Finds the records of a buffer one by one: slow, but correct for any bytes.

    ``only_first`` stops after the first record that is not blank.
    """
    dialect = dialect_of(options)
    starts: list[int] = []
    stops: list[int] = []
    wrong: dict[int, str] = {}
    at = 0
    while at < len(data):
        record = read_record(data, at, dialect)
        if record.after is None and not final:
            break
        stop, count, why = record.stop, record.width, record.why
        after = len(data) if record.after is None else record.after
        if data[at:stop].endswith(b"\r"):
            stop -= 1
        if why is None and width is not None and count != width and (stop > at or width == 1):
            why = _width_problem(count, width)
        if why is not None:
            wrong[len(starts)] = why
        starts.append(at)
        stops.append(stop)
        if only_first and stop > at:
            break
        at = after
    return Piece(np.array(starts, np.int64), np.array(stops, np.int64), wrong, at)


class CsvRecord(NamedTuple):
    """One record of a buffer."""

    stop: int
    """Its end, before the LF; a CR before the LF is included."""
    after: int | None
    """Start of the next record; ``None`` if the buffer ends before it."""
    width: int
    """Number of its fields."""
    why: str | None
    """The first fault of its grammar."""


def read_record(data: bytes, at: int, dialect: Dialect) -> CsvRecord:
    """Reads the record that begins at ``at``."""
    count, why = 0, None
    while True:
        skipped = _skip_fields(dialect, data, at)
        count += data.count(dialect.delimiter, at, skipped) + 1
        at = skipped
        if dialect.quote and data.startswith(dialect.quote, at):
            if dialect.doubled is not None and dialect.doubled.match(data, at):
                why = why or DOUBLE_ESCAPE
            match = dialect.quoted.match(data, at)
            if match is None:
                return CsvRecord(len(data), None, count, why or OPEN_QUOTE)
            at = match.end()
            text = _span(dialect, data, at)
            if text not in (b"", b"\r"):
                why = why or AFTER_QUOTE
        else:
            text = _span(dialect, data, at)
            follows = data.startswith(dialect.delimiter, at + len(text))
            why = why or _text_problem(text if follows else text.removesuffix(b"\r"), dialect)
        at += len(text)
        if not data.startswith(dialect.delimiter, at):
            return _record_to(data, at, count, why)
        if text == b"\r":
            why = why or LONE_CR
        elif dialect.overlaps_itself(data, at):
            why = why or SHIFTED_DELIMITER
        at += len(dialect.delimiter)


def _skip_fields(dialect: Dialect, data: bytes, at: int) -> int:
    """Returns the start of the last of the unquoted fields without fault that begin at ``at``."""
    match = dialect.valid_fields and dialect.valid_fields.match(data, at)
    return data.rfind(dialect.delimiter, at, match.end()) + 1 or at if match else at


def _text_problem(text: bytes, dialect: Dialect) -> str | None:
    """Returns the problem of an unquoted field, if it has one."""
    if dialect.quote and dialect.quote in text:
        return STRAY_QUOTE
    return LONE_CR if b"\r" in text else None


def _span(dialect: Dialect, data: bytes, at: int) -> bytes:
    match = dialect.unquoted.match(data, at)
    return b"" if match is None else match.group()


def _record_to(data: bytes, at: int, count: int, why: str | None) -> CsvRecord:
    """The record up to ``at``; it ends outside the buffer if its line end was not found."""
    if at >= len(data):
        return CsvRecord(len(data), None, count, why)
    return CsvRecord(at, at + 1, count, why)


def values(record: bytes, dialect: Dialect) -> list[tuple[bytes, bool]]:
    """Splits one record into its fields; returns the text of each, and whether it is quoted."""
    fields_, at = [], 0
    while True:
        is_quoted = bool(dialect.quote) and record.startswith(dialect.quote, at)
        match = dialect.quoted.match(record, at) if is_quoted else None
        raw = match.group() if match else _span(dialect, record, at)
        at += len(raw)
        fields_.append((dialect.text_of(raw) if match else raw, match is not None))
        if at >= len(record):
            return fields_
        at += len(dialect.delimiter)


def fields(record: bytes, options: SnapshotOptions) -> list[str]:
    """Splits one record into its fields, for a header."""
    texts = (text for text, _ in values(record, dialect_of(options)))
    return [text.decode("utf-8", "backslashreplace") for text in texts]
