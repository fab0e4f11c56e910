"""Corrected operations of a dispatch queue as binary rows."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from construct import ConstructError

from publisher.errors import UsageError
from publisher.formats.dispatch_queue.as_json import EPOCH
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows.layout import (
    DATA_BYTES,
    FRACTIONS,
    INTEGERS,
    ROW_BYTES,
    TEXTS,
    WIDTHS,
    OperationCode,
    row,
)
from publisher.formats.dispatch_queue.transactions.facts import unsigned_address
from publisher.formats.retry import CorrectedRecord, RetryFiles, write_private

_SHOWN = "write all columns of the row, with first and second (its images in hex), as rejects --export does"
_BITS = {"SYSLOG_ADDR": 64, "BLOBATR": 16}
"""Bits of the columns that raw records show as unsigned numbers."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """A corrected operation: its columns, its images joined, and the address of its COMMIT, if known."""

    record: CorrectedRecord
    columns: Mapping[str, Any]
    address: int
    data: bytes
    mark: int | None

    @property
    def transaction(self) -> tuple[bytes, int]:
        """Database and number, which are used again after a COMMIT."""
        return self.columns["DBNODE"], self.columns["TRANSACT_ID"]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields its rows: LEN1 and LEN2 count the images of all of them."""
        for part, at in enumerate(range(0, max(len(self.data), 1), DATA_BYTES)):
            yield {**self.columns, "EXTDATA": part, "DATA": self.data[at : at + DATA_BYTES]}

    def commit(self, address: int) -> dict[str, Any]:
        """Builds the COMMIT of its transaction."""
        nothing = dict.fromkeys(
            ("EXTDATA", "BLOBATR", "TABNUM_SRC", "ROWID_SRC", "LEN1", "LEN2"), 0
        )
        end = {"TYP": int(OperationCode.COMMIT), "SYSLOG_ADDR": address, "DATA": b""}
        return {**self.columns, **nothing, **end}


def write_retry(
    options: DispatchQueueOptions, records: Sequence[CorrectedRecord], folder: Path
) -> RetryFiles:
    """Writes operations as binary rows, and the COMMIT of each transaction at its own address.

    Raises:
        UsageError: A record lacks columns or images, or no row can hold them.
    """
    operations = [_read(record, options) for record in records]
    path = folder / f"operations.{folder.parent.name}.dat"
    content = bytearray()
    numbers: dict[str, int] = {}
    for operation in operations:
        numbers[operation.record.id] = len(content) // ROW_BYTES + 1
        for columns in operation.rows():
            content += _build(operation.record, columns, options)
    for address, operation in _commits(operations):
        content += _build(operation.record, operation.commit(address), options)
    write_private(path, content)
    reading = replace(options, layout="binary", row_stride=3596, parts="totals")
    return RetryFiles((path,), tuple((path, numbers[record.id]) for record in records), reading)


def _commits(operations: Sequence[_Operation]) -> Iterator[tuple[int, _Operation]]:
    """Yields the address of each COMMIT, and an operation that it ends.

    The COMMIT of a row that could not be read is unknown: it is the next one of its transaction number, or
    else the row is a transaction by itself."""
    marks: defaultdict[tuple[bytes, int], set[int]] = defaultdict(set)
    for operation in operations:
        if operation.mark is not None:
            marks[operation.transaction].add(operation.mark)
    sorted_marks = {transaction: sorted(of_number) for transaction, of_number in marks.items()}
    ended: dict[tuple[tuple[bytes, int], int], _Operation] = {}
    for operation in operations:
        of_number = sorted_marks.get(operation.transaction, [])
        at = bisect_left(of_number, operation.address)
        mark = of_number[at] if at < len(of_number) else operation.address
        ended.setdefault((operation.transaction, mark), operation)
    for (_, address), operation in ended.items():
        yield _as_signed(address, 64), operation


def _read(record: CorrectedRecord, options: DispatchQueueOptions) -> _Operation:
    try:
        raw = dict(record.raw)
        address = _address(raw["SYSLOG_ADDR"])
        raw["SYSLOG_ADDR"] = address
        data, lengths = _images(raw)
        numbers = {name: _as_signed(int(raw[name]), _BITS.get(name, 0)) for name in INTEGERS}
        texts = {name: str(raw[name]).encode(options.codec).ljust(WIDTHS[name]) for name in TEXTS}
        columns = {**numbers, **texts, **lengths, "OPER_DATE": _date(raw["OPER_DATE"])}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{record.where}: raw is no operation ({error!r}): {_SHOWN}") from None
    mark = None if record.transaction is None else unsigned_address(int(record.transaction[-1]))
    return _Operation(record, columns, address, data, mark)


def _images(raw: Mapping[str, Any]) -> tuple[bytes, dict[str, int]]:
    """Returns the images of a record, joined, and their lengths.

    DATA that could not be divided is divided by LEN1 and LEN2, which may have been corrected."""
    if "data" in raw:
        parts = [bytes.fromhex(part).ljust(DATA_BYTES, b"\0") for part in raw["data"]]
        lengths = {name: int(raw[name]) for name in ("LEN1", "LEN2")}
        return b"".join(parts)[: max(0, sum(lengths.values()))], lengths
    first, second = bytes.fromhex(raw["first"]), bytes.fromhex(raw["second"])
    return first + second, {"LEN1": len(first), "LEN2": len(second)}


def _build(
    record: CorrectedRecord, columns: Mapping[str, Any], options: DispatchQueueOptions
) -> bytes:
    data = columns["DATA"].ljust(DATA_BYTES, b"\0")
    try:
        built: bytes = row(options.byte_order).build({**columns, "DATA": data})
    except ConstructError as error:
        reason = str(error).splitlines()[-1]
        raise UsageError(
            f"{record.where}: no row can hold the values of raw ({reason}): {_SHOWN}"
        ) from None
    return built


def _address(text: str) -> int:
    file, address = map(int, text.split("."))
    return file << 32 | address


def _as_signed(number: int, bits: int) -> int:
    return number - (1 << bits) if bits and number >= 1 << (bits - 1) else number


def _date(text: str) -> dict[str, int]:
    """Converts OPER_DATE back to its seconds and fraction, of which microseconds keep everything."""
    since = dt.datetime.fromisoformat(text) - EPOCH
    seconds, rest = divmod(since, dt.timedelta(seconds=1))
    return {"seconds": seconds, "fraction": -(-rest.microseconds * FRACTIONS // 1_000_000)}
