"""The values of columns as contents of ``<value>`` elements.

Most texts need no conversion; one regular expression finds them in a whole column.  Only the other texts are
converted one by one, each distinct text once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.arrays import NO_ROWS, BoolArray, Int64Array, booleans
from publisher.planning.characters import is_forbidden, is_long, is_verbatim, present_characters
from publisher.planning.fields import join_columns
from publisher.planning.names import SourceNames
from publisher.xds.escape import REFERENCES, VERBATIM, VERBATIM_TRIMMED, ValueProblem
from publisher.xds.values import Converter

_NO_TEXTS = pa.array([], pa.string())


class Contents(NamedTuple):
    """The contents of values, null to null, and the problems of those that cannot be written by row."""

    texts: pa.StringArray
    problems: dict[int, ValueProblem]


def convert_fields(texts: pa.StringArray, column: Int64Array, names: SourceNames) -> Contents:
    """Converts the values of published columns, which are given by number."""
    converters = [
        each.rendered.convert
        for each in names.columns
        if each.rendered is not None and each.is_published
    ]
    number = names.column_flags(lambda each: each.rendered is not None and each.is_published)
    of_column = np.where(number, np.cumsum(number) - 1, -1)
    return _convert(texts, of_column[column], converters)


def convert_column(texts: pa.StringArray, converter: Converter) -> Contents:
    """Converts the values of one column."""
    return _convert(texts, np.zeros(len(texts), np.int64), [converter])


def _convert(
    texts: pa.StringArray, number: Int64Array, converters: Sequence[Converter]
) -> Contents:
    """Converts each text by the converter with its number; -1: the text is not written."""
    problems: dict[int, ValueProblem] = {}
    rows, contents = [NO_ROWS], [_NO_TEXTS]
    for pattern in dict.fromkeys(converter.verbatim for converter in converters):
        has_pattern = np.array([*(each.verbatim == pattern for each in converters), False])
        of_pattern = np.flatnonzero(has_pattern[number])
        chosen = texts if len(of_pattern) == len(texts) else texts.take(pa.array(of_pattern))
        odd = booleans(chosen.is_valid()) & ~_is_verbatim(chosen, pattern)
        if not odd.any():
            continue
        of_pattern = of_pattern[odd]
        escaped, is_single = _escape(chosen.filter(pa.array(odd)), pattern)
        single, converted = _convert_singly(
            texts, of_pattern[is_single], number, converters, problems
        )
        rows += [of_pattern[~is_single], single]
        contents += [escaped.filter(pa.array(~is_single)), pa.array(converted, pa.string())]
    return Contents(_replace(texts, np.concatenate(rows), join_columns(contents)), problems)


def _is_verbatim(texts: pa.StringArray, pattern: str | None) -> BoolArray:
    """Flags texts that match the pattern of a converter, whose content is the text itself."""
    if pattern is None:
        return np.zeros(len(texts), np.bool_)
    if pattern == VERBATIM:
        return is_verbatim(texts)
    return booleans(pc.match_substring_regex(texts, pattern)) & ~is_long(texts)


def _escape(texts: pa.StringArray, pattern: str | None) -> tuple[pa.StringArray, BoolArray]:
    """Escapes texts as ``escape_permitted`` does; flags texts that the converter must convert itself."""
    if pattern not in (VERBATIM, VERBATIM_TRIMMED):
        return texts, np.ones(len(texts), np.bool_)
    is_single = is_forbidden(texts)
    if pattern == VERBATIM_TRIMMED:
        texts = pc.utf8_rtrim(texts, " ")
    for character in present_characters(texts, REFERENCES):
        texts = pc.replace_substring(texts, character, REFERENCES[character])
    return texts, is_single


def _convert_singly(
    texts: pa.StringArray,
    rows: Int64Array,
    number: Int64Array,
    converters: Sequence[Converter],
    problems: dict[int, ValueProblem],
) -> tuple[Int64Array, list[str]]:
    """Converts some texts; returns the rows without a problem, and their contents."""
    known: dict[tuple[int, str], str | ValueProblem] = {}
    kept: list[int] = []
    contents: list[str] = []
    pairs = zip(number[rows].tolist(), texts.take(pa.array(rows)).to_pylist(), strict=True)
    for row, pair in zip(rows.tolist(), pairs, strict=True):
        content = known.get(pair)
        if content is None:
            try:
                content = converters[pair[0]].content(pair[1])
            except ValueProblem as problem:
                content = problem
            known[pair] = content
        if isinstance(content, str):
            kept.append(row)
            contents.append(content)
        else:
            problems[row] = content
    return np.array(kept, np.int64), contents


def _replace(texts: pa.StringArray, rows: Int64Array, contents: pa.StringArray) -> pa.StringArray:
    """Replaces the texts of some rows."""
    if not len(rows):
        return texts
    is_replaced = np.zeros(len(texts), np.bool_)
    is_replaced[rows] = True
    return pc.replace_with_mask(texts, is_replaced, contents.take(pa.array(np.argsort(rows))))
