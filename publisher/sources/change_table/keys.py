"""The object keys of rows: the grammar of keys, each distinct key looked at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.change import Reason
from publisher.keys import quote
from publisher.sources.change_table.rows import Rows
from publisher.sources.change_table.seq import Flags
from publisher.sources.change_table.values import Columns
from publisher.sources.event_log_names import Fault, Key, Names

_QUOTED = r"""[,;'+"=\\<>]|\A[ \t\r\n]|[ \t\r\n]\z|\A\z"""
_NO_KEY = Key("", 0)


class Keys:
    """Reads the keys of the rows of one table."""

    def __init__(self, key: tuple[str, ...], columns: Columns, names: Names) -> None:
        self._key = key
        self._columns = columns
        self._names = names
        self._texts = [quote(columns.name(name)) + "=" for name in key]

    def of(
        self,
        rows: Rows,
        batch_: pa.RecordBatch,
        otherwise: pa.RecordBatch | None,
        which: Flags | None = None,
    ) -> list[Key]:
        """The object key of each row; a row without is rejected.  ``otherwise`` has the values of a
        before image, for key columns that an UPDATE does not supply."""
        parts = []
        absent = np.zeros(len(rows), bool)
        for name, start in zip(self._key, self._texts, strict=True):
            values = batch_.column(name)
            if otherwise is not None and values.null_count:
                values = pc.coalesce(values, otherwise.column(name))
            absent |= values.is_null().to_numpy(zero_copy_only=False)
            parts.append(pc.binary_join_element_wise(start, _quoted(values), ""))
        asked = np.ones(len(rows), bool) if which is None else which
        rows.fault(
            asked & absent,
            Fault(
                Reason.TABLE_KEY,
                f"a key column ({', '.join(self._key)}) is NULL; mend the key, or the source's logging",
            ),
        )
        whole = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "+")
        asked = asked & ~absent
        asked[list(rows.faults)] = False
        encoded = pc.dictionary_encode(whole.filter(pa.array(asked)))
        target = self._columns.target
        known = [self._names.key(target, text) for text in encoded.dictionary.to_pylist()]
        keys = [_NO_KEY] * len(rows)
        codes = encoded.indices.to_pylist()
        for row, code in zip(np.flatnonzero(asked).tolist(), codes, strict=True):
            found = known[code]
            if isinstance(found, Fault):
                rows.faults[row] = found
            else:
                keys[row] = found
        return keys


def _quoted(values: pa.Array) -> pa.Array:
    """Values as the grammar of keys writes them."""
    doubtful = pc.fill_null(pc.match_substring_regex(values, _QUOTED), False)
    if not pc.any(doubtful).as_py():
        return values
    return pa.array([None if v is None else quote(v) for v in values.to_pylist()], pa.string())
