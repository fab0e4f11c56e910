"""Values of both sides in one form: the sorted elements of an attribute, joined to one text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from xml.sax.saxutils import unescape

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.planning.columnar.values import convert_column
from publisher.sources.columns.row_images import Mask
from publisher.sources.triggerless.multi_values import group_values, split_values
from publisher.verify.fold import FoldedObjects, elements_of
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
    wrong = np.zeros(len(texts), bool)
    contents = convert_column(texts, converter, wrong)
    bad[objects[wrong]] = True
    before, after = _around(converter)
    return group_values(objects, count, _join(before, contents, after))


def _around(converter: Converter) -> tuple[str, str]:
    before, _, after = converter.around(_BETWEEN).partition(_BETWEEN)
    return before, after


def _join(before: str, contents: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, contents, after, "")


def published_elements(
    folded: FoldedObjects, associations: Sequence[str], columns: Sequence[str]
) -> list[pa.Array]:
    """Writes the values of published objects as joined elements, by column."""
    places = {name: number for number, name in enumerate(columns)}
    objects: list[list[int]] = [[] for _ in columns]
    elements: list[list[str]] = [[] for _ in columns]
    for number, association in enumerate(associations):
        for name, values in elements_of(folded.objects[association]).items():
            objects[places[name]] += [number] * len(values)
            elements[places[name]] += values
    return [
        group_values(np.array(at, np.int64), len(associations), pa.array(texts, pa.string()))
        for at, texts in zip(objects, elements, strict=True)
    ]


def attributes_of(folded: FoldedObjects, associations: Collection[str]) -> Mapping[str, None]:
    """Names the attributes that published objects have, in the order of their first occurrence."""
    names: dict[str, None] = {}
    for association in associations:
        names |= dict.fromkeys(folded.objects[association].attributes)
    return names


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
