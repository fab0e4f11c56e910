"""Samples in bulk: a header of the file, then calls of one width; and bare records as one sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import construct as c
import numpy as np
import numpy.typing as npt

from publisher.errors import FatalError
from publisher.sources.table_queue.calls import (
    LAST_ORDINAL,
    LAST_TIME,
    NO_RECORD,
    Block,
    Call,
    Envelope,
    Unusable,
    micros,
)
from publisher.sources.table_queue.layout import (
    BULK_CALL,
    BULK_HEADER,
    CODE,
    COMPLETIONS,
    MAGIC,
    RECORD,
    SYSTEM_ERROR,
    VERSION,
    columns_of,
)
from publisher.sources.table_queue.options import NORMAL

HEADER_BYTES = BULK_HEADER.sizeof()
_ENVELOPE = columns_of(BULK_CALL)
_CALLS = 16_384
_MOST_RECORD = 1 << 16


@dataclass(frozen=True, slots=True)
class BulkHeader:
    """What the header of a bulk file says of all its calls."""

    record_bytes: int
    """Room for a record in each call."""
    node: str = ""
    code_page: str | None = None

    @property
    def stride(self) -> int:
        """Bytes of a call."""
        return _ENVELOPE.itemsize + self.record_bytes

    def built(self) -> bytes:
        """The header as it begins a file.  Raises ``ValueError`` where node or code page are too long."""
        node, page = self.node.encode(), (self.code_page or "").encode("ascii")
        if len(node) > 16 or len(page) > 32 or not 0 < self.record_bytes < _MOST_RECORD:
            raise ValueError("node has 16 bytes, code_page 32, a record 1 to 65535; shorten them")
        built: bytes = BULK_HEADER.build(
            {
                "version": VERSION,
                "record_bytes": self.record_bytes,
                "node": node.ljust(16, b"\0"),
                "code_page": page.ljust(32, b"\0"),
            }
        )
        return built

    def call(self, call: Call) -> bytes:
        """A call as it stands in the file.

        Raises ``ValueError`` where it does not fit: another node or code page, a longer record, a
        completion code that has a name of its own and no number."""
        record, page = call.record or b"", call.code_page or self.code_page
        if (call.node, page) != (self.node, self.code_page) or len(record) > self.record_bytes:
            raise ValueError("a call of another node, code page or record size; write another file")
        symbol = call.completion if call.completion in COMPLETIONS else None
        if symbol is None and call.code is None:
            raise ValueError(f"completion {call.completion} has no number; record its number")
        known = CODE * (call.code is not None) | RECORD * (call.record is not None)
        envelope: bytes = BULK_CALL.build(
            {
                "sweep": call.sweep,
                "time": micros(call.time),
                "ordinal": call.ordinal,
                "code": call.code or 0,
                "system_error": call.system_error or 0,
                "length": len(record),
                "completion": COMPLETIONS.index(symbol),
                "known": known | SYSTEM_ERROR * (call.system_error is not None),
            }
        )
        return envelope + record.ljust(self.record_bytes, b"\0")


def read_header(path: Path) -> BulkHeader:
    """The header of a bulk file.  Raises ``FatalError`` where it is none of a known version."""
    with path.open("rb") as file:
        start = file.read(HEADER_BYTES)
    advice = "record again, or name the file by its form"
    if len(start) < HEADER_BYTES or not start.startswith(MAGIC):
        raise FatalError(f"{path}: is no bulk file of samples, its header is missing; {advice}")
    if start[len(MAGIC)] != VERSION:
        raise FatalError(
            f"{path}: is a bulk file of version {start[len(MAGIC)]}, known is {VERSION}; read it with"
            " the version of the program that wrote it"
        )
    try:
        found = BULK_HEADER.parse(start)
        node = found.node.rstrip(b"\0 ").decode()
        page = found.code_page.rstrip(b"\0 ").decode("ascii") or None
    except (c.ConstructError, UnicodeDecodeError):
        raise FatalError(f"{path}: the header of the bulk file is damaged; {advice}") from None
    if not 0 < found.record_bytes < _MOST_RECORD:
        raise FatalError(f"{path}: records of {found.record_bytes} bytes cannot be; {advice}")
    return BulkHeader(found.record_bytes, node, page)


def bulk_blocks(path: Path, start: int, stop: int, header: BulkHeader) -> Iterator[Block]:
    """The calls between two offsets of a bulk file."""
    layout = np.dtype([("envelope", _ENVELOPE), ("record", np.uint8, (header.record_bytes,))])
    for at, calls in _pieces(path, start, stop, layout):
        if isinstance(calls, bytes):
            yield _tail(at, calls, header.stride)
        else:
            yield _bulk_block(at, calls, header)


def _bulk_block(at: int, calls: npt.NDArray[Any], header: BulkHeader) -> Block:
    envelope = calls["envelope"]
    good, why = _usable(envelope, header)
    rows = at + np.arange(len(calls)) * header.stride
    unusable = tuple(
        Unusable(int(rows[i]), *why[i], raw=calls[i].tobytes().hex())
        for i in np.flatnonzero(~good).tolist()
    )
    envelope, rows = envelope[good], rows[good]
    known = envelope["known"]
    count = len(rows)
    envelopes = map(
        Envelope,
        rows.tolist(),
        map(str, envelope["sweep"].tolist()),
        envelope["time"].tolist(),
        [header.node] * count,
        envelope["ordinal"].tolist(),
        [COMPLETIONS[index] for index in envelope["completion"].tolist()],
        _where(known & CODE, envelope["code"]),
        _where(known & SYSTEM_ERROR, envelope["system_error"]),
        [header.code_page] * count,
    )
    lengths = np.where(known & RECORD, envelope["length"].astype(np.int64), NO_RECORD)
    return Block(list(envelopes), lengths.tolist(), calls["record"][good], unusable=unusable)


def _usable(
    envelope: npt.NDArray[Any], header: BulkHeader
) -> tuple[npt.NDArray[np.bool_], dict[int, tuple[str, str]]]:
    """Which envelopes can be used, and what is wrong with the others."""
    ordinals, times = envelope["ordinal"], envelope["time"]
    checks = {
        "ordinal": (ordinals >= 1) & (ordinals <= LAST_ORDINAL),
        "time": (times >= 0) & (times <= LAST_TIME),
        "completion": envelope["completion"] < len(COMPLETIONS),
        "length": envelope["length"] <= header.record_bytes,
    }
    good = np.ones(len(envelope), np.bool_)
    why: dict[int, tuple[str, str]] = {}
    for name, fits in checks.items():
        detail = f"{name}: cannot be what is recorded; the file is damaged here, record it again"
        why |= dict.fromkeys(np.flatnonzero(good & ~fits).tolist(), (name, detail))
        good &= fits
    return good, why


def _where(known: npt.NDArray[Any], values: npt.NDArray[Any]) -> list[int | None]:
    pairs = zip(known.tolist(), values.tolist(), strict=True)
    return [value if there else None for there, value in pairs]


def raw_blocks(path: Path, start: int, stop: int, record_bytes: int) -> Iterator[Block]:
    """Bare records between two offsets: elements of one sweep, their ordinals by position."""
    layout = np.dtype([("record", np.uint8, (record_bytes,))])
    for at, records in _pieces(path, start, stop, layout):
        if isinstance(records, bytes):
            yield _tail(at, records, record_bytes, sweep=str(path))
            continue
        count, first = len(records), at // record_bytes + 1
        envelopes = [
            Envelope(
                at + i * record_bytes, str(path), None, "", first + i, NORMAL, None, None, None
            )
            for i in range(count)
        ]
        yield Block(envelopes, [record_bytes] * count, records["record"])


def _pieces(
    path: Path, start: int, stop: int, layout: np.dtype[Any]
) -> Iterator[tuple[int, npt.NDArray[Any] | bytes]]:
    """Whole pieces of a file by their offsets, many at once; what is left at its end as bytes."""
    width = layout.itemsize
    with path.open("rb") as file:
        file.seek(start)
        while start < stop:
            data = file.read(min(stop - start, _CALLS * width))
            whole = len(data) - len(data) % width
            if whole:
                yield start, np.frombuffer(data[:whole], layout)
            if len(data) > whole or not data:
                yield start + whole, data[whole:]
                return
            start += whole


def _tail(at: int, rest: bytes, width: int, sweep: str | None = None) -> Block:
    detail = f"the file ends after {len(rest)} of {width} bytes; it was cut, record it again"
    return Block(unusable=(Unusable(at, "cut", detail, rest.hex(), sweep),))
