"""Finds records whose event id belongs to another record, in all partitions of the topics together.

Consumers refuse such a record, because one of the two documents would be lost.  Only the hashes of the
ids are compared, until some are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.consumer.errors import Origin
from publisher.formats.triggerless.hashing import text_hashes
from publisher.verify.documents import DocumentPart
from publisher.verify.results import UnreadableDocument

Hashes = npt.NDArray[np.uint64]


def event_hashes(rows: pa.RecordBatch) -> Hashes:
    """Returns the hashes of the event ids of documents; heartbeats have none."""
    return text_hashes(rows.column("event_id").filter(_has_event(rows)))


def find_conflicts(
    parts: Sequence[tuple[DocumentPart, Path]], examples: int
) -> tuple[int, tuple[UnreadableDocument, ...]]:
    """Counts the records whose event id belongs to another record before, and describes the first.

    ``parts`` are parts of the documents, each with the file of its ``event_hashes``."""
    hashes = np.concatenate([np.zeros(0, np.uint64), *(np.load(file) for _, file in parts)])
    hashes.sort()
    repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    if not len(repeated):
        return 0, ()
    seen: dict[str, tuple[object, Origin]] = {}
    conflicts: list[UnreadableDocument] = []
    count = 0
    for part, file in parts:
        if not np.isin(np.load(file), repeated).any():
            continue
        for id_, content, origin in _events(part, repeated):
            first, place = seen.setdefault(id_, (content, origin))
            if first != content:
                count += 1
                if len(conflicts) < examples:
                    problem = f"event {id_} belongs to another document, at {place}"
                    conflicts.append(UnreadableDocument(str(origin), problem))
    return count, tuple(conflicts)


def _events(part: DocumentPart, wanted: Hashes) -> Iterator[tuple[str, object, Origin]]:
    """Yields the id of each event with one of these hashes, its keys and content, and its place."""
    for rows in part.read():
        events = rows.filter(_has_event(rows))
        found = events.filter(pa.array(np.isin(event_hashes(rows), wanted)))
        for row in found.to_pylist():
            changed = (row["key_from"], row["key_to"])
            keys = (row["association"],) if changed == (None, None) else changed
            content = keys, hashlib.blake2b(row["data"]).digest()
            yield row["event_id"], content, Origin(part.name, row["number"])


def _has_event(rows: pa.RecordBatch) -> pa.Array:
    has_key = pc.not_equal(pc.fill_null(rows.column("association"), ""), "")
    return pc.and_(has_key, rows.column("event_id").is_valid())
