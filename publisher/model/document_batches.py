"""Documents in columns, on their way from planning to the journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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


def text_bytes(texts: pa.LargeStringArray) -> int:
    """Total bytes of the texts of a column without nulls."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)
    first = texts.offset
    return int(offsets[first + len(texts)] - offsets[first]) if len(texts) else 0
