"""The waiting records of a recovery, and those of them that the sink has: sorted digests on disk.

A digest has 63 bits.  Where two ids share one, both count as found; at worst an object is marked as
recovered that the sink does not have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.journal.decisions import PositionText
from publisher.journal.lane_writer import LaneNames
from publisher.model.change import Object, Position
from publisher.model.sorted_ids import IdGatherer, Ids, find_ids, open_ids

_COLUMNS = ["source", *Position._fields, *Object._fields, "document"]
_ROWS = 20_000
_BITS = (1 << 63) - 1
_NAMELESS = 0
"""In place of the digest of an id that differs from run to run."""


class WaitingIds:
    """The ids of the records that wait, and which of them were found in the sink."""

    def __init__(self, ids: Ids) -> None:
        """``ids`` are sorted digests."""
        self._ids = ids
        self._found = np.zeros(len(ids), bool)

    @classmethod
    def gather(
        cls, journal: Path, lanes: int, texts: Sequence[PositionText | None], folder: Path
    ) -> WaitingIds:
        """Gathers the ids of all records of a run that belong to objects, in files of ``folder``.

        ``texts`` write the positions of the sources, ``None`` where ids differ from run to run.
        """
        gatherer = IdGatherer(folder, "waiting")
        for lane in range(lanes):
            for batch in _batches(journal, lane, texts):
                gatherer.add(batch.records[batch.records != _NAMELESS])
        return cls(_ids_of(gatherer, folder))

    def __len__(self) -> int:
        return len(self._ids)

    def note(self, record_ids: Iterable[str]) -> None:
        """Takes ids, as ``last_segment`` leaves them, that the sink has."""
        places = find_ids(self._ids, _digests(record_ids))
        self._found[places[places >= 0]] = True

    def found(self, digests: Ids) -> npt.NDArray[np.bool_]:
        """Which of these are waiting ids that were found."""
        places = find_ids(self._ids, digests)
        found = places >= 0
        found[found] = self._found[places[found]]
        return found


def documents_found(
    journal: Path,
    lane: int,
    texts: Sequence[PositionText | None],
    waiting: WaitingIds,
    folder: Path,
) -> frozenset[int]:
    """The documents of a lane whose objects have a record that was found, or one without a lasting id."""
    gatherer = IdGatherer(folder, f"objects-{lane}")
    for batch in _batches(journal, lane, texts):
        hit = (batch.records == _NAMELESS) | waiting.found(batch.records)
        gatherer.add(batch.objects[hit])
    objects = _ids_of(gatherer, folder)
    if not len(objects):
        return frozenset()
    numbers = [
        np.unique(batch.documents[(find_ids(objects, batch.objects) >= 0) & (batch.documents >= 0)])
        for batch in _batches(journal, lane, texts)
    ]
    return frozenset(np.unique(np.concatenate(numbers)).tolist())


def last_segment(record_id: str) -> str:
    """What is left of an id where a list of ids is cut at its commas: names of files may have some."""
    return record_id.rpartition(",")[2]


class _Batch(NamedTuple):
    """Records of a lane that belong to objects."""

    objects: Ids
    """Digests."""
    records: Ids
    """Digests of their ids, or ``_NAMELESS``."""
    documents: Ids
    """Numbers of their documents, -1 where there is none."""


def _batches(journal: Path, lane: int, texts: Sequence[PositionText | None]) -> Iterator[_Batch]:
    with pq.ParquetFile(journal / LaneNames(lane).decisions) as file:
        for batch in file.iter_batches(_ROWS, columns=_COLUMNS, use_threads=False):
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
    """A positive number."""
    found = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(found) & _BITS or 1


def _ids_of(gatherer: IdGatherer, folder: Path) -> Ids:
    file = gatherer.close()
    return np.zeros(0, np.int64) if file is None else open_ids(folder / file.name)
