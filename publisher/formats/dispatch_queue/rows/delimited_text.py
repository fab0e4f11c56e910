"""Delimited text exports: a header with the 16 column names, integers in decimal, BYTE columns in hex.

Text gives the same rows as binary files.  DATA goes through a temporary file, so that memory use does not
grow with the size of a split.
"""

from __future__ import annotations

import mmap
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FileRefusedError
from publisher.formats.columns.byte_areas import Bytes
from publisher.formats.columns.record_batches import as_json
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows.file_probe import (
    cuts,
    index_of,
    join_indexes,
    parts_reading,
)
from publisher.formats.dispatch_queue.rows.layout import (
    COLUMNS,
    DATA_BYTES,
    INTEGERS,
    ROW_BYTES,
    TEXTS,
)
from publisher.formats.dispatch_queue.rows.rows import (
    PADDING,
    Codes,
    Destination,
    LostRow,
    QueueRows,
)
from publisher.formats.dispatch_queue.splits import TextRows
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import Split, TextRange
from publisher.formats.files.frame import Broken, Frame
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions

_COLUMNS = ExpectedColumns(COLUMNS)
_BITS = {
    "EXTDATA": 16,
    "TYP": 16,
    "BLOBATR": 16,
    "TRANSACT_ID": 64,
    "SYSLOG_ADDR": 64,
}
"""Bits of the integer columns; the others have 32."""
_MAY_BE_NULL = frozenset({"BLOBATR", "CHANNEL", "TABNUM_SRC", "ROWID_SRC", "LEN1", "LEN2"})
"""Columns whose content in a COMMIT is undocumented; an operation without lengths is rejected anyway."""
_INTEGER = r"^\s*[+-]?[0-9]{1,20}\s*$"
_PROBED_BYTES = 2 * ROW_BYTES
"""Leading bytes that show whether a file is text."""
_HEX = r"^(?:\s*[0-9A-Fa-f]{2})*\s*$"


def splits(
    path: Path, options: DispatchQueueOptions, reading: SnapshotOptions, target: int
) -> list[Split[TextRows]]:
    """Divides a file into splits, none of which cuts an operation."""
    _check_text(path, reading)
    file_splits.header(str(path), reading, _COLUMNS)
    size = path.stat().st_size
    file_split = Split(str(path), size, size, TextRange("csv", 0, size, 1))
    numbers: list[Codes] = []
    indexes = []
    for frame in file_splits.frames(file_split, reading, _COLUMNS):
        rows = _rows([frame], options, with_data=False)
        numbers.append(rows.numbers)
        indexes.append(index_of(rows))
    index = join_indexes(iter(indexes))
    meaning = parts_reading(options, index)
    starts = np.concatenate(numbers)[cuts(index)] if numbers else np.zeros(0, np.int64)
    return [
        Split(file_split.path, lines.stop - lines.start, size, TextRows(lines, meaning))
        for lines in _cut(path, file_split.payload, starts, target)
    ]


def _check_text(path: Path, reading: SnapshotOptions) -> None:
    """Refuses binary rows: their numbers contain zeros, and may contain the byte of a line feed."""
    start = file_splits.beginning(path, reading)[:_PROBED_BYTES]
    first = start.lstrip(b"\r\n").partition(b"\n")[0]
    short = first.count(reading.delimiter.encode()) < len(COLUMNS) - 1
    if b"\0" in first or (short and b"\0" in start):
        raise FileRefusedError(
            str(path),
            f"its first bytes contain zeros, so they are not delimited text of {len(COLUMNS)} columns;"
            ' set layout = "binary", or encoding for UTF-16',
        )


def _cut(path: Path, whole: TextRange, starts: Codes, target: int) -> Iterator[TextRange]:
    """Cuts a file before lines that may begin a split."""
    if whole.stop <= target or not len(starts) or path.name.endswith(".gz"):
        yield whole
        return
    remaining = whole
    for offset, line in _offsets(path, whole.stop, starts, target):
        yield replace(remaining, stop=offset)
        remaining = replace(remaining, start=offset, first=line)
    yield remaining


def _offsets(path: Path, stop: int, starts: Codes, target: int) -> Iterator[tuple[int, int]]:
    """Yields offsets and numbers of lines to cut before, about ``target`` bytes apart."""
    start, line, at = 0, 1, 0
    with path.open("rb") as file:
        for text in file:
            if at >= stop:
                return
            if at >= start + target:
                place = int(np.searchsorted(starts, line))
                if place < len(starts) and starts[place] == line:
                    yield at, line
                    start = at
            at += len(text)
            line += 1


def rows(
    split: Split[TextRange], options: DispatchQueueOptions, reading: SnapshotOptions
) -> QueueRows:
    """Reads the rows of a split."""
    return _rows(file_splits.frames(split, reading, _COLUMNS), options)


class _Chunk(NamedTuple):
    """Rows of one frame."""

    numbers: Codes
    integers: dict[str, Codes]
    dates: Codes
    names: list[pa.Array]
    sizes: Codes


def _rows(
    frames: Iterable[Frame], options: DispatchQueueOptions, *, with_data: bool = True
) -> QueueRows:
    """Reads the rows of frames."""
    chunks: list[_Chunk] = []
    broken: list[Broken] = []
    lost: list[LostRow] = []
    with tempfile.TemporaryFile() as spool:
        for frame in frames:
            broken += [piece._replace(raw=as_json(piece.raw)) for piece in frame.broken]
            chunk, unreadable = _chunk(frame, spool, with_data=with_data)
            chunks.append(chunk)
            broken += unreadable
            lost += _lost_rows(frame, unreadable, options)
        data = _map_spool(spool)
    sizes = _concat([chunk.sizes for chunk in chunks])
    dates = _concat([chunk.dates for chunk in chunks])
    node, nodes = _names([chunk.names[0] for chunk in chunks])
    destination, destinations = _destinations([chunk.names[1:] for chunk in chunks])
    return QueueRows(
        numbers=_concat([chunk.numbers for chunk in chunks]),
        integers={name: _concat([chunk.integers[name] for chunk in chunks]) for name in INTEGERS},
        seconds=dates >> 16,
        fractions=dates & 0xFFFF,
        node=node,
        nodes=nodes,
        destination=destination,
        destinations=destinations,
        unreadable=frozenset(n for names in (nodes, *destinations) for n in names if "\0" in n),
        data=data,
        data_at=np.cumsum(sizes) - sizes,
        data_bytes=sizes,
        broken=tuple(sorted(broken, key=lambda piece: piece.row)),
        lost=tuple(lost),
    )


def _map_spool(spool: IO[bytes]) -> Bytes:
    spool.flush()
    size = spool.tell()
    if not size:
        return np.zeros(0, np.uint8)
    # the mapping keeps the file alive without its name and handle
    return np.frombuffer(mmap.mmap(spool.fileno(), size, access=mmap.ACCESS_READ), np.uint8)


def _concat(parts: list[Codes]) -> Codes:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _chunk(frame: Frame, spool: IO[bytes], *, with_data: bool) -> tuple[_Chunk, list[Broken]]:
    """Reads the rows of a frame; returns unreadable ones as broken pieces."""
    texts = {name: pc.fill_null(frame.batch.column(name), "") for name in COLUMNS}
    problems: dict[int, str] = {}
    integers = {name: _integers(name, texts[name], problems) for name in INTEGERS}
    dates = _dates(texts["OPER_DATE"], problems)
    data = _parse_data(texts["DATA"], problems) if with_data else [b""] * frame.batch.num_rows
    readable = np.ones(frame.batch.num_rows, bool)
    readable[list(problems)] = False
    chosen = pa.array(np.flatnonzero(readable))
    sizes = np.fromiter((len(data[row]) for row in np.flatnonzero(readable)), np.int64)
    spool.writelines(data[row] for row in np.flatnonzero(readable).tolist())
    names = ("DBNODE", "DST_SERVER", "DST_OWNER", "DST_TABLE")
    broken = [
        Broken(int(frame.rows[row]), detail, as_json(frame.batch.slice(row, 1).to_pylist()[0]))
        for row, detail in problems.items()
    ]
    return _Chunk(
        frame.rows[readable],
        {name: values[readable] for name, values in integers.items()},
        dates[readable],
        [pc.ascii_rtrim(texts[name].take(chosen), characters=PADDING) for name in names],
        sizes,
    ), broken


def _lost_rows(
    frame: Frame, broken: list[Broken], options: DispatchQueueOptions
) -> Iterator[LostRow]:
    """Yields the broken rows that name a transaction of a chosen database and destination."""
    places = {int(row): place for place, row in enumerate(frame.rows.tolist())}
    for piece in broken:
        row = frame.batch.slice(places[piece.row], 1).to_pylist()[0]
        texts = {name: (row[name] or "").rstrip(PADDING) for name in (*TEXTS, "TRANSACT_ID")}
        node, number = texts["DBNODE"], texts["TRANSACT_ID"].strip()
        address = _number(row["SYSLOG_ADDR"] or "")
        is_chosen = not options.nodes or node in options.nodes
        is_chosen &= options.destination in (None, texts["DST_SERVER"])
        if is_chosen and re.fullmatch("[+-]?[0-9]{1,18}", number):
            yield LostRow(node, int(number), address, piece.reason)


def _number(text: str) -> int | None:
    """Parses SYSLOG_ADDR as an unsigned number; ``None`` if it is unreadable."""
    if not re.fullmatch("[+-]?[0-9]{1,20}", text.strip()):
        return None
    number = int(text)
    return number % (1 << 64) if -(1 << 63) <= number < 1 << 64 else None


def _add_problem(rows: pa.Array, problems: dict[int, str], problem: str) -> None:
    for row in np.flatnonzero(rows.to_numpy(zero_copy_only=False)).tolist():
        problems.setdefault(row, problem)


def _integers(name: str, texts: pa.Array, problems: dict[int, str]) -> Codes:
    """Parses integers of a column; BLOBATR and SYSLOG_ADDR may be signed or unsigned."""
    bits = _BITS.get(name, 32)
    texts = pc.utf8_trim_whitespace(texts)
    if name in _MAY_BE_NULL:
        texts = pc.if_else(pc.equal(texts, ""), "0", texts)
    problem = (
        f"{name} is not an integer of {bits} bits; export it in decimal, and check the delimiter"
    )
    matches = pc.match_substring_regex(texts, _INTEGER)
    if matches.false_count:
        _add_problem(pc.invert(matches), problems, problem)
        texts = pc.if_else(matches, texts, "0")
    unsigned = name in ("BLOBATR", "SYSLOG_ADDR")
    highest = (1 << bits) - 1 if unsigned else (1 << (bits - 1)) - 1
    try:
        values = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        values = np.array([int(text) for text in texts.to_pylist()], object)
    inside = np.array((values >= -(1 << (bits - 1))) & (values <= highest), bool)
    if not inside.all():
        _add_problem(pa.array(~inside), problems, problem)
    integers = np.zeros(len(texts), np.int64)
    for row in np.flatnonzero(inside & (values > (1 << 63) - 1)).tolist():
        values[row] -= 1 << 64
    integers[inside] = values[inside].astype(np.int64)
    if name == "BLOBATR":
        integers &= 0xFFFF
    return integers


def _dates(texts: pa.Array, problems: dict[int, str]) -> Codes:
    """Parses OPER_DATE, six bytes in hex, to seconds and fraction in one number."""
    clean = pc.replace_substring_regex(texts, r"\s", "")
    matches = pc.match_substring_regex(clean, "^[0-9A-Fa-f]{12}$")
    _add_problem(pc.invert(matches), problems, "OPER_DATE is not 6 bytes in hex; fix the export")
    values = b"".join(map(bytes.fromhex, pc.if_else(matches, clean, "0" * 12).to_pylist()))
    pairs = np.frombuffer(values, np.dtype([("seconds", ">u4"), ("fraction", ">u2")]))
    joined: Codes = (pairs["seconds"].astype(np.int64) << 16) | pairs["fraction"]
    return joined


def _parse_data(texts: pa.Array, problems: dict[int, str]) -> list[bytes]:
    """Parses DATA of each row."""
    matches = pc.match_substring_regex(texts, _HEX)
    _add_problem(pc.invert(matches), problems, "DATA is not hex; fix the export")
    values = []
    for row, text in enumerate(texts.to_pylist()):
        value = b"" if row in problems else bytes.fromhex(text)
        if len(value) > DATA_BYTES:
            problems[row] = (
                f"DATA has {len(value)} bytes, but the column holds {DATA_BYTES}; check the export"
            )
            value = b""
        values.append(value)
    return values


def _names(parts: list[pa.Array]) -> tuple[Codes, tuple[str, ...]]:
    encoded = pc.dictionary_encode(pa.concat_arrays([*parts, pa.array([], pa.string())]))
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, tuple(encoded.dictionary.to_pylist())


def _destinations(parts: list[list[pa.Array]]) -> tuple[Codes, tuple[Destination, ...]]:
    codes, names = zip(*(_names([part[n] for part in parts]) for n in range(3)), strict=True)
    combined = (codes[0] * (len(names[1]) + 1) + codes[1]) * (len(names[2]) + 1) + codes[2]
    _, first, which = np.unique(combined, return_index=True, return_inverse=True)
    distinct = [Destination(*(names[n][codes[n][place]] for n in range(3))) for place in first]
    return which.astype(np.int64), tuple(distinct)
