"""The rows of an export as columns, for binary rows and delimited text alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.byte_areas import Bytes, Offsets
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows.layout import (
    DATA_AT,
    DATA_BYTES,
    INTEGERS,
    ROW_BYTES,
    WIDTHS,
    row_type,
)
from publisher.formats.files.frame import Broken

Codes = npt.NDArray[np.int64]
Addresses = npt.NDArray[np.uint64]


PADDING = " \0"
"""Characters after a name of fixed width."""


class Destination(NamedTuple):
    """DST_SERVER, DST_OWNER, DST_TABLE."""

    server: str
    owner: str
    table: str


class LostRow(NamedTuple):
    """A rejected row: one of its columns is unreadable, but its transaction is known."""

    node: str
    transaction: int
    address: int | None
    """SYSLOG_ADDR as an unsigned number; ``None`` if it is the unreadable column."""
    detail: str


@dataclass(frozen=True, slots=True, eq=False)
class QueueRows:
    """The rows of a split, in the order of the file."""

    numbers: Offsets
    """Number of each row in the file, from 1; for text the line."""
    integers: dict[str, Codes]
    """Values by column: SYSLOG_ADDR with its 64 bits as a signed number, BLOBATR unsigned."""
    seconds: Codes
    """Seconds of OPER_DATE since 1990."""
    fractions: Codes
    """65536ths of a second of OPER_DATE."""
    node: Codes
    """Place of DBNODE in ``nodes``."""
    nodes: tuple[str, ...]
    destination: Codes
    destinations: tuple[Destination, ...]
    unreadable: frozenset[str]
    """Names of databases and destinations that are not text in the character code of the settings."""
    data: Bytes
    """The area that contains DATA of all rows."""
    data_at: Offsets
    """Offset of each row's DATA."""
    data_bytes: Offsets
    """Available bytes of DATA, which may be truncated in text."""
    broken: tuple[Broken, ...] = ()
    """Lines of text that are not rows; their ``raw`` is JSON text."""
    lost: tuple[LostRow, ...] = ()
    """Broken pieces that name their transaction."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def address(self) -> Addresses:
        """SYSLOG_ADDR as an unsigned number."""
        return self.integers["SYSLOG_ADDR"].view(np.uint64)


def binary_rows(
    data: Bytes, start: int, stop: int, stride: int, options: DispatchQueueOptions, number: int
) -> QueueRows:
    """Reads the rows of a binary file from byte ``start`` on; ``number`` is the number of the first row."""
    count = whole_rows(stop - start, stride)
    kind = row_type(options.byte_order)
    rows = np.zeros(0, kind)
    if count:
        rows = np.ndarray((count,), kind, data, start, (stride,))
    nodes = _distinct(_area(data, start, stride, count, kind.fields["DBNODE"][1], 8))  # type: ignore[index]
    first = kind.fields["DST_SERVER"][1]  # type: ignore[index]
    destinations = _distinct(_area(data, start, stride, count, first, DATA_AT - first))
    unreadable: set[str] = set()
    return QueueRows(
        numbers=number + np.arange(count, dtype=np.int64),
        integers=_integers(rows),
        seconds=rows["SECONDS"].astype(np.int64),
        fractions=rows["FRACTION"].astype(np.int64),
        node=nodes.codes,
        nodes=tuple(_text(value, options.codec, unreadable) for value in nodes.values),
        destination=destinations.codes,
        destinations=tuple(_destination(v, options.codec, unreadable) for v in destinations.values),
        unreadable=frozenset(unreadable),
        data=data,
        data_at=start + DATA_AT + np.arange(count, dtype=np.int64) * stride,
        data_bytes=np.full(count, DATA_BYTES, np.int64),
    )


def whole_rows(size: int, stride: int) -> int:
    """Counts the rows in ``size`` bytes; the last row may lack its padding."""
    return 0 if size < ROW_BYTES else (size - ROW_BYTES) // stride + 1


def _integers(rows: npt.NDArray[np.void]) -> dict[str, Codes]:
    integers = {name: rows[name].astype(np.int64) for name in INTEGERS}
    integers["BLOBATR"] &= 0xFFFF
    return integers


class _Distinct(NamedTuple):
    codes: Codes
    values: list[bytes]


def _area(data: Bytes, start: int, stride: int, count: int, at: int, width: int) -> pa.Array:
    """Returns one range of bytes of every row."""
    if not count:
        return pa.array([], pa.binary(width))
    view = np.ndarray((count, width), np.uint8, data, start + at, (stride, 1))
    buffer = pa.py_buffer(np.ascontiguousarray(view))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, buffer])


def _distinct(areas: pa.Array) -> _Distinct:
    encoded = pc.dictionary_encode(areas)
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return _Distinct(codes, encoded.dictionary.to_pylist())


def _text(value: bytes, codec: str, unreadable: set[str]) -> str:
    """Decodes a CHAR without its padding: blanks (documented), or the zeros of a C string."""
    value = value.rstrip(PADDING.encode())
    try:
        text = value.decode(codec)
    except UnicodeDecodeError:
        text = value.decode("ascii", "backslashreplace")
        unreadable.add(text)
        return text
    if "\0" in text:
        text = text.replace("\0", "\\x00")
        unreadable.add(text)
    return text


def _destination(value: bytes, codec: str, unreadable: set[str]) -> Destination:
    server, owner = WIDTHS["DST_SERVER"], WIDTHS["DST_SERVER"] + WIDTHS["DST_OWNER"]
    parts = (value[:server], value[server:owner], value[owner:])
    return Destination(*(_text(part, codec, unreadable) for part in parts))
