"""Framing of CSV after RFC 4180: records are found and checked here, ``pyarrow.csv`` converts them.

Bytes are looked at in bulk: with an even number of quotes before it, a line end ends a record and a
delimiter ends a field, provided that each quote stands where the grammar has quotes.  Where one does
not, the block is read again by a plain scanner, which finds the records concerned.  So what goes into
``pyarrow.csv`` is right, and its own leniency is never asked for.

Stricter than most readers: a quote inside an unquoted field, text after a closing quote and a lone
carriage return break their record.  Line ends are LF or CR LF.  Blank lines are no records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pc

from publisher.errors import FatalError, InternalError
from publisher.sources.frames import Broken, Frame
from publisher.sources.text_blocks import BOM, Tail, TextOptions, readable

Offsets = npt.NDArray[np.int64]

LF, CR, QUOTE = 10, 13, 34

OPEN_QUOTE = "a quote is opened and never closed; close it, or double a quote that belongs to the text"
STRAY_QUOTE = "a quote inside an unquoted field; put the field into quotes and double its quotes"
AFTER_QUOTE = "text after a closing quote; double the quotes that belong to the text"
LONE_CR = "a carriage return inside an unquoted field; put the field into quotes"
TOO_LONG = "the record is longer than max_record; raise that setting or mend the quote that never closes"
NO_TEXT = "bytes that are no text in the file's encoding; set the right encoding or mend the record"


class CsvOptions(TextOptions, Protocol):
    """What framing of CSV must know; see ``SnapshotOptions``."""

    @property
    def header(self) -> str: ...
    @property
    def delimiter(self) -> str: ...
    @property
    def null_text(self) -> str | None: ...
    @property
    def line_breaks(self) -> bool: ...


class CsvColumns(Protocol):
    """The columns asked for; see ``Columns``."""

    @property
    def names(self) -> tuple[str, ...]: ...
    def locate(self, found: Sequence[str], where: str) -> list[int]: ...
    def names_a_column(self, fields: Sequence[str]) -> bool: ...


@dataclass(frozen=True, slots=True)
class Header:
    """Columns of a file: how many, where those asked for are, whether its first record names them."""

    width: int
    places: tuple[int, ...]
    named: bool


class Piece(NamedTuple):
    """Records found in a buffer: [start, stop) without the line end, and what is wrong with some."""

    starts: Offsets
    stops: Offsets
    wrong: dict[int, str]
    """Index of the record to reason."""
    used: int
    """Bytes that need not be seen again."""


def read_header(start: bytes, where: str, columns: CsvColumns, options: CsvOptions) -> Header:
    """Take the header from the first bytes of a file.  Raises ``FatalError`` where it does not fit."""
    if options.header == "no":
        return Header(len(columns.names), tuple(range(len(columns.names))), named=False)
    data = start.removeprefix(BOM)
    piece = _scan(data, options, final=True)
    first = next((i for i in range(len(piece.starts)) if piece.stops[i] > piece.starts[i]), None)
    found = [] if first is None else _fields(data[piece.starts[first] : piece.stops[first]], options)
    if options.header == "auto" and not columns.names_a_column(found):
        return Header(len(columns.names), tuple(range(len(columns.names))), named=False)
    if first is None:
        return Header(len(columns.names), tuple(range(len(columns.names))), named=True)
    if first in piece.wrong:
        raise FatalError(f"{where}: the header cannot be read: {piece.wrong[first]}")
    return Header(len(found), tuple(columns.locate(found, where)), named=True)


def frames(
    blocks: Iterator[bytes | Tail], first: int, header: Header, columns: CsvColumns, options: CsvOptions
) -> Iterator[Frame]:
    """Frames of the blocks of a split whose first line has number ``first``."""
    rest, line = b"", first
    skip = header.named and first == 1
    for block, final, tail in _ends(blocks):
        data = rest + block
        piece = _find(data, header.width, options, final=final)
        if not final and len(data) - piece.used > options.max_record:
            piece = _give_up(data, piece)
        if tail is not None:
            piece = _broken_off(data, piece, tail)
        if len(piece.starts):
            frame, skip = _frame(data, piece, line, skip, header, columns, options)
            yield frame
        line += data.count(b"\n", 0, piece.used)
        rest = data[piece.used :]


def _ends(blocks: Iterator[bytes | Tail]) -> Iterator[tuple[bytes, bool, str | None]]:
    """Each block, whether it is the last, and why the file breaks off there if it does."""
    for block in blocks:
        if isinstance(block, Tail):
            yield b"", True, block.reason
            return
        yield block, False, None
    yield b"", True, None


def _give_up(data: bytes, piece: Piece) -> Piece:
    """End the pending record, which is too long, at the last line end seen."""
    start = piece.used
    stop = data.rfind(b"\n", start) + 1 or len(data)
    wrong = piece.wrong | {len(piece.starts): TOO_LONG}
    return Piece(np.append(piece.starts, start), np.append(piece.stops, stop), wrong, stop)


def _broken_off(data: bytes, piece: Piece, reason: str) -> Piece:
    """The last record of a file that breaks off is not to be trusted, whatever it looks like."""
    whole = piece.used == len(data) and (not len(piece.stops) or data.endswith(b"\n"))
    if not whole and len(piece.starts):
        return piece._replace(wrong=piece.wrong | {len(piece.starts) - 1: reason})
    end = np.int64(len(data))
    wrong = piece.wrong | {len(piece.starts): reason}
    return Piece(np.append(piece.starts, end), np.append(piece.stops, end), wrong, len(data))


def _frame(
    data: bytes,
    piece: Piece,
    line: int,
    skip: bool,
    header: Header,
    columns: CsvColumns,
    options: CsvOptions,
) -> tuple[Frame, bool]:
    """The records of a piece as a frame; ``skip`` leaves out the first one, the header."""
    starts, stops, wrong = piece.starts, piece.stops, piece.wrong
    keep = np.ones(len(starts), bool)
    if header.width > 1:
        keep &= stops > starts
    bad = np.fromiter(wrong, np.int64, len(wrong))
    keep[bad] = True
    if skip and keep.any():
        header_at = int(np.argmax(keep))
        keep[header_at] = False
        wrong = {i: why for i, why in wrong.items() if i != header_at}
        skip = False
    lines = line + np.searchsorted(np.flatnonzero(np.frombuffer(data, np.uint8) == LF), starts)
    good = keep.copy()
    good[list(wrong)] = False
    table = _convert(data, starts[good], stops[good], header, options)
    if table is None:
        indices = np.flatnonzero(good)
        wrong = wrong | {int(i): NO_TEXT for i in indices if not _is_text(data[starts[i] : stops[i]])}
        good[list(wrong)] = False
        table = _convert(data, starts[good], stops[good], header, options)
    if table is None or table.num_rows != int(good.sum()):
        raise InternalError("CSV conversion lost records; report this with the file")
    batch = _select(table, header, columns)
    broken = tuple(
        Broken(int(lines[i]), wrong[i], readable(data[starts[i] : stops[i]])) for i in sorted(wrong)
    )
    return Frame(batch, lines[good].astype(np.int64), broken), skip


def _select(table: pa.Table, header: Header, columns: CsvColumns) -> pa.RecordBatch:
    chosen = table.select(list(header.places)).combine_chunks()
    arrays = [_one(column) for column in chosen.columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns.names))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _convert(
    data: bytes, starts: Offsets, stops: Offsets, header: Header, options: CsvOptions
) -> pa.Table | None:
    """Records that are right as a table of strings; ``None`` where some are not UTF-8."""
    names = [str(i) for i in range(header.width)]
    schema = pa.schema([(name, pa.string()) for name in names])
    if not len(starts):
        return schema.empty_table()
    clean = _runs(data, starts, stops)
    nulls = [""] if options.null_text is None else ["", options.null_text]
    try:
        return pc.read_csv(
            pa.BufferReader(clean),
            pc.ReadOptions(use_threads=False, block_size=len(clean) + 1, column_names=names),
            pc.ParseOptions(
                delimiter=options.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=header.width > 1,
            ),
            pc.ConvertOptions(
                column_types=schema,
                null_values=nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        if _is_text(clean):
            raise
        return None


def _runs(data: bytes, starts: Offsets, stops: Offsets) -> bytes:
    """The records one after the other, copied in runs of neighbours."""
    near = starts[1:] - stops[:-1] <= 2  # nothing but a line end between them
    cuts = np.flatnonzero(~near)
    begins = starts[np.concatenate(([0], cuts + 1))].tolist()
    ends = stops[np.concatenate((cuts, [len(stops) - 1]))].tolist()
    return b"".join(b"%b\n" % data[a:b] for a, b in zip(begins, ends, strict=True))


# --- records ------------------------------------------------------------------------------------


def _find(data: bytes, width: int, options: CsvOptions, *, final: bool) -> Piece:
    """The records of a buffer, in bulk where its quotes allow, with their field counts checked."""
    piece = _find_in_bulk(data, width, options, final=final)
    if piece is not None:
        return piece
    return _scan(data, options, final=final, width=width)


def _find_in_bulk(data: bytes, width: int, options: CsvOptions, *, final: bool) -> Piece | None:
    buffer = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(buffer == LF)
    delimiters = np.flatnonzero(buffer == ord(options.delimiter))
    quotes = np.flatnonzero(buffer == QUOTE) if b'"' in data else np.empty(0, np.int64)
    if len(quotes):
        breaks = len(ends)
        ends = _outside(ends, quotes)
        delimiters = _outside(delimiters, quotes)
        if len(ends) < breaks and not options.line_breaks:
            return None
    used = len(data) if final else (int(ends[-1]) + 1 if len(ends) else 0)
    if len(quotes) and not _well_placed(buffer[:used], quotes[quotes < used], ord(options.delimiter)):
        return None
    starts = np.concatenate(([0], ends + 1))
    stops = np.append(ends, used)
    if starts[-1] >= used:
        starts, stops = starts[:-1], stops[:-1]
    counts = np.searchsorted(delimiters, stops) - np.searchsorted(delimiters, starts) + 1
    stops = _without_cr(buffer, starts, stops)
    wrong = {
        int(i): _miscounted(int(counts[i]), width)
        for i in np.flatnonzero((counts != width) & ((stops > starts) | (width == 1)))
    }
    return Piece(starts, stops, wrong | _lone_cr(buffer, quotes, starts, stops), used)


def _outside(positions: Offsets, quotes: Offsets) -> Offsets:
    return positions[np.searchsorted(quotes, positions) % 2 == 0]


def _without_cr(buffer: npt.NDArray[np.uint8], starts: Offsets, stops: Offsets) -> Offsets:
    if not len(stops):
        return stops
    return stops - ((stops > starts) & (buffer[np.maximum(stops - 1, 0)] == CR))


def _lone_cr(
    buffer: npt.NDArray[np.uint8], quotes: Offsets, starts: Offsets, stops: Offsets
) -> dict[int, str]:
    returns = np.flatnonzero(buffer == CR)
    if not len(returns):
        return {}
    returns = _outside(returns, quotes)
    records = np.searchsorted(starts, returns, side="right") - 1
    inside = returns < stops[np.minimum(records, len(stops) - 1)] if len(stops) else np.zeros(len(returns), bool)
    return {int(i): LONE_CR for i in records[inside]}


def _well_placed(buffer: npt.NDArray[np.uint8], quotes: Offsets, delimiter: int) -> bool:
    """Whether each quote opens a field, closes one, or is half of a doubled one."""
    if not len(quotes):
        return True
    if len(quotes) % 2:
        return False
    opens, closes = quotes[0::2], quotes[1::2]
    before = np.where(opens > 0, buffer[opens - 1], LF)
    last = len(buffer) - 1
    after = np.where(closes < last, buffer[np.minimum(closes + 1, last)], LF)
    after_next = np.where(closes + 1 < last, buffer[np.minimum(closes + 2, last)], LF)
    return bool(
        np.isin(before, (delimiter, LF, QUOTE)).all()
        and (np.isin(after, (delimiter, LF, QUOTE)) | ((after == CR) & (after_next == LF))).all()
    )


def _miscounted(found: int, width: int) -> str:
    return f"{found} fields where there should be {width}; mend the record, or the delimiter in the settings"


# --- plain scanner ------------------------------------------------------------------------------


class _Patterns(NamedTuple):
    quoted: re.Pattern[bytes]
    unquoted: re.Pattern[bytes]


def _patterns(options: CsvOptions) -> _Patterns:
    delimiter = re.escape(options.delimiter.encode())
    inside = rb'[^"]' if options.line_breaks else rb'[^"\n]'
    return _Patterns(
        re.compile(rb'"(?:%b++|"")*+"' % inside), re.compile(rb"[^\n%b]*+" % delimiter)
    )


def _scan(data: bytes, options: CsvOptions, *, final: bool, width: int | None = None) -> Piece:
    """The records of a buffer, one by one; slow, and right for any bytes."""
    patterns = _patterns(options)
    starts, stops, wrong = [], [], {}
    at = 0
    while at < len(data):
        stop, after, count, why = _record(data, at, patterns, options)
        if after is None and not final:
            break
        after = len(data) if after is None else after
        if data[at:stop].endswith(b"\r") and data[stop - 1 : stop] == b"\r":
            stop -= 1
        if why is None and width is not None and count != width and (stop > at or width == 1):
            why = _miscounted(count, width)
        if why is not None:
            wrong[len(starts)] = why
        starts.append(at)
        stops.append(stop)
        at = after
    return Piece(np.array(starts, np.int64), np.array(stops, np.int64), wrong, at)


def _record(
    data: bytes, at: int, patterns: _Patterns, options: CsvOptions
) -> tuple[int, int | None, int, str | None]:
    """End of a record, start of the next (``None``: not seen), number of fields, what is wrong."""
    count, why = 0, None
    while True:
        count += 1
        if data[at : at + 1] == b'"':
            match = patterns.quoted.match(data, at)
            if match is None:
                end = len(data) if options.line_breaks else data.find(b"\n", at)
                return _end(data, end, count, OPEN_QUOTE)
            at = match.end()
            rest = _span(patterns.unquoted, data, at)
            if rest not in (b"", b"\r"):
                why = why or AFTER_QUOTE
        else:
            rest = _span(patterns.unquoted, data, at)
            text = rest.removesuffix(b"\r") if data[at + len(rest) : at + len(rest) + 1] != options.delimiter.encode() else rest
            if b'"' in text:
                why = why or STRAY_QUOTE
            elif b"\r" in text:
                why = why or LONE_CR
        at += len(rest)
        if data[at : at + 1] != options.delimiter.encode():
            return _end(data, at, count, why)
        if rest == b"\r":
            why = why or LONE_CR
        at += 1


def _span(pattern: re.Pattern[bytes], data: bytes, at: int) -> bytes:
    match = pattern.match(data, at)
    return b"" if match is None else match.group()


def _end(data: bytes, at: int, count: int, why: str | None) -> tuple[int, int | None, int, str | None]:
    if at < 0 or at >= len(data):
        return len(data), None, count, why
    return at, at + 1, count, why


def _fields(record: bytes, options: CsvOptions) -> list[str]:
    """The fields of one record as text, for a header."""
    patterns, found, at = _patterns(options), [], 0
    while True:
        quoted = patterns.quoted.match(record, at)
        raw = quoted.group() if quoted else _span(patterns.unquoted, record, at)
        at += len(raw)
        text = raw[1:-1].replace(b'""', b'"') if quoted else raw
        found.append(text.decode("utf-8", "backslashreplace"))
        if at >= len(record):
            return found
        at += 1


def csv_error(where: str, why: str) -> FatalError:
    """A file as a whole that cannot be read."""
    return FatalError(f"{where}: {why}")
