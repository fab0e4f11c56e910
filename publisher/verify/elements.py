"""Values of both sides in one form: the sorted elements of an attribute, joined to one text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import unescape

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.planning.columnar.values import convert_column
from publisher.sources.columns.row_images import Mask
from publisher.sources.triggerless.multi_values import group_values, split_values
from publisher.verify.fold import FoldedObjects, element_of
from publisher.xds.values import Converter

_TAGS = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r' association-ref="([^"]*)"')
_ENTITIES = {"&quot;": '"', "&#10;": "\n", "&#13;": "\r", "&#9;": "\t"}
_BETWEEN = "\x00"
_SHOWN = 1_000
"""Maximum number of characters of a value that people see."""


def table_elements(
    texts: pa.Array, converter: Converter, bad: Mask, *, is_multiple: bool
) -> pa.Array:
    """Converts a column of a table to joined elements; flags values that no document can have in ``bad``."""
    count = len(texts)
    objects = np.arange(count)
    if is_multiple:
        lists = split_values(texts)
        objects = np.repeat(
            objects, pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        )
        texts = lists.flatten()
    distinct = texts.dictionary_encode()  # most columns repeat their values
    wrong = np.zeros(len(distinct.dictionary), bool)
    contents = convert_column(distinct.dictionary, converter, wrong)
    before, after = _around(converter)
    elements = _join(before, contents, after).take(distinct.indices)
    if wrong.any():
        is_wrong = pa.array(wrong).take(distinct.indices)
        bad[objects[pc.fill_null(is_wrong, False).to_numpy(zero_copy_only=False)]] = True
    return group_values(objects, count, elements)


def _around(converter: Converter) -> tuple[str, str]:
    before, _, after = converter.around(_BETWEEN).partition(_BETWEEN)
    return before, after


def _join(before: str, contents: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, contents, after, "")


def published_elements(
    folded: FoldedObjects, associations: Sequence[str]
) -> Mapping[str, pa.Array]:
    """Writes the values of published objects as joined elements, by attribute."""
    objects: dict[str, list[int]] = {}
    elements: dict[str, list[str]] = {}
    for number, association in enumerate(associations):
        for name, values in folded.objects[association].attributes.items():
            objects.setdefault(name, []).extend([number] * len(values))
            elements.setdefault(name, []).extend([element_of(value) for value in values])
    return {
        name: group_values(
            np.array(at, np.int64), len(associations), pa.array(elements[name], pa.string())
        )
        for name, at in objects.items()
    }


def readable(joined: str | None) -> list[str]:
    """Splits joined elements to the texts of their values, for people; long texts are truncated."""
    if joined is None:
        return []
    elements = split_values(pa.array([joined], pa.string()))[0].as_py()
    return [_text(element) for element in elements]


def _text(element: str) -> str:
    text = unescape(_TAGS.sub("", element), _ENTITIES)
    reference = _REFERENCE.search(element)
    text = text or (unescape(reference[1], _ENTITIES) if reference else "")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
