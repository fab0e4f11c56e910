"""The object keys of rows: the grammar of keys, each distinct key looked at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Reason
from publisher.sources.change_table.change_seq import Flags, Integers
from publisher.sources.change_table.rows import ChangeRows
from publisher.sources.change_table.values import DataColumns
from publisher.sources.columns.key_lanes import key_lanes
from publisher.sources.columns.key_texts import join_key, quote_values
from publisher.sources.columns.object_names import Fault, Names

_PLAIN_INTEGER = r"\A(?:-?[1-9][0-9]*|0)\z"
"""As ``keys.integer_text`` leaves it."""


class RowKeys(NamedTuple):
    """The object keys of some rows."""

    codes: Integers
    """Place of each row's key; -1 where it has none."""
    texts: pa.Array
    """The distinct keys."""
    lanes: Integers
    """Their lanes."""

    def of(self, which: Integers) -> tuple[pa.Array, pa.Array]:
        """Keys and lanes of some rows that have one."""
        codes = self.codes[which]
        return self.texts.take(pa.array(codes)), pa.array(self.lanes[codes], pa.int32())

    def text(self, row: int) -> str | None:
        """The key of a row."""
        code = int(self.codes[row])
        found: str | None = None if code < 0 else self.texts[code].as_py()
        return found


class KeyReader:
    """Reads the keys of the rows of one table."""

    def __init__(
        self, key: tuple[str, ...], columns: DataColumns, names: Names, lanes: int
    ) -> None:
        self._key = key
        self._columns = columns
        self._names = names
        self._lanes = lanes
        self._sorted = sorted(key, key=columns.name)  # as canonical keys are
        self._texts = [columns.name(name) for name in self._sorted]
        form = columns.target.form
        found = [form.column(columns.name(name)) for name in self._sorted]
        self._kinds = [kind for _, kind in found]
        self._spelled = [name for name, _ in found] == [columns.name(n) for n in self._sorted]

    def of(
        self,
        rows: ChangeRows,
        batch_: pa.RecordBatch,
        otherwise: pa.RecordBatch | None,
        which: Flags | None = None,
    ) -> RowKeys:
        """The object key of each row; a row without is rejected.  ``otherwise`` has the values of a
        before image, for key columns that an UPDATE does not supply."""
        parts = []
        absent = np.zeros(len(rows), bool)
        plain = np.full(len(rows), self._spelled)
        for name, kind in zip(self._sorted, self._kinds, strict=True):
            values = batch_.column(name)
            if otherwise is not None and values.null_count:
                values = pc.coalesce(values, otherwise.column(name))
            absent |= values.is_null().to_numpy(zero_copy_only=False)
            parts.append(quote_values(values))
            if kind is not None:
                plain &= _plain_numbers(values, kind)
        asked = np.ones(len(rows), bool) if which is None else which
        rows.fault(
            asked & absent,
            Fault(
                Reason.TABLE_KEY,
                f"a key column ({', '.join(self._key)}) is NULL; mend the key, or the source's logging",
            ),
        )
        whole = join_key(self._texts, parts)
        asked = asked & ~absent
        asked[list(rows.faults)] = False
        return self._found(rows, whole, np.flatnonzero(asked), plain)

    def _found(self, rows: ChangeRows, whole: pa.Array, asked: Integers, plain: Flags) -> RowKeys:
        encoded = pc.dictionary_encode(whole.take(pa.array(asked)))
        codes = np.full(len(rows), -1, np.int64)
        codes[asked] = encoded.indices.to_numpy()
        texts: list[str] = encoded.dictionary.to_pylist()
        is_plain = np.zeros(len(texts), bool)
        is_plain[codes[asked]] = plain[asked]
        start, lanes = self._columns.target.hash, np.zeros(len(texts), np.int64)
        good = np.flatnonzero(is_plain)
        if len(good) and self._names.key(self._columns.target, texts[good[0]])[0] != texts[good[0]]:
            good = good[:0]  # the table has another key
        lanes[good] = key_lanes(start, encoded.dictionary.take(pa.array(good)), self._lanes)
        is_plain[:] = False
        is_plain[good] = True
        for code in np.flatnonzero(~is_plain).tolist():
            key = self._names.key(self._columns.target, texts[code])
            if isinstance(key, Fault):
                wrong = np.flatnonzero(codes == code)
                rows.faults.update(dict.fromkeys(wrong.tolist(), key))
                codes[wrong] = -1
            else:
                texts[code], lanes[code] = key
        return RowKeys(codes, pa.array(texts, pa.string()), lanes)


def _plain_numbers(values: pa.Array, kind: str) -> Flags:
    """Which values are the canonical text of a number already."""
    if kind != "int":
        return np.zeros(len(values), bool)
    found: Flags = pc.fill_null(pc.match_substring_regex(values, _PLAIN_INTEGER), False).to_numpy(
        zero_copy_only=False
    )
    return found
