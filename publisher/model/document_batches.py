"""Documents in columns, on their way from planning to the journal, and their order."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa

from publisher.model.change import Document, Object, Position

DOCUMENT_SCHEMA = pa.schema(
    [
        # rank and position of the first change
        ("rank", pa.int64()),
        ("part", pa.string()),
        ("high", pa.int64()),
        ("low", pa.int64()),
        ("ordinal", pa.int32()),
        ("poll", pa.int64()),
        ("operation", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("association", pa.string()),
        # after a change of the key; else null
        ("new_association", pa.string()),
        ("event_id", pa.string()),
        ("records", pa.string()),
        # one line without its line end
        ("text", pa.large_string()),
        # row numbers of its changes in the lane
        ("rows", pa.list_(pa.int64())),
    ]
)
"""One row for each document; see ``Document``."""


_PLAIN_FIELDS = [name for name in Document._fields if name not in {"object", "position", "rows"}]


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents of one source in the order of publishing, as a batch of ``DOCUMENT_SCHEMA``."""

    batch: pa.RecordBatch

    @classmethod
    def of(cls, documents: Sequence[tuple[int, Document]]) -> Documents:
        """Converts single documents, each with the rank of its first change."""
        columns = zip(*(_columns_of(rank, document) for rank, document in documents), strict=True)
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, DOCUMENT_SCHEMA, strict=True)
        ]
        return cls(pa.RecordBatch.from_arrays(arrays, schema=DOCUMENT_SCHEMA))

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __iter__(self) -> Iterator[Document]:
        for row in self.batch.to_pylist():
            yield Document(
                object=Object(row["schema"], row["table"], row["key"]),
                position=Position(row["part"], row["high"], row["low"], row["ordinal"]),
                rows=tuple(row["rows"]),
                **{name: row[name] for name in _PLAIN_FIELDS},
            )

    @property
    def ranks(self) -> np.ndarray:
        """Ranks of the first changes of the documents."""
        ranks: np.ndarray = self.batch.column("rank").to_numpy()
        return ranks

    @property
    def bytes(self) -> int:
        """Size of the texts."""
        return text_bytes(self.batch.column("text"))

    def slice(self, start: int, stop: int) -> Documents:
        """Selects consecutive documents."""
        return Documents(self.batch.slice(start, stop - start))


_PORTION = 1 << 10
"""Documents of a batch that are copied if a document is inserted among them."""


class Outbox:
    """Sorts documents of both planners: a document waits until no earlier document can follow.

    Single documents are inserted into the batches by part, rank and position of the first change and by
    association (one record id may occur for two objects).  All documents of batches have the part "".
    """

    def __init__(self) -> None:
        self._batches: deque[Documents] = deque()
        self._singles: list[_Single] = []
        self.count = 0
        """Number of waiting documents."""
        self.bytes = 0
        """Size of their texts; for single documents in characters."""

    def add(self, rank: int, document: Document) -> None:
        """Adds one document; ``rank`` is the rank of its first change."""
        position = document.position
        self._singles.append((position.part, rank, position, document.association, document))
        self.count += 1
        self.bytes += len(document.text)

    def add_batch(self, documents: Documents) -> None:
        """Adds documents in rank order, without equal ranks, all after the last batch."""
        if len(documents):
            self._batches.append(documents)
            self.count += len(documents)
            self.bytes += documents.bytes

    def take(self, before: tuple[str, int, Position] | None = None) -> list[Documents]:
        """Removes and returns the documents before a place, or all, in order."""
        if not self.count:
            return []
        self._singles.sort(key=_PLACE)
        ready = len(self._singles)
        if before is not None:
            ready = bisect_left(self._singles, before, key=_PLACE)
        singles = self._singles[:ready]
        del self._singles[:ready]
        documents = list(_merge(self._batches_before(before), singles))
        self.count -= sum(map(len, documents))
        self.bytes -= sum([len(single[-1].text) for single in singles])
        return documents

    def _batches_before(self, before: tuple[str, int, Position] | None) -> Iterator[Documents]:
        while self._batches:
            batch = self._batches.popleft()
            stop = len(batch)
            if before is not None:
                stop = int(np.searchsorted(batch.ranks, before[1]))
            if stop < len(batch):
                self._batches.appendleft(batch.slice(stop, len(batch)))
            if stop:
                first = batch.slice(0, stop)
                self.bytes -= first.bytes
                yield first
            if stop < len(batch):
                return


_Single = tuple[str, int, Position, str, Document]
_PLACE = itemgetter(0, 1, 2, 3)


def _merge(batches: Iterator[Documents], singles: list[_Single]) -> Iterator[Documents]:
    start = 0
    for batch in batches:
        last = ("", int(batch.ranks[-1]), Position("", -1, -1, -1))
        stop = bisect_left(singles, last, start, key=_PLACE)
        if start < stop:
            yield from _insert(batch, _documents_of(singles[start:stop]))
            start = stop
        else:
            yield batch
    if start < len(singles):
        yield _documents_of(singles[start:])


def _documents_of(singles: list[_Single]) -> Documents:
    return Documents.of([(rank, document) for _, rank, _, _, document in singles])


def _insert(batch: Documents, singles: Documents) -> Iterator[Documents]:
    """Inserts a few documents into a batch; after documents of equal ranks.

    Only the portions of the batch that get documents are copied: a copy of all would need memory."""
    places = np.searchsorted(batch.ranks, singles.ranks, "right")
    portions = np.minimum(places, len(batch) - 1) // _PORTION
    end = 0
    for portion in np.unique(portions).tolist():
        start, earlier = portion * _PORTION, end
        if earlier < start:
            yield batch.slice(earlier, start)
        end = min(start + _PORTION, len(batch))
        first, stop = np.searchsorted(portions, [portion, portion + 1]).tolist()
        ends = (places[first:stop] - start).tolist()
        yield _join(batch.slice(start, end), singles.slice(first, stop), ends)
    if end < len(batch):
        yield batch.slice(end, len(batch))


def _join(batch: Documents, singles: Documents, ends: list[int]) -> Documents:
    """Puts each single document after as many documents of the batch as ``ends`` says.

    Pieces of the batch are copied as a whole, in a third of the time that ``join_batches`` takes."""
    pieces: list[pa.RecordBatch] = []
    for number, (start, end) in enumerate(pairwise([0, *ends])):
        pieces += [batch.batch.slice(start, end - start), singles.batch.slice(number, 1)]
    return Documents(pa.concat_batches([*pieces, batch.batch.slice(ends[-1])]))


def join_batches(batches: Sequence[Documents]) -> Documents:
    """Joins batches in the order of ranks; documents of equal ranks keep their order."""
    joined = pa.concat_batches([batch.batch for batch in batches])
    order = np.argsort(joined.column("rank").to_numpy(), kind="stable")
    return Documents(joined.take(pa.array(order)))


def text_bytes(texts: pa.LargeStringArray) -> int:
    """Total bytes of the texts of a column without nulls."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)
    first = texts.offset
    return int(offsets[first + len(texts)] - offsets[first]) if len(texts) else 0


def _columns_of(rank: int, document: Document) -> tuple[object, ...]:
    return (
        *(rank, *document.position, document.poll, document.operation, *document.object),
        *(document.association, document.new_association, document.event_id, document.records),
        *(document.text, document.rows),
    )
