"""Reads the documents of a lane as Kafka records, in batches and bounded memory.

The key is the association, the value the document; ``HEADERS`` lists the headers.  A change of a key is two
records: one under each of its keys, with the headers ``KEY_HEADERS``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.dispatch.refusals import Refusal
from publisher.ledger.lane_rows import LaneRows, cut
from publisher.ledger.tables import DOCUMENTS

HEADERS = ("event-id", "source", "position", "operation", "class-name", "record-ids")
"""Headers of a record, all UTF-8: its origin, operation and table, and its source records."""
KEY_HEADERS = ("key-from", "key-to")
"""Additional headers of a change of a key: the old and the new association."""

RECOVERED = ("recovered", b"at-least-once")
"""An additional header of documents that the topic may have already: the ledger was lost."""
RECOVERED_BYTES = 2 + sum(map(len, RECOVERED))

REASON = "reason"
"""An additional header of documents that show no change of their source: the reason, such as ``repair``."""

Header = tuple[str, str | bytes | None]
"""Values are always bytes; the client declares this type."""
Record = tuple[bytes, bytes, list[Header]]
"""Key, value, headers."""
DeadLetter = tuple[None, bytes, list[Header]]
"""Value and headers of a rejected record, which has no key."""

_READ_AT_ONCE = 4 << 20
_COLUMNS = [
    *("source", "offset", "length", "ordinal", "operation", "schema", "table"),
    *("association", "new_association", "event_id", "records"),
]
_BATCH_OVERHEAD = 61
"""Bytes of a record batch before its records (Kafka protocol, RecordBatch, magic 2)."""


class DocumentTable(NamedTuple):
    """The table of a document and the name of its source, which select the topic."""

    source: str
    schema: str | None
    table: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive documents of a lane; ``end`` is the number after the last one."""

    end: int
    documents: int
    """Number of documents; a change of a key is one document in two records."""
    topics: Sequence[str]
    """One topic for all records, or a topic for each record."""
    records: Sequence[Record | DeadLetter]


@dataclass(frozen=True, slots=True)
class LaneDocuments:
    """The documents of one lane."""

    rows: LaneRows
    sources: tuple[str, ...]
    template: TopicTemplate
    reasons: tuple[str | None, ...] = ()
    """The reason of the documents of each source; see ``REASON``."""
    id_prefixes: tuple[int, ...] = ()
    """The bytes of the event ids of each source before the position."""
    recovered: frozenset[int] = frozenset()
    """Documents that the topic may have already; they get the header ``RECOVERED``."""

    @property
    def lane(self) -> int:
        """The number of the lane."""
        return self.rows.lane

    def batches(self, start: int, size: int, refused: Collection[int] = ()) -> Iterator[Batch]:
        """Reads the documents from number ``start`` on, except ``refused``, in batches of at most ``size``.

        The last batch ends after the last document, even if that is refused.

        Raises:
            FatalError: The ledger's files are missing or damaged.
        """
        for first, rows in self.index([*_COLUMNS, "text"], start):
            for low, high in cut(rows.column("length").to_numpy(), _READ_AT_ONCE, size):
                yield self._batch(first + low, rows.slice(low, high - low), refused)

    def index(self, columns: list[str], start: int = 0) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Reads the index from row ``start`` on; yields batches with the number of their first row."""
        for rows in self.rows.batches(DOCUMENTS, columns, start):
            yield start, rows
            start += rows.num_rows

    def _batch(self, first: int, rows: pa.RecordBatch, refused: Collection[int]) -> Batch:
        end = first + rows.num_rows
        accepted = [n - first for n in range(first, end) if n not in refused] if refused else None
        if accepted is not None and len(accepted) < rows.num_rows:
            rows = rows.take(pa.array(accepted, pa.int64()))
        values = self.rows.lines(rows)
        headers = list(self._headers(rows))
        if self.recovered:
            numbers = range(len(headers)) if accepted is None else accepted
            for place, header in zip(numbers, headers, strict=True):
                if first + place in self.recovered:
                    header.append(RECOVERED)
        records = list(zip(_bytes(rows, "association"), values, headers, strict=True))
        return Batch(end, len(records), *_add_second_keys(rows, self.topics(rows), records))

    def topics(self, rows: pa.RecordBatch) -> Sequence[str]:
        """The topics of documents: a single one if all share it, otherwise a topic for each document."""
        if not self.template.fields:
            return (self.template.text,)
        tables = self.tables(rows)
        topics = {table: self.template.topic(*table) for table in set(tables)}
        return tuple(topics.values()) if len(topics) == 1 else [topics[table] for table in tables]

    def tables(self, rows: pa.RecordBatch) -> list[DocumentTable]:
        """Lists the table of each document."""
        columns = [rows.column(name).to_pylist() for name in ("source", "schema", "table")]
        return [
            DocumentTable(self.sources[source], schema, table)
            for source, schema, table in zip(*columns, strict=True)
        ]

    def positions(self, rows: pa.RecordBatch) -> list[bytes]:
        """The positions of documents, cut from their event ids (``event_ids``)."""
        skipped = self.id_prefixes
        numbers = rows.column("source").to_pylist()
        texts = [e[skipped[n] :] for e, n in zip(_bytes(rows, "event_id"), numbers, strict=True)]
        ordinals = rows.column("ordinal")
        if not pc.any(pc.greater(ordinals, 0)).as_py():
            return texts
        return [
            text.removesuffix(b".%d" % ordinal) if ordinal else text
            for text, ordinal in zip(texts, ordinals.to_pylist(), strict=True)
        ]

    def refusal(self, document: int, row: pa.RecordBatch, reason: str, detail: str) -> Refusal:
        """The refusal of one document; ``row`` has its columns of ``SIZE_COLUMNS``."""
        return Refusal(
            lane=self.lane,
            document=document,
            source=self.sources[row.column("source")[0].as_py()],
            position=self.positions(row)[0].decode(),
            records=row.column("records")[0].as_py(),
            reason=reason,
            detail=detail,
        )

    def _headers(self, rows: pa.RecordBatch) -> Iterator[list[Header]]:
        names = [("source", name.encode()) for name in self.sources]
        columns = (
            zip(repeat("event-id"), _bytes(rows, "event_id")),
            [names[number] for number in rows.column("source").to_pylist()],
            zip(repeat("position"), self.positions(rows)),
            _repeating("operation", rows.column("operation")),
            _repeating("class-name", rows.column("table")),
            zip(repeat("record-ids"), _bytes(rows, "records")),
        )
        headers = map(list, zip(*columns, strict=True))
        return self._with_reasons(rows, headers) if any(self.reasons) else headers

    def _with_reasons(
        self, rows: pa.RecordBatch, headers: Iterable[list[Header]]
    ) -> Iterator[list[Header]]:
        for source, header in zip(rows.column("source").to_pylist(), headers, strict=True):
            reason = self.reasons[source]
            yield header if reason is None else [*header, (REASON, reason.encode())]


def _add_second_keys(
    rows: pa.RecordBatch, topics: Sequence[str], records: list[Record]
) -> tuple[Sequence[str], list[Record]]:
    """Adds the second record of each change of a key, after the first; returns topics and records."""
    new_keys = rows.column("new_association")
    if new_keys.null_count == len(new_keys):
        return topics, records
    each = topics if len(topics) == len(records) else [*topics] * len(records)
    all_topics, all_records = [], []
    for topic, (key, value, headers), new in zip(
        each, records, new_keys.cast(pa.binary()).to_pylist(), strict=True
    ):
        named = list(zip(KEY_HEADERS, (key, new), strict=True)) if new is not None else []
        for record_key in (key,) if new is None else (key, new):
            all_topics.append(topic)
            all_records.append((record_key, value, [*headers, *named]))
    return topics if len(topics) == 1 else all_topics, all_records


def _repeating(name: str, column: pa.Array) -> list[Header]:
    """The header of each row of a column with few values; equal headers are one object."""
    encoded = column.dictionary_encode()
    headers: list[Header] = [
        (name, value) for value in encoded.dictionary.cast(pa.binary()).to_pylist()
    ]
    return [headers[number] for number in encoded.indices.to_pylist()]


def _bytes(rows: pa.RecordBatch, name: str) -> list[bytes]:
    values: list[bytes] = rows.column(name).cast(pa.binary()).to_pylist()
    return values


SIZE_COLUMNS = [name for name in _COLUMNS if name != "offset"]
"""Columns of the index that ``sizes`` and its callers need."""


def reason_bytes(reasons: Sequence[str | None]) -> int:
    """Returns the most bytes that the header ``REASON`` adds to a record."""
    longest = max((len(reason.encode()) for reason in reasons if reason), default=None)
    return 0 if longest is None else int(_field(len(REASON)) + _field(longest))


def sizes(
    rows: pa.RecordBatch, sources: Sequence[str], id_prefixes: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Computes the bytes of each document as a separate, uncompressed record batch, which brokers
    compare with ``max.message.bytes``.  The size of a position is derived from its event id.

    Format: Kafka protocol guide, "Record Batch" and "Record" (magic 2, lengths as zigzag varints).
    """
    names = np.array([len(name.encode()) for name in sources], np.int64)
    numbers = rows.column("source").to_numpy()
    source = names[numbers]
    event = _length(rows, "event_id")
    headers = (
        event,
        source,
        event - np.array(id_prefixes, np.int64)[numbers],
        _length(rows, "operation"),
        _length(rows, "table"),
        _length(rows, "records"),
    )
    key = _length(rows, "association")
    body = 3 + _varint(len(HEADERS))  # attributes, differences of time and offset
    new_key = rows.column("new_association")
    if new_key.null_count < len(new_key):
        changes = new_key.is_valid().to_numpy(zero_copy_only=False)
        new = np.where(changes, _length(rows, "new_association"), 0)
        fixed = sum([int(_field(len(name))) for name in KEY_HEADERS])
        body = body + np.where(changes, fixed + _field(key) + _field(new), 0)
        key = np.maximum(key, new)
    total = _field(key) + _field(rows.column("length").to_numpy()) + body
    for name, length in zip(HEADERS, headers, strict=True):
        total = total + _field(len(name)) + _field(length)
    return np.asarray(_BATCH_OVERHEAD + _varint(total) + total, np.int64)


def _length(rows: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    lengths = pc.fill_null(pc.binary_length(rows.column(name)), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def _field(length: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
    return np.asarray(_varint(length) + length, np.int64)


def _varint(number: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
    """Bytes of a number >= 0 as a zigzag varint: seven bits per byte, one bit for the sign."""
    value = np.asarray(number, np.int64)
    limits = (1 << 6, 1 << 13, 1 << 20, 1 << 27)
    return np.asarray(1 + sum((value >= limit).astype(np.int64) for limit in limits), np.int64)
