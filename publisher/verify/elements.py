"""Values of both sides in one form: the sorted elements of an attribute, joined to one text."""

from __future__ import annotations

import json
import re
from xml.sax.saxutils import unescape

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.consumer.operations import Value, ValueType
from publisher.formats.columns.row_images import Mask
from publisher.formats.triggerless.multi_values import group_values, split_values
from publisher.planning.values import convert_column
from publisher.xds.escape import attribute_text, escape_permitted
from publisher.xds.values import Converter

_TAGS = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r' association-ref="([^"]*)"')
_COMPONENT = re.compile(r'<component name="([^"]*)"[^>]*>([^<]*)</component>')
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
    contents = convert_column(distinct.dictionary, converter)
    before, after = _around(converter)
    elements = _join(before, contents.texts, after).take(distinct.indices)
    if contents.problems:
        is_wrong = pc.is_in(distinct.indices, pa.array(contents.problems, pa.int32()))
        bad[objects[is_wrong.to_numpy(zero_copy_only=False)]] = True
    return group_values(objects, count, elements)


def _around(converter: Converter) -> tuple[str, str]:
    before, _, after = converter.around(_BETWEEN).partition(_BETWEEN)
    return before, after


def _join(before: str, contents: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, contents, after, "")


_OPENINGS = {None: "<value"} | {kind: f'<value type="{kind}"' for kind in ValueType}


def element_of(value: Value) -> str:
    """Writes a value as the element that documents of this program have for it."""
    opening, content = _OPENINGS[value.type], escape_permitted(value.text)
    if value.association_ref is None and not value.components:
        return f"{opening}>{content}</value>"
    for part in value.components:
        name, text = attribute_text(part.name), escape_permitted(part.text)
        content += f'<component name="{name}"{_reference(part.association_ref)}>{text}</component>'
    return f"{opening}{_reference(value.association_ref)}>{content}</value>"


def _reference(association: str | None) -> str:
    return "" if association is None else f' association-ref="{attribute_text(association)}"'


def readable(joined: str | None) -> list[str]:
    """Splits joined elements to the texts of their values, for people; long texts are truncated."""
    if joined is None:
        return []
    elements = split_values(pa.array([joined], pa.string()))[0].as_py()
    texts = map(element_text, elements)
    return [text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…" for text in texts]


def element_text(element: str) -> str:
    """Returns the text of a value; of a reference without text its target, of components JSON."""
    components = {_plain(name): _plain(text) for name, text in _COMPONENT.findall(element)}
    if components:
        return json.dumps(components, ensure_ascii=False)
    text = _plain(_TAGS.sub("", element))
    reference = _REFERENCE.search(element)
    return text or (_plain(reference[1]) if reference else "")


def _plain(text: str) -> str:
    return unescape(text, _ENTITIES) if "&" in text else text
