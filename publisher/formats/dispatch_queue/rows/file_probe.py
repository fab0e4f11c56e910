"""Determines properties of a file before its operations are read.

The first rows show the stride.  One pass over the columns other than DATA shows the meaning of LEN1 and LEN2,
and the rows before which the file may be cut: never within an operation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from publisher.errors import FileRefusedError
from publisher.formats.columns.byte_areas import Bytes, Mask, begins_run
from publisher.formats.dispatch_queue.operations import PartsReading
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows import layout
from publisher.formats.dispatch_queue.rows.layout import (
    DATA_BYTES,
    EPOCH_SECONDS,
    ROW_BYTES,
    STRIDES,
    OperationCode,
    row_type,
)
from publisher.formats.dispatch_queue.rows.rows import Codes, QueueRows, whole_rows

SAMPLE = 1000
"""Number of rows to inspect."""
_TAB = 9
_DELIMITERS = (b",", b";", b"\t", b"|")
_PARTS = 16
_FIRST_DATE = datetime(1995, 1, 1, tzinfo=UTC)


def detect_stride(options: DispatchQueueOptions, data: Bytes, path: str) -> int:
    """Detects the bytes from row to row.  Raises ``FileRefusedError`` if the rows contradict the settings."""
    strides = STRIDES if options.row_stride == "auto" else (options.row_stride,)
    if not len(data):
        return strides[0]
    if _is_text(data):
        raise FileRefusedError(path, 'delimited text, not binary rows; set layout = "text"')
    if len(data) < ROW_BYTES:
        raise _truncation_error(data, strides[0], path)
    shares = {stride: _share(options, data, stride) for stride in strides}
    # files of the other stride may have the same length, so the length decides only between equal shares
    best = max(strides, key=lambda stride: (shares[stride], len(data) % stride == 0))
    if shares[best] >= 0.5:
        _check_dates(options, data, best, path)
        if len(data) > whole_rows(len(data), best) * best:
            raise _truncation_error(data, best, path)
        return best
    raise FileRefusedError(
        path,
        "its rows are not those of DISPATCH_QUEUE: rows of 3596 or 3600 bytes are expected, all columns in"
        ' the order of the table; check row_stride and byte_order, for delimited text set layout = "text"',
    )


def _truncation_error(data: Bytes, stride: int, path: str) -> FileRefusedError:
    used = whole_rows(len(data), stride) * stride
    return FileRefusedError(
        path,
        f"{len(data) - used} bytes at offset {used} are not a whole row of {ROW_BYTES}: the file is"
        " truncated, or row_stride is wrong; export again, or set row_stride",
    )


def _is_text(data: Bytes) -> bool:
    """Tests whether the first line has a field for each column and only bytes that text may have."""
    start = data[: 2 * ROW_BYTES].tobytes().lstrip(b"\r\n")
    first = start.partition(b"\n")[0]
    is_plain = not any(byte < _TAB for byte in start)
    return is_plain and any(
        first.count(delimiter) >= len(layout.COLUMNS) - 1 for delimiter in _DELIMITERS
    )


def _share(options: DispatchQueueOptions, data: Bytes, stride: int) -> float:
    """Computes the share of valid rows among the first rows."""
    rows = _first_rows(options, data, stride)
    valid = (
        np.isin(rows["TYP"], list(OperationCode))
        & (rows["EXTDATA"] >= 0)
        & (rows["EXTDATA"] < _PARTS)
    )
    for name in ("LEN1", "LEN2"):
        valid &= (rows[name] >= 0) & (rows[name] <= _PARTS * DATA_BYTES)
    return float(valid.mean())


def _first_rows(
    options: DispatchQueueOptions, data: Bytes, stride: int
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    count = min(SAMPLE, whole_rows(len(data), stride))
    kind = row_type(options.byte_order)
    return np.ndarray((count,), kind, data, 0, (stride,))


def _check_dates(options: DispatchQueueOptions, data: Bytes, stride: int, path: str) -> None:
    """Checks that OPER_DATE lies between the first years of the product and today."""
    seconds = _first_rows(options, data, stride)["SECONDS"].astype(np.int64)
    seconds = seconds[seconds != 0] + EPOCH_SECONDS
    latest = datetime.now(UTC).timestamp() + 2 * 86400
    possible = (seconds >= _FIRST_DATE.timestamp()) & (seconds <= latest)
    if not len(seconds) or possible.mean() >= 0.5:
        return
    moment = datetime.fromtimestamp(float(seconds[~possible][0]), UTC).isoformat(sep=" ")
    raise FileRefusedError(
        path,
        f"OPER_DATE of its first rows is impossible, for example {moment[:19]}; check row_stride and the"
        " export",
    )


@dataclass(frozen=True, slots=True, eq=False)
class RowIndex:
    """Values of each row that decide where a file may be cut, and what its lengths mean."""

    operation: Codes
    """Hash of database and address, equal for all rows of an operation."""
    exact: Codes
    """Hash of database, address, transaction and destination."""
    part: Codes
    length: Codes
    """LEN1 and LEN2 together."""

    def __len__(self) -> int:
        return len(self.operation)


def index_of(rows: QueueRows) -> RowIndex:
    """Builds the index of rows."""
    node = _hashes(list(rows.nodes))[rows.node]
    operation = _mix(node, rows.address)
    exact = _mix(operation, rows.integers["TRANSACT_ID"].view(np.uint64))
    exact = _mix(exact, _hashes([repr(names) for names in rows.destinations])[rows.destination])
    length = rows.integers["LEN1"] + rows.integers["LEN2"]
    return RowIndex(
        operation.view(np.int64), exact.view(np.int64), rows.integers["EXTDATA"], length
    )


def join_indexes(parts: Iterator[RowIndex]) -> RowIndex:
    """Joins the indexes of a whole file."""
    indexes = list(parts)
    if not indexes:
        nothing = np.zeros(0, np.int64)
        return RowIndex(nothing, nothing, nothing, nothing)
    columns = ("operation", "exact", "part", "length")
    return RowIndex(*(np.concatenate([getattr(p, name) for p in indexes]) for name in columns))


def _hashes(names: list[str]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), np.uint64)


def _mix(
    left: np.ndarray[tuple[int], np.dtype[np.uint64]],
    right: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Mixes two numbers into one whose every bit depends on all bits of both, as SplitMix64 does."""
    mixed = left * np.uint64(0x9E3779B97F4A7C15) + right
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def parts_reading(options: DispatchQueueOptions, index: RowIndex) -> PartsReading:
    """Determines the meaning of LEN1 and LEN2 from the first rows of operations of several rows.

    Lengths above the bytes of one row can only be totals."""
    if options.parts != "auto":
        return options.parts
    order = np.lexsort((index.part, index.exact))
    same = index.exact[order][1:] == index.exact[order][:-1]
    heads = order[:-1][same & (index.part[order][:-1] == 0) & (index.part[order][1:] > 0)]
    totals = int((index.length[heads] > DATA_BYTES).sum())
    per_part = len(heads) - totals
    if totals == per_part:
        return "unknown"
    return "totals" if totals > per_part else "per-part"


def cuts(index: RowIndex) -> Mask:
    """Marks the rows before which the file may be cut: no operation has rows on both sides."""
    count = len(index)
    order = np.argsort(index.operation, kind="stable")
    heads = np.flatnonzero(begins_run(index.operation[order]))
    last = order[np.append(heads[1:], count) - 1] if count else order
    reach = np.empty(count, np.int64)
    reach[order] = np.repeat(last, np.diff(np.append(heads, count)))
    furthest = np.maximum.accumulate(reach) if count else reach
    allowed = np.ones(count, bool)
    allowed[1:] = furthest[:-1] == np.arange(count - 1)
    return allowed


def cut_rows(index: RowIndex, step: int) -> list[int]:
    """Returns the first rows of splits of ``step`` rows or slightly more."""
    places = np.flatnonzero(cuts(index))
    firsts, start = [0], 0
    while True:
        after = int(np.searchsorted(places, start + max(1, step)))
        if after >= len(places):
            return firsts
        start = int(places[after])
        firsts.append(start)


LIST_A_ONLY = (
    OperationCode.CREATE_BLOB,
    OperationCode.INSERT_BLOB,
    OperationCode.CLEAR_BLOB,
    OperationCode.ROLLBACK,
)
"""Codes of TYP that only list a has, see ``OperationCode``."""
