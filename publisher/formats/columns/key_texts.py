"""Builds object keys of many rows at once, equal to the keys that ``model.keys`` builds one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.keys import KeyForm, KeyPart, KeyProblem, quote

_NEEDS_QUOTES = r"""[,;'+"=\\<>]|\A[ \t\r\n]|[ \t\r\n]\z|\A\z"""


class ColumnKeys(NamedTuple):
    """Canonical keys of rows, null for rows without a valid key, and the problems of those rows."""

    texts: pa.Array
    problems: dict[int, str]


def quote_values(values: pa.Array) -> pa.Array:
    """Quotes the values of a key column that need it; NULL stays NULL."""
    doubtful = pc.fill_null(pc.match_substring_regex(values, _NEEDS_QUOTES), False)
    if not pc.any(doubtful).as_py():
        return values
    texts = (None if text is None else quote(text) for text in values.to_pylist())
    return pa.array(texts, pa.string())


def join_key(names: Sequence[str], values: Sequence[pa.Array]) -> pa.Array:
    """Joins quoted key columns into keys: ``idu=1+role=2``; NULL where a value is NULL."""
    parts = [
        pc.binary_join_element_wise(f"{quote(name)}=", texts, "")
        for name, texts in zip(names, values, strict=True)
    ]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "+")


def canonical_keys(form: KeyForm, names: Sequence[str], values: Sequence[pa.Array]) -> ColumnKeys:
    """Builds keys row by row, for values that need more than quotes, and records problems by row.

    A row with a NULL gets neither a key nor a problem.
    """
    keys: list[str | None] = []
    problems: dict[int, str] = {}
    for row, texts in enumerate(zip(*(column.to_pylist() for column in values), strict=True)):
        key = None
        if None not in texts:
            parts = [KeyPart(n, text, quoted=True) for n, text in zip(names, texts, strict=True)]
            try:
                key = form.canonical(parts)
            except KeyProblem as problem:
                problems[row] = problem.message
        keys.append(key)
    return ColumnKeys(pa.array(keys, pa.string()), problems)
