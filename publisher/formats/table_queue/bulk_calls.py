"""Binary samples: files with a header and calls of fixed width, and files of records without calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import construct as c
import numpy as np
import numpy.typing as npt

from publisher.errors import FatalError
from publisher.formats.table_queue.calls import (
    LAST_ORDINAL,
    LAST_TIME,
    NO_RECORD,
    CallEnvelope,
    SampleBlock,
    UnusablePiece,
)
from publisher.formats.table_queue.layout import (
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
from publisher.formats.table_queue.options import NORMAL

HEADER_BYTES = BULK_HEADER.sizeof()
_ENVELOPE = columns_of(BULK_CALL)
_CALLS_AT_ONCE = 16_384
_MAX_RECORD = 1 << 16


@dataclass(frozen=True, slots=True)
class BulkHeader:
    """The header of a bulk file, which applies to all its calls."""

    record_bytes: int
    """Room for a record in each call."""
    node: str = ""
    code_page: str | None = None

    @property
    def stride(self) -> int:
        """Bytes per call."""
        return _ENVELOPE.itemsize + self.record_bytes


def read_header(path: Path) -> BulkHeader:
    """Reads the header of a bulk file.  Raises ``FatalError`` if it is missing or of another version."""
    with path.open("rb") as file:
        start = file.read(HEADER_BYTES)
    advice = "record the samples again, or give the file the suffix of its form"
    if len(start) < HEADER_BYTES or not start.startswith(MAGIC):
        raise FatalError(f"{path}: not a bulk file of samples, the header is missing; {advice}")
    if start[len(MAGIC)] != VERSION:
        raise FatalError(
            f"{path}: bulk file of version {start[len(MAGIC)]}, but this program reads version {VERSION};"
            " read it with the program that wrote it"
        )
    try:
        header = BULK_HEADER.parse(start)
        node = header.node.rstrip(b"\0 ").decode()
        page = header.code_page.rstrip(b"\0 ").decode("ascii") or None
    except (c.ConstructError, UnicodeDecodeError):
        raise FatalError(f"{path}: the header of the bulk file is damaged; {advice}") from None
    if not 0 < header.record_bytes < _MAX_RECORD:
        raise FatalError(f"{path}: {header.record_bytes} is not a possible record size; {advice}")
    return BulkHeader(header.record_bytes, node, page)


def read_bulk_blocks(
    path: Path, start: int, stop: int, header: BulkHeader
) -> Iterator[SampleBlock]:
    """Reads the calls between two offsets of a bulk file."""
    layout = np.dtype([("envelope", _ENVELOPE), ("record", np.uint8, (header.record_bytes,))])
    for at, calls in _pieces(path, start, stop, layout):
        yield _bulk_block(at, calls, header)


def _bulk_block(at: int, calls: npt.NDArray[Any], header: BulkHeader) -> SampleBlock:
    envelope = calls["envelope"]
    usable, problems = _find_problems(envelope, header)
    rows = at + np.arange(len(calls)) * header.stride
    unusable = tuple(
        UnusablePiece(int(rows[i]), *problems[i], raw=calls[i].tobytes().hex())
        for i in np.flatnonzero(~usable).tolist()
    )
    envelope, rows = envelope[usable], rows[usable]
    present = envelope["known"]
    count = len(rows)
    envelopes = map(
        CallEnvelope,
        rows.tolist(),
        map(str, envelope["sweep"].tolist()),
        envelope["time"].tolist(),
        [header.node] * count,
        envelope["ordinal"].tolist(),
        [COMPLETIONS[index] for index in envelope["completion"].tolist()],
        _values_or_none(present & CODE, envelope["code"]),
        _values_or_none(present & SYSTEM_ERROR, envelope["system_error"]),
        [header.code_page] * count,
    )
    lengths = np.where(present & RECORD, envelope["length"].astype(np.int64), NO_RECORD)
    return SampleBlock(
        list(envelopes), lengths.tolist(), calls["record"][usable], unusable=unusable
    )


def _find_problems(
    envelope: npt.NDArray[Any], header: BulkHeader
) -> tuple[npt.NDArray[np.bool_], dict[int, tuple[str, str]]]:
    """Returns a mask of usable envelopes, and the problem and advice of each unusable one, by row."""
    ordinals, times = envelope["ordinal"], envelope["time"]
    checks = {
        "ordinal": (ordinals >= 1) & (ordinals <= LAST_ORDINAL),
        "time": (times >= 0) & (times <= LAST_TIME),
        "completion": envelope["completion"] < len(COMPLETIONS),
        "length": envelope["length"] <= header.record_bytes,
    }
    usable = np.ones(len(envelope), np.bool_)
    problems: dict[int, tuple[str, str]] = {}
    for name, valid in checks.items():
        detail = f"{name}: not a possible value; the file is damaged here, record it again"
        problems |= dict.fromkeys(np.flatnonzero(usable & ~valid).tolist(), (name, detail))
        usable &= valid
    return usable, problems


def _values_or_none(present: npt.NDArray[Any], values: npt.NDArray[Any]) -> list[int | None]:
    pairs = zip(present.tolist(), values.tolist(), strict=True)
    return [value if is_present else None for is_present, value in pairs]


def read_raw_blocks(path: Path, start: int, stop: int, record_bytes: int) -> Iterator[SampleBlock]:
    """Reads bare records between two offsets: elements of one sweep, with ordinals by position."""
    layout = np.dtype([("record", np.uint8, (record_bytes,))])
    for at, records in _pieces(path, start, stop, layout):
        count, first = len(records), at // record_bytes + 1
        envelopes = [
            CallEnvelope(
                at + i * record_bytes, str(path), None, "", first + i, NORMAL, None, None, None
            )
            for i in range(count)
        ]
        yield SampleBlock(envelopes, [record_bytes] * count, records["record"])


def _pieces(
    path: Path, start: int, stop: int, layout: np.dtype[Any]
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yields arrays of whole pieces of a file with their offset."""
    step = _CALLS_AT_ONCE * layout.itemsize
    with path.open("rb") as file:
        file.seek(start)
        for at in range(start, stop, step):
            yield at, np.frombuffer(file.read(min(stop - at, step)), layout)
