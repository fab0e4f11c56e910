"""The look-ups of a lane: the current rows of objects, as query-backs published them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.ledger.lane_table import LaneTable
from publisher.model.change import Object
from publisher.model.joined_texts import join_texts

LOOKUP_SCHEMA = pa.schema(
    [
        ("source", pa.int32()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("poll", pa.int64()),
        # LookupAnswer; the row as a JSON object, or the problem
        ("answer", pa.string()),
        ("text", pa.string()),
        # the key under which the row was read, if the key of the object changes; else null
        ("row_key", pa.string()),
    ]
)
"""One row for each look-up of an object, in the order of the look-ups."""

_REPEATING = ["source", "schema", "table", "answer"]
_ASCENDING = ["poll"]
_ROWS_TO_WRITE = 5_000
_ESCAPED = r'["\\\x00-\x1f]'
"""Characters that JSON texts escape."""


class LookupAnswer(StrEnum):
    """Kind of the answer to a look-up."""

    ROW = "row"
    GONE = "gone"
    REFUSED = "refused"


class LookupLog:
    """Writes the answers to the look-ups of one lane; without look-ups it writes no file."""

    def __init__(self, path: Path) -> None:
        self._table = LaneTable(path, LOOKUP_SCHEMA, _REPEATING, _ASCENDING)
        self.count = 0
        """Number of answers that are written."""
        self._singles: list[tuple[object, ...]] = []
        self._pending: list[pa.RecordBatch] = []

    def add(
        self,
        source: int,
        obj: Object,
        poll: int,
        answer: LookupAnswer,
        text: str | None,
        row_key: str | None = None,
    ) -> None:
        """Adds the answer to one look-up."""
        self._singles.append((source, *obj, poll, answer, text, row_key))
        if len(self._singles) >= _ROWS_TO_WRITE:
            self._pack_singles()
            self._write()

    def add_rows(
        self,
        source: int,
        objects: pa.RecordBatch,
        polls: npt.NDArray[np.int64],
        columns: Sequence[str],
        values: Sequence[pa.Array],
    ) -> None:
        """Adds the rows that look-ups of objects found; ``values`` holds the values of each column.

        The keys of these objects do not change."""
        self._pack_singles()
        count = objects.num_rows
        arrays = [
            pa.repeat(pa.scalar(source, pa.int32()), count),
            *objects.columns,
            pa.array(polls),
            pa.repeat(LookupAnswer.ROW.value, count),
            row_texts(columns, values),
            pa.nulls(count, pa.string()),
        ]
        self._pending.append(pa.RecordBatch.from_arrays(arrays, schema=LOOKUP_SCHEMA))
        if sum(batch.num_rows for batch in self._pending) >= _ROWS_TO_WRITE:
            self._write()

    def close(self) -> None:
        """Writes the remaining look-ups and closes the file."""
        self._pack_singles()
        self._write()
        self.abandon()

    def abandon(self) -> None:
        """Closes the file, which may be incomplete."""
        self._table.abandon()

    def _pack_singles(self) -> None:
        if self._singles:
            columns = zip(*self._singles, strict=True)
            arrays = [pa.array(v, f.type) for v, f in zip(columns, LOOKUP_SCHEMA, strict=True)]
            self._pending.append(pa.RecordBatch.from_arrays(arrays, schema=LOOKUP_SCHEMA))
            self._singles.clear()

    def _write(self) -> None:
        if not self._pending:
            return
        rows = pa.Table.from_batches(self._pending)
        self._table.write(rows)
        self.count += rows.num_rows
        self._pending.clear()


def row_texts(columns: Sequence[str], values: Sequence[pa.Array]) -> pa.StringArray:
    """Writes rows as JSON objects, as ``json.dumps`` does."""
    pieces: list[str | pa.StringArray] = []
    for name, column in zip(columns, values, strict=True):
        start = f"{', ' if pieces else '{'}{_quote(name)}: "
        if column.null_count or pa.types.is_list(column.type):
            pieces += [start, _value_texts(column)]
        else:
            pieces += [start + '"', _escape(column), '"']
    return join_texts([*pieces, "}"])


def _value_texts(values: pa.Array) -> pa.StringArray:
    if pa.types.is_list(values.type):
        texts = pa.ListArray.from_arrays(values.offsets, _value_texts(values.values))
        return pc.binary_join_element_wise("[", pc.binary_join(texts, ", "), "]", "")
    return pc.fill_null(pc.binary_join_element_wise('"', _escape(values), '"', ""), "null")


def _escape(values: pa.StringArray) -> pa.StringArray:
    """Escapes texts for JSON."""
    content = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    # found faster than by the regular expression
    if not any(np.any(flags) for flags in (content < ord(" "), *(content == c for c in b'"\\'))):
        return values
    escaped = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), False)
    texts = [_quote(text)[1:-1] for text in values.filter(escaped).to_pylist()]
    return pc.replace_with_mask(values, escaped, pa.array(texts, pa.string()))


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
