"""Pieces of a verification: documents, rows and other evidence, cut by the bucket of their object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.formats.triggerless.hashing import Hashes, bucket_of, text_hashes
from publisher.model.packed_batches import BatchGatherer, pack_batch, unpack_batch

_ROWS, _BYTES = 1 << 14, 8 << 20
"""Rows or bytes that are collected before they are cut into pieces."""


class EvidenceKind(IntEnum):
    """Kind of a piece."""

    MARK = 0
    """Shows only that the bucket exists."""
    DOCUMENTS = 1
    ROWS = 2
    """Rows of a table: keys and texts of columns."""
    WAITING = 3
    """Objects whose next change is read but not published yet."""
    LEDGER = 4
    """Documents that the ledger shows as published."""
    FAULTS = 5
    """Rows of a table that cannot be read, with their faults; null for rows that are of no object."""
    CONSUMER = 6
    """The state of a consumer."""
    BLIND = 7
    """Shows that rows of a table cannot be read, which may be those of any object."""


EVIDENCE_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("kind", pa.int32()),
        ("table", pa.int32()),
        ("member", pa.int32()),
        ("data", pa.binary()),
    ]
)


class Evidence(NamedTuple):
    """One row of ``EVIDENCE_SCHEMA``, unpacked."""

    kind: EvidenceKind
    table: int
    member: int
    """Number of the table in its class; 0 is the parent."""
    rows: pa.RecordBatch


@dataclass(slots=True)
class EvidencePacker:
    """Collects rows of one kind, and cuts them by the bucket of their object."""

    buckets: int
    kind: EvidenceKind
    table: int = 0
    member: int = 0
    connected: Mapping[str, str] = field(default_factory=dict)
    """The first association of each group that changes of keys connect."""
    only: Hashes | None = None
    """The sorted hashes of the objects to compare; other rows are left out.  ``None``: all."""
    _waiting: BatchGatherer = field(default_factory=lambda: BatchGatherer(_BYTES, _ROWS))

    def add(self, associations: pa.Array, columns: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Collects rows, each with the association of its object; yields pieces once there are enough."""
        hashes = first_hashes(associations, self.connected)
        names = ["hash", "association", *columns]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(hashes), associations, *columns.values()], names=names
        )
        if self.only is not None:
            batch = batch.filter(pa.array(_are_among(hashes, self.only)))
        yield from map(self._cut, self._waiting.add(batch))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yields the pieces of the remaining rows."""
        yield from map(self._cut, self._waiting.flush())

    def _cut(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        buckets = bucket_of(rows.column("hash").to_numpy(), self.buckets)
        order = np.argsort(buckets, kind="stable")
        rows, buckets = rows.take(pa.array(order)), buckets[order]
        starts = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)]
        packed = [pack_batch(rows.slice(low, high - low)) for low, high in pairwise(starts)]
        return _batch(buckets[starts[:-1]].tolist(), self.kind, self.table, self.member, packed)


def first_hashes(associations: pa.Array, connected: Mapping[str, str]) -> Hashes:
    """Returns the hash of each object: that of the first association of its group."""
    if connected:
        names = [connected.get(name, name) for name in associations.to_pylist()]
        associations = pa.array(names, pa.string())
    return text_hashes(associations)


def _are_among(hashes: Hashes, chosen: Hashes) -> npt.NDArray[np.bool_]:
    if not len(chosen):
        return np.zeros(len(hashes), bool)
    places = np.minimum(np.searchsorted(chosen, hashes), len(chosen) - 1)
    return np.asarray(chosen[places] == hashes)


def marks(buckets: int) -> pa.RecordBatch:
    """A piece for each bucket, so that buckets without documents and rows have a result, too."""
    return _batch(range(buckets), EvidenceKind.MARK, 0, 0, [None] * buckets)


def blinds(buckets: int, table: int, member: int) -> pa.RecordBatch:
    """A piece for each bucket: objects of a table with unreadable rows may be in any of them."""
    nothing = pack_batch(pa.record_batch({"association": pa.array([], pa.string())}))
    return _batch(range(buckets), EvidenceKind.BLIND, table, member, [nothing] * buckets)


def each_evidence(batches: Iterable[pa.RecordBatch]) -> Iterator[Evidence]:
    """Yields the evidence of one bucket."""
    for batch in batches:
        numbers = (batch.column(name).to_pylist() for name in ("kind", "table", "member"))
        for kind, table, member, data in zip(*numbers, batch.column("data"), strict=True):
            if data.is_valid:
                rows = unpack_batch(data.as_buffer())
                yield Evidence(EvidenceKind(kind), table, member, rows)


def _batch(
    buckets: Sequence[int],
    kind: EvidenceKind,
    table: int,
    member: int,
    data: Sequence[bytes | None],
) -> pa.RecordBatch:
    count = len(buckets)
    columns = ([*buckets], [int(kind)] * count, [table] * count, [member] * count, [*data])
    arrays = [
        pa.array(values, type_)
        for values, type_ in zip(columns, EVIDENCE_SCHEMA.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EVIDENCE_SCHEMA)
