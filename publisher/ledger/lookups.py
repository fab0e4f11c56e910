"""The look-ups of a lane: the current rows of objects, as query-backs published them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.ledger.table_writer import TableWriter
from publisher.ledger.tables import LOOKUPS
from publisher.model.change import Object
from publisher.model.joined_texts import join_texts

_SINGLES = 5_000
_ESCAPED = r'["\\\x00-\x1f]'
"""Characters that JSON texts escape."""


class LookupAnswer(StrEnum):
    """Kind of the answer to a look-up."""

    ROW = "row"
    GONE = "gone"
    REFUSED = "refused"


class LookupLog:
    """Collects the answers to the look-ups of one lane in a table."""

    def __init__(self, table: TableWriter) -> None:
        self._table = table
        self._singles: list[tuple[object, ...]] = []

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
        if len(self._singles) >= _SINGLES:
            self.close()

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
        self.close()
        count = objects.num_rows
        arrays = [
            pa.repeat(pa.scalar(source, pa.int32()), count),
            *objects.columns,
            pa.array(polls),
            pa.repeat(LookupAnswer.ROW.value, count),
            row_texts(columns, values),
            pa.nulls(count, pa.string()),
        ]
        self._table.add(pa.Table.from_arrays(arrays, schema=LOOKUPS.schema))

    def close(self) -> None:
        """Adds the remaining look-ups to the table."""
        if self._singles:
            columns = zip(*self._singles, strict=True)
            fields = zip(columns, LOOKUPS.schema, strict=True)
            arrays = [pa.array(values, field.type) for values, field in fields]
            self._table.add(pa.Table.from_arrays(arrays, schema=LOOKUPS.schema))
            self._singles.clear()


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
