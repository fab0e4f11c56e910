"""Framing of CSV: ``csv_records`` finds and checks the records, ``pyarrow.csv`` converts them.

Only records that are valid by the grammar reach ``pyarrow.csv``, so its leniency never matters.
Blank lines are not records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from publisher.errors import FatalError, InternalError
from publisher.formats.files.csv_dialect import dialect_of
from publisher.formats.files.csv_records import (
    ENDS_FILE,
    LF,
    NO_TEXT,
    TOO_LONG,
    Offsets,
    Piece,
    fields,
    find,
    scan,
    values,
)
from publisher.formats.files.frame import Broken, Frame
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from publisher.formats.files.recognise import refusal
from publisher.formats.files.text_blocks import BOM, readable

_LONGEST_HEADER = 1 << 22
_NO_HEADER = (
    "the first record has more than 4 MiB and cannot be a header; check the file, its delimiter and"
    " header in the settings"
)


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a file: their number, the places of the expected ones, whether they have names."""

    width: int
    places: tuple[int, ...]
    named: bool


def has_record(start: bytes, options: SnapshotOptions) -> bool:
    """Tests whether the first bytes of a file contain a whole record that is not blank."""
    if b"\n" not in start:
        return False
    piece = scan(start.removeprefix(BOM), options, final=False, only_first=True)
    return bool(len(piece.starts) and piece.stops[-1] > piece.starts[-1])


def read_header(
    start: bytes, where: str, columns: ExpectedColumns, options: SnapshotOptions
) -> Header:
    """Reads the header from the first bytes of a file.  Raises ``FatalError`` if the columns do not fit."""
    without_names = Header(len(columns.names), tuple(range(len(columns.names))), named=False)
    if options.header == "no":
        return without_names
    record, fault = _first_record(start, options)
    if len(record) > _LONGEST_HEADER:
        if options.header == "yes":
            raise FatalError(f"{where}: {_NO_HEADER}")
        return without_names
    names = fields(record, options) if record else []
    if options.header == "auto" and not columns.names_a_column(names):
        why = refusal(names, columns.names, where)
        if why is not None:
            raise FatalError(why)
        return without_names
    if not record:
        return replace(without_names, named=True)
    if fault is not None:
        raise FatalError(f"{where}: the header cannot be read: {fault}")
    return Header(len(names), tuple(columns.locate(names, where)), named=True)


def first_fields(start: bytes, where: str, options: SnapshotOptions) -> list[str]:
    """Reads the fields of the first record of a file from its first bytes.

    Raises ``FatalError`` if the record cannot be read.
    """
    record, fault = _first_record(start, options)
    if fault is not None:
        raise FatalError(f"{where}: the header cannot be read: {fault}")
    if len(record) > _LONGEST_HEADER:
        raise FatalError(f"{where}: {_NO_HEADER}")
    return [name.strip() for name in fields(record, options)] if record else []


def _first_record(start: bytes, options: SnapshotOptions) -> tuple[bytes, str | None]:
    """Finds the first record that is not blank, and its fault; without one the record is empty."""
    data = start.removeprefix(BOM)[: _LONGEST_HEADER + 1]
    piece = scan(data, options, final=True, only_first=True)
    for number, (begin, end) in enumerate(zip(piece.starts, piece.stops, strict=True)):
        if end > begin:
            return data[begin:end], piece.wrong.get(number)
    return b"", None


def frames(
    blocks: Iterator[bytes],
    first: int,
    header: Header,
    columns: ExpectedColumns,
    options: SnapshotOptions,
) -> Iterator[Frame]:
    """Yields the frames of the blocks of a split whose first line has number ``first``.

    A record of more than ``max_record`` bytes is rejected, one of more than twice as many with all that
    follows.
    """
    line, skip, rest = first, header.named and first == 1, b""
    waiting: list[bytes] = []
    for block in chain(blocks, [b""]):
        waiting.append(block)
        final = not block
        if not final and sum(map(len, waiting)) < len(rest):
            continue  # all of an incomplete record is examined again, so not with each block
        data, waiting = b"".join([rest, *waiting]), []
        piece = find(data, header.width, options, final=final)
        piece, ends = _reject_long(piece, len(data), options.max_record)
        if len(piece.starts):
            frame, skip = _frame(data, piece, line, skip, header, columns, options)
            yield frame
        if ends:
            return
        line += data.count(b"\n", 0, piece.used)
        rest = data[piece.used :]


def _reject_long(piece: Piece, size: int, limit: int) -> tuple[Piece, bool]:
    """Marks long records as broken and truncates them; tells whether the last is too long to go on.

    Whether its quotes are what they seem is not certain then, and text in quotes must not become a record.
    """
    starts, stops, wrong = piece.starts, piece.stops, piece.wrong
    if size - piece.used > 2 * limit + 1:  # the last byte may be a CR
        starts, stops = np.append(starts, piece.used), np.append(stops, size)
    over = np.flatnonzero(stops - starts > 2 * limit)
    if len(over):
        end = int(over[0]) + 1
        starts, stops = starts[:end], stops[:end]
        wrong = {index: why for index, why in wrong.items() if index < end}
    long = np.flatnonzero(stops - starts > limit).tolist()
    wrong = wrong | dict.fromkeys(long, TOO_LONG) | dict.fromkeys(over[:1].tolist(), ENDS_FILE)
    return Piece(starts, np.minimum(stops, starts + limit), wrong, piece.used), bool(len(over))


def _frame(
    data: bytes,
    piece: Piece,
    line: int,
    skip: bool,
    header: Header,
    columns: ExpectedColumns,
    options: SnapshotOptions,
) -> tuple[Frame, bool]:
    """Builds a frame of a piece; ``skip`` leaves out the header.  Also returns ``skip`` for the next one."""
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
        wrong = wrong | {
            int(i): NO_TEXT for i in indices if not _is_text(data[starts[i] : stops[i]])
        }
        good[list(wrong)] = False
        table = _convert(data, starts[good], stops[good], header, options)
    if table is None or table.num_rows != int(good.sum()):
        raise InternalError("CSV conversion lost records; report this with the file")
    batch = _select(table, header, columns)
    broken = tuple(
        Broken(int(lines[i]), wrong[i], readable(data[starts[i] : stops[i]])) for i in sorted(wrong)
    )
    return Frame(batch, lines[good].astype(np.int64), broken), skip


def _select(table: pa.Table, header: Header, columns: ExpectedColumns) -> pa.RecordBatch:
    arrays = [table.column(place).combine_chunks() for place in header.places]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns.names))


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _convert(
    data: bytes, starts: Offsets, stops: Offsets, header: Header, options: SnapshotOptions
) -> pa.Table | None:
    """Converts valid records into a table of strings; ``None`` if some are not UTF-8."""
    names = [str(i) for i in range(header.width)]
    schema = pa.schema([(name, pa.string()) for name in names])
    if not len(starts):
        return schema.empty_table()
    if not dialect_of(options).is_plain:
        return _convert_by_field(data, starts, stops, schema, options)
    clean = _join_records(data, starts, stops)
    try:
        # read_csv would pass every block to another thread and back
        with pc.open_csv(
            pa.BufferReader(clean),
            pc.ReadOptions(use_threads=False, block_size=len(clean) + 1, column_names=names),
            pc.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote or False,
                newlines_in_values=True,
                ignore_empty_lines=header.width > 1,
            ),
            pc.ConvertOptions(
                column_types=schema,
                null_values=options.null_texts,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ) as reader:
            return reader.read_all()
    except pa.ArrowInvalid:
        if _is_text(clean):
            raise
        return None


def _convert_by_field(
    data: bytes, starts: Offsets, stops: Offsets, schema: pa.Schema, options: SnapshotOptions
) -> pa.Table | None:
    """As ``_convert``, field by field, for dialects that ``pyarrow.csv`` cannot read."""
    dialect, nulls = dialect_of(options), {text.encode() for text in options.null_texts}
    records = [
        [None if not quoted and text in nulls else text for text, quoted in values(record, dialect)]
        for record in (data[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True))
    ]
    try:
        texts = (pa.array(column, pa.binary()) for column in zip(*records, strict=True))
        columns = [text.cast(pa.string()) for text in texts]
    except pa.ArrowInvalid:
        return None
    return pa.Table.from_arrays(columns, schema=schema)


def _join_records(data: bytes, starts: Offsets, stops: Offsets) -> bytes:
    """Joins the records; copies adjacent records together."""
    are_adjacent = starts[1:] - stops[:-1] <= 2  # only a line end between them
    cuts = np.flatnonzero(~are_adjacent)
    begins = starts[np.concatenate(([0], cuts + 1))].tolist()
    ends = stops[np.concatenate((cuts, [len(stops) - 1]))].tolist()
    return b"".join(b"%b\n" % data[a:b] for a, b in zip(begins, ends, strict=True))
