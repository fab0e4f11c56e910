"""Chooses the objects whose histories a report shows: rejected ones, the busiest, and a random sample."""

from __future__ import annotations

import heapq
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import count

import pyarrow.compute as pc

from publisher.ledger.parts import LedgerPart
from publisher.model.change import Object, Outcome

SAMPLED = 1_000
REJECTED = 300
BUSIEST = 100
_HASHES = 1 << 32
_OBJECT = ["schema", "table", "key"]


class ObjectChoice:
    """Chooses objects by a hash of their names, so every run of a ledger chooses the same ones.

    Memory does not depend on the number of objects."""

    def __init__(self) -> None:
        self._sample = _SmallestHashes(SAMPLED)
        self._rejected = _SmallestHashes(REJECTED)
        self._busy = Counter[Object]()

    def add(self, part: LedgerPart) -> None:
        """Takes the objects of a part into account."""
        records = part.records([*_OBJECT, "records", "outcome"])
        grouped = (
            records.filter(pc.is_valid(records["key"]))
            .group_by(_OBJECT)
            .aggregate([("records", "sum"), ("outcome", "max")])
        )
        columns = (grouped[name].to_pylist() for name in [*_OBJECT, "records_sum", "outcome_max"])
        for schema, table, key, total, outcome in zip(*columns, strict=True):
            obj = Object(schema, table, key)
            number = zlib.crc32(repr(obj).encode())
            self._sample.add(number, obj)
            if outcome == Outcome.REJECTED:
                self._rejected.add(number, obj)
            self._busy[obj] += total
        if len(self._busy) > 100 * BUSIEST:
            self._busy = Counter(dict(self._busy.most_common(10 * BUSIEST)))

    def objects(self) -> list[Object]:
        """The chosen objects: rejected ones first, then the busiest, then the others."""
        busiest = (obj for obj, _ in self._busy.most_common(BUSIEST))
        return list(dict.fromkeys([*self._rejected, *busiest, *self._sample]))

    @property
    def count(self) -> int:
        """The number of objects; an estimate (± 5 %) if only some are chosen."""
        return self._sample.count

    @property
    def is_complete(self) -> bool:
        """True if all objects are chosen."""
        return self._sample.is_complete


class _SmallestHashes:
    """The objects with the smallest hashes, which are a random sample."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._objects: dict[Object, int] = {}
        self._heap: list[tuple[int, int, Object]] = []
        self._ties = count()
        self.is_complete = True

    def add(self, number: int, obj: Object) -> None:
        if obj in self._objects or (not self.is_complete and number >= -self._heap[0][0]):
            return
        self._objects[obj] = number
        heapq.heappush(self._heap, (-number, next(self._ties), obj))
        if len(self._heap) > self._limit:
            self.is_complete = False
            *_, last = heapq.heappop(self._heap)
            del self._objects[last]

    def __iter__(self) -> Iterator[Object]:
        return iter(sorted(self._objects, key=self._objects.__getitem__))

    @property
    def count(self) -> int:
        """The number of all objects that were added, estimated from the greatest hash of the sample."""
        if self.is_complete:
            return len(self._objects)
        return round((self._limit - 1) * _HASHES / max(1, -self._heap[0][0]))
