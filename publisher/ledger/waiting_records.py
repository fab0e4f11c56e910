"""The ids of the waiting records of a recovery, as sorted digests, marked if the sink has them.

A digest has 63 bits.  If two ids have equal digests, both are marked; at worst an object is marked as
recovered although the sink does not have it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.ledger.lane_rows import LaneRows
from publisher.ledger.records import PositionText
from publisher.ledger.tables import RECORDS
from publisher.model.change import Object, Position
from publisher.model.sorted_ids import Ids, find_ids, sort_distinct

_COLUMNS = ["source", *Position._fields, *Object._fields, "document"]
_BITS = (1 << 63) - 1
_NAMELESS = 0
"""Replaces the digest of an id that differs between runs."""


class WaitingIds:
    """The ids of waiting records, marked if the sink has them."""

    def __init__(self, ids: Ids) -> None:
        """``ids`` are sorted digests."""
        self._ids = ids
        self._marked = np.zeros(len(ids), bool)

    @classmethod
    def gather(cls, lanes: Iterable[LaneRows], texts: Sequence[PositionText | None]) -> WaitingIds:
        """Gathers the ids of all records of a run that belong to objects.

        ``texts`` format the positions of each source, ``None`` if ids differ between runs.
        """
        batches = (batch for lane in lanes for batch in _batches(lane, texts))
        return cls(_distinct(batch.records[batch.records != _NAMELESS] for batch in batches))

    def __len__(self) -> int:
        return len(self._ids)

    def mark(self, record_ids: Iterable[str]) -> None:
        """Marks the ids of records that the sink has; they are in the form of ``last_segment``."""
        places = find_ids(self._ids, _digests(record_ids))
        self._marked[places[places >= 0]] = True

    def find(self, digests: Ids) -> npt.NDArray[np.bool_]:
        """Flags the digests of marked ids."""
        places = find_ids(self._ids, digests)
        flags = places >= 0
        flags[flags] = self._marked[places[flags]]
        return flags


def find_documents(
    lane: LaneRows, texts: Sequence[PositionText | None], waiting: WaitingIds
) -> frozenset[int]:
    """Finds the documents of a lane that the sink may have already: all those of an object if the sink has
    one of its records, or if the id of one of its records differs between runs."""
    objects = _distinct(
        batch.objects[(batch.records == _NAMELESS) | waiting.find(batch.records)]
        for batch in _batches(lane, texts)
    )
    numbers = _distinct(
        batch.documents[(find_ids(objects, batch.objects) >= 0) & (batch.documents >= 0)]
        for batch in _batches(lane, texts)
    )
    return frozenset(numbers.tolist())


def last_segment(record_id: str) -> str:
    """The part of an id after its last comma: lists of ids are split at commas, also in file names."""
    return record_id.rpartition(",")[2]


class _Batch(NamedTuple):
    """Records of a lane that belong to objects."""

    objects: Ids
    """Digests of the objects."""
    records: Ids
    """Digests of the record ids, or ``_NAMELESS``."""
    documents: Ids
    """Numbers of the documents, -1 for a record without a document."""


def _batches(lane: LaneRows, texts: Sequence[PositionText | None]) -> Iterator[_Batch]:
    for batch in lane.batches(RECORDS, _COLUMNS):
        of_objects = batch.filter(batch.column("key").is_valid())
        if of_objects.num_rows:
            yield _batch(of_objects, texts)


def _batch(batch: pa.RecordBatch, texts: Sequence[PositionText | None]) -> _Batch:
    columns = {name: batch.column(name).to_pylist() for name in _COLUMNS}
    objects = zip(*(columns[name] for name in Object._fields), strict=True)
    sources = columns["source"]
    positions = zip(*(columns[name] for name in Position._fields), strict=True)
    records = [
        _NAMELESS if (text := texts[source]) is None else _record_digest(text, position)
        for source, position in zip(sources, positions, strict=True)
    ]
    return _Batch(
        _digests("\0".join((schema or "", table, key)) for schema, table, key in objects),
        np.array(records, np.int64),
        np.array(columns["document"], np.int64),
    )


def _record_digest(text: PositionText, position: tuple[str | None, int, int, int]) -> int:
    part, high, low, ordinal = position
    return _digest(last_segment(text(Position(part or "", high, low, ordinal))))


def _digests(texts: Iterable[str]) -> Ids:
    return np.fromiter((_digest(text) for text in texts), np.int64)


def _digest(text: str) -> int:
    """Hashes a text to a positive number."""
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) & _BITS or 1


def _distinct(ids: Iterable[Ids]) -> Ids:
    """Sorts the distinct ids of some arrays."""
    return sort_distinct(np.concatenate([np.zeros(0, np.int64), *ids]))
