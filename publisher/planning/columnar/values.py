"""The values of changes as contents of ``<value>`` elements.

Most texts need no conversion; one regular expression finds them in a whole column.  Only the other
texts are converted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.planning.columnar.characters import (
    is_forbidden,
    is_long,
    is_verbatim,
    present_characters,
)
from publisher.planning.columnar.rows import ChangeColumns, Flags, Numbers, flags_of
from publisher.planning.columnar.templates import ChangeTemplates
from publisher.xds.escape import REFERENCES, VERBATIM, VERBATIM_TRIMMED, ValueProblem
from publisher.xds.values import Converter


@dataclass(frozen=True, slots=True)
class ValueContents:
    """The contents of the old or the new values of a batch."""

    texts: pa.StringArray
    unwritten: Flags
    """Rows without a written value."""
    replaced: pa.StringArray
    """Contents that replace some of the texts."""
    of_row: Numbers
    """Index in ``replaced`` for each row; -1 if the text itself is written."""

    def at(self, rows: Numbers) -> pa.StringArray:
        """The contents of some rows; "" for rows without a written value."""
        texts = self.texts.take(pa.array(rows))
        if self.unwritten[rows].any():
            texts = pc.if_else(pa.array(self.unwritten[rows]), "", texts)
        places = self.of_row[rows]
        if (places >= 0).any():
            contents = self.replaced.take(pa.array(places[places >= 0]))
            texts = pc.replace_with_mask(texts, places >= 0, contents)
        return texts


def convert_values(
    rows: ChangeColumns, templates: ChangeTemplates
) -> tuple[ValueContents, ValueContents, Flags]:
    """Converts old and new values; the last result flags rows with a value that cannot be written."""
    bad = np.zeros(len(rows.rank), np.bool_)
    old = _convert_all(
        rows.old, [template.attribute.old for template in templates.templates], templates, bad
    )
    new = _convert_all(
        rows.new, [template.attribute.new for template in templates.templates], templates, bad
    )
    return old, new, bad


def convert_column(texts: pa.StringArray, converter: Converter, bad: Flags) -> pa.StringArray:
    """Converts the texts of one column, null to null; flags wrong values in ``bad``."""
    contents, single = _escape(texts, converter.verbatim)
    if single.all():
        single = flags_of(texts.is_valid()) & ~_is_verbatim(texts, converter.verbatim)
    if not single.any():
        return contents
    converted = dict(_convert_singly(texts, np.flatnonzero(single), lambda _: converter, bad))
    replaced = [converted.get(row, "") for row in np.flatnonzero(single).tolist()]
    return pc.replace_with_mask(contents, single, pa.array(replaced, pa.string()))


def _is_verbatim(texts: pa.StringArray, pattern: str | None) -> Flags:
    """Flags texts that match the pattern of a converter, whose content is the text itself."""
    if pattern is None:
        return np.zeros(len(texts), np.bool_)
    if pattern == VERBATIM:
        return is_verbatim(texts)
    return flags_of(pc.match_substring_regex(texts, pattern)) & ~is_long(texts)


def _escape(texts: pa.StringArray, pattern: str | None) -> tuple[pa.StringArray, Flags]:
    """Escapes texts as ``escape_permitted`` does; flags texts that the converter must convert itself."""
    if pattern not in (VERBATIM, VERBATIM_TRIMMED):
        return texts, np.ones(len(texts), np.bool_)
    single = is_forbidden(texts)
    if pattern == VERBATIM_TRIMMED:
        texts = pc.utf8_rtrim(texts, " ")
    for character in present_characters(texts, REFERENCES):
        texts = pc.replace_substring(texts, character, REFERENCES[character])
    return texts, single


def _convert_all(
    texts: pa.StringArray,
    converters: list[Converter | None],
    templates: ChangeTemplates,
    bad: Flags,
) -> ValueContents:
    """Converts old or new values; flags wrong values in ``bad``."""
    written = np.array([converter is not None for converter in converters] + [False])
    unwritten: Flags = ~written[templates.of_row]
    changed: list[Numbers] = []
    replaced: list[pa.StringArray] = []
    for pattern in {converter.verbatim for converter in converters if converter is not None}:
        applies = [item is not None and item.verbatim == pattern for item in converters]
        of_pattern = np.flatnonzero(np.array([*applies, False])[templates.of_row])
        is_whole = len(of_pattern) == len(texts)
        verbatim = _is_verbatim(texts if is_whole else texts.take(pa.array(of_pattern)), pattern)
        changing = of_pattern[~verbatim]
        contents, single = _escape(texts.take(pa.array(changing)), pattern)
        converted = dict(
            _convert_singly(
                texts, changing[single], lambda row: converters[templates.of_row[row]], bad
            )
        )
        changed += [changing[~single], np.array([*converted], np.int64)]
        replaced += [contents.filter(pa.array(~single)), pa.array(converted.values(), pa.string())]
    of_row = np.full(len(texts), -1, np.int64)
    rows = np.concatenate([np.zeros(0, np.int64), *changed])
    of_row[rows] = np.arange(len(rows))
    return ValueContents(
        texts, unwritten, pa.concat_arrays([pa.array([], pa.string()), *replaced]), of_row
    )


def _convert_singly(
    texts: pa.StringArray,
    rows: Numbers,
    converter_of: Callable[[int], Converter | None],
    bad: Flags,
) -> Iterator[tuple[int, str]]:
    """Converts some texts one by one; flags wrong values in ``bad`` and omits them."""
    for row in rows.tolist():
        converter = converter_of(row)
        assert converter is not None  # rows without a converter are not written
        try:
            yield row, converter.content(texts[row].as_py())
        except ValueProblem:
            bad[row] = True
