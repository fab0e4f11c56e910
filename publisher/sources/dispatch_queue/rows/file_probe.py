"""What must be known of a file before its first row goes out: stride, reading of the lengths, lists of TYP.

One pass over the envelopes finds it, and where the file may be cut: never within an operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from publisher.errors import FatalError
from publisher.sources.columns.byte_areas import Bytes, Mask
from publisher.sources.dispatch_queue.operations import PartsReading
from publisher.sources.dispatch_queue.options import Options
from publisher.sources.dispatch_queue.rows import layout
from publisher.sources.dispatch_queue.rows.layout import (
    DATA_BYTES,
    EPOCH_SECONDS,
    ROW_BYTES,
    STRIDES,
    ByteOrder,
    row_type,
)
from publisher.sources.dispatch_queue.rows.rows import Codes, Rows, whole_rows

SAMPLE = 1000
"""Rows that are looked at."""
_TAB = 9
_DELIMITERS = (b",", b";", b"\t", b"|")
_LEGAL = (1, 2, 3, 4, 5, 7, 8, 9, 10)
_PARTS = 16
_FIRST_DATE = datetime(1995, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FileForm:
    """What is known of a file beside the settings."""

    layout: Literal["binary", "text", "kept", "marks", "lost"]
    """``kept``, ``marks`` and ``lost`` are files of an earlier run."""
    stride: int
    """Bytes from row to row; 0 where they are not binary."""
    reading: PartsReading
    """What LEN1 and LEN2 of an operation of several rows count."""

    @property
    def text(self) -> str:
        """As a split keeps it."""
        return f"{self.layout} {self.stride} {self.reading}"


def file_form(text: str) -> FileForm:
    """What a split keeps."""
    kind, stride, reading = text.split()
    return FileForm(kind, int(stride), reading)  # type: ignore[arg-type]


def found_stride(options: Options, data: Bytes, path: str) -> int:
    """Bytes from row to row.  Raises ``FatalError`` where the file cannot be what the settings say."""
    strides = STRIDES if options.row_stride == "auto" else (options.row_stride,)
    if _is_text(data):
        raise FatalError(f'{path}: it is delimited text, not binary rows; set layout = "text"')
    if len(data) < ROW_BYTES:
        return strides[0]
    found = {stride: _share(options, data, stride, options.byte_order) for stride in strides}
    # files of the other stride may be as long: the rows tell, the length only where they do not
    best = max(strides, key=lambda stride: (found[stride], len(data) % stride == 0))
    if found[best] >= 0.5:
        _check_dates(options, data, best, path)
        return best
    raise FatalError(
        f"{path}: its rows cannot be those of DISPATCH_QUEUE; {_advice(options, data)}"
    )


def _is_text(data: Bytes) -> bool:
    """Whether the first line has as many fields as there are columns, and no byte that text has not."""
    start = data[: 2 * ROW_BYTES].tobytes().lstrip(b"\r\n")
    first = start.partition(b"\n")[0]
    is_plain = not any(byte < _TAB for byte in start)
    return is_plain and any(first.count(one) >= len(layout.COLUMNS) - 1 for one in _DELIMITERS)


def _advice(options: Options, data: Bytes) -> str:
    """Which other setting would explain the file."""
    other: ByteOrder = "big" if options.byte_order == "little" else "little"
    for order in (options.byte_order, other):
        for stride in STRIDES:
            if _share(options, data, stride, order) >= 0.5:
                return f'they would be with row_stride = {stride}, byte_order = "{order}"'
    return (
        "rows of 3596 or 3600 bytes are expected, all columns in the order of the table; for"
        ' delimited text set layout = "text"'
    )


def _share(options: Options, data: Bytes, stride: int, order: ByteOrder) -> float:
    """Share of the first rows that are possible ones."""
    rows = _sampled(options, data, stride, order)
    good = np.isin(rows["TYP"], _LEGAL) & (rows["EXTDATA"] >= 0) & (rows["EXTDATA"] < _PARTS)
    most = _PARTS * DATA_BYTES
    for name in ("LEN1", "LEN2"):
        good &= (rows[name] >= 0) & (rows[name] <= most)
    return float(good.mean())


def _sampled(
    options: Options, data: Bytes, stride: int, order: ByteOrder
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    count = min(SAMPLE, whole_rows(len(data), stride))
    kind = row_type(order, options.date_order)
    return np.ndarray((count,), kind, data, 0, (stride,))


def _check_dates(options: Options, data: Bytes, stride: int, path: str) -> None:
    """OPER_DATE lies between the first years of the product and today."""
    if not options.check_dates:
        return
    seconds = _sampled(options, data, stride, options.byte_order)["SECONDS"].astype(np.int64)
    seconds = seconds[seconds != 0] + EPOCH_SECONDS
    latest = datetime.now(UTC).timestamp() + 2 * 86400
    good = (seconds >= _FIRST_DATE.timestamp()) & (seconds <= latest)
    if not len(seconds) or good.mean() >= 0.5:
        return
    moment = datetime.fromtimestamp(float(seconds[~good][0]), UTC).isoformat(sep=" ")
    raise FatalError(
        f"{path}: OPER_DATE of its first rows cannot be, as {moment[:19]}; look at date_order, or set"
        " check_dates = false"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """What the one pass over the rows of a file keeps of each."""

    operation: Codes
    """A hash of database and address: equal of all rows of an operation."""
    exact: Codes
    """A hash of transaction and destination besides."""
    part: Codes
    length: Codes
    """LEN1 and LEN2 together."""

    def __len__(self) -> int:
        return len(self.operation)


def index_of(rows: Rows) -> Index:
    """What is kept of rows."""
    node = _hashes(list(rows.nodes))[rows.node]
    operation = _mixed(node, rows.address)
    exact = _mixed(operation, rows.integers["TRANSACT_ID"].view(np.uint64))
    exact = _mixed(exact, _hashes([repr(names) for names in rows.destinations])[rows.destination])
    length = rows.integers["LEN1"] + rows.integers["LEN2"]
    return Index(operation.view(np.int64), exact.view(np.int64), rows.integers["EXTDATA"], length)


def joined_index(parts: Iterator[Index]) -> Index:
    """The index of a whole file."""
    every = list(parts)
    if not every:
        nothing = np.zeros(0, np.int64)
        return Index(nothing, nothing, nothing, nothing)
    columns = ("operation", "exact", "part", "length")
    return Index(*(np.concatenate([getattr(p, name) for p in every]) for name in columns))


def _hashes(names: list[str]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    import hashlib  # noqa: PLC0415

    found = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(found), np.uint64)


def _mixed(
    one: np.ndarray[tuple[int], np.dtype[np.uint64]],
    other: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """One number of two, with all bits of both in all of its own (the mixing of SplitMix64)."""
    mixed = one * np.uint64(0x9E3779B97F4A7C15) + other
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def parts_reading(options: Options, index: Index) -> PartsReading:
    """How LEN1 and LEN2 of operations of several rows count, told by their first rows (reference,
    section 1.3): more bytes than a row holds are totals."""
    if options.parts != "auto":
        return options.parts
    order = np.lexsort((index.part, index.exact))
    same = index.exact[order][1:] == index.exact[order][:-1]
    heads = order[:-1][same & (index.part[order][:-1] == 0) & (index.part[order][1:] > 0)]
    totals = int((index.length[heads] > DATA_BYTES).sum())
    each = len(heads) - totals
    if totals == each:
        return "unknown"
    return "totals" if totals > each else "per-part"


def cuts(index: Index) -> Mask:
    """Before which rows the file may be cut: no operation has rows on both sides."""
    count = len(index)
    order = np.argsort(index.operation, kind="stable")
    new = np.ones(count, bool)
    new[1:] = index.operation[order][1:] != index.operation[order][:-1]
    heads = np.flatnonzero(new)
    last = order[np.append(heads[1:], count) - 1] if count else order
    reach = np.empty(count, np.int64)
    reach[order] = np.repeat(last, np.diff(np.append(heads, count)))
    furthest = np.maximum.accumulate(reach) if count else reach
    allowed = np.ones(count, bool)
    allowed[1:] = furthest[:-1] == np.arange(count - 1)
    return allowed


def cut_rows(index: Index, step: int) -> list[int]:
    """The first rows of parts of about ``step`` rows or a little more."""
    places = np.flatnonzero(cuts(index))
    found, start = [0], 0
    while True:
        after = int(np.searchsorted(places, start + max(1, step)))
        if after >= len(places):
            return found
        start = int(places[after])
        found.append(start)


LIST_A_ONLY = (layout.CREATE_BLOB, layout.INSERT_BLOB, layout.CLEAR_BLOB, layout.ROLLBACK)
"""TYP that only the list at the column has."""
