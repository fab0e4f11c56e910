"""The values of changes as contents of ``<value>`` elements.

Most texts are their own content, which one regular expression tells of a whole column; only the
others are converted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.planning.columnar.rows import Flags, Numbers, Rows, flags_of
from publisher.planning.columnar.templates import Shapes
from publisher.xds.escape import ValueProblem
from publisher.xds.values import Converter


@dataclass(frozen=True, slots=True)
class Contents:
    """One of the two values of all rows of a batch."""

    texts: pa.StringArray
    unwritten: Flags
    """Rows whose value is not written."""
    replaced: pa.StringArray
    """What is written instead of some of the texts."""
    of_row: Numbers
    """Index of it for each row, -1 where the text itself is written."""

    def at(self, rows: Numbers) -> pa.StringArray:
        """The contents in some rows, "" where there is none."""
        texts = self.texts.take(pa.array(rows))
        if self.unwritten[rows].any():
            texts = pc.if_else(pa.array(self.unwritten[rows]), "", texts)
        places = self.of_row[rows]
        if (places >= 0).any():
            contents = self.replaced.take(pa.array(places[places >= 0]))
            texts = pc.replace_with_mask(texts, places >= 0, contents)
        return texts


def contents_of(rows: Rows, shapes: Shapes) -> tuple[Contents, Contents, Flags]:
    """Old and new contents, and the rows with a value that cannot be written."""
    bad = np.zeros(len(rows.rank), np.bool_)
    old = _contents(rows.old, [shape.attribute.old for shape in shapes.shapes], shapes, bad)
    new = _contents(rows.new, [shape.attribute.new for shape in shapes.shapes], shapes, bad)
    return old, new, bad


def converted(texts: pa.StringArray, converter: Converter, bad: Flags) -> pa.StringArray:
    """The contents of one column's texts, null for null; what is wrong is added to ``bad``."""
    single = flags_of(texts.is_valid())
    if converter.verbatim is not None:
        single &= ~flags_of(pc.match_substring_regex(texts, pattern=converter.verbatim))
    if not single.any():
        return texts
    contents = dict(_singly(texts, single, lambda _: converter, bad))
    found = [contents.get(row, "") for row in np.flatnonzero(single).tolist()]
    return pc.replace_with_mask(texts, single, pa.array(found, pa.string()))


def _contents(
    texts: pa.StringArray, converters: list[Converter | None], shapes: Shapes, bad: Flags
) -> Contents:
    """The contents of one of the values; what is wrong is added to ``bad``."""
    written = np.array([converter is not None for converter in converters] + [False])
    unwritten: Flags = ~written[shapes.of_row]
    single = ~unwritten
    for pattern in {converter.verbatim for converter in converters if converter is not None}:
        if pattern is not None:
            here = [found is not None and found.verbatim == pattern for found in converters]
            verbatim = flags_of(pc.match_substring_regex(texts, pattern=pattern))
            single &= ~(verbatim & np.array([*here, False])[shapes.of_row])
    contents = dict(_singly(texts, single, lambda row: converters[shapes.of_row[row]], bad))
    of_row = np.full(len(texts), -1, np.int64)
    of_row[list(contents)] = np.arange(len(contents))
    return Contents(texts, unwritten, pa.array(contents.values(), pa.string()), of_row)


def _singly(
    texts: pa.StringArray, which: Flags, converter_of: Callable[[int], Converter | None], bad: Flags
) -> Iterator[tuple[int, str]]:
    """Row and content of some texts, one by one; what is wrong is left out and added to ``bad``."""
    for row in np.flatnonzero(which).tolist():
        converter = converter_of(row)
        assert converter is not None  # or nothing is written of the row
        try:
            yield row, converter.content(texts[row].as_py())
        except ValueProblem:
            bad[row] = True
