"""Shapes: what stands around key and values of changes that are alike but for these.

Changes are alike that speak of one column of one table with one event type, and have the same of
their values NULL.  What stands around is cut from what the renderer's own parts give for marks, so
nothing of the meaning is said a second time here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from publisher.model.change import Object
from publisher.planning.columnar.eligibility import DELETE
from publisher.planning.columnar.rows import Flags, Numbers, Rows, flags_of
from publisher.planning.renderer import Column, Renderer
from publisher.xds.association import suffix
from publisher.xds.escape import ValueProblem
from publisher.xds.operations import Part, cut_attribute
from publisher.xds.values import Converter

_OLD, _NEW = "\ue000", "\ue001"
_KEY, _ATTRIBUTES = "\ue002", "\ue003"
"""Marks: characters that nobody uses; a name that has one already gives no shape."""


class Attribute(NamedTuple):
    """An attribute, cut at its tags and its values.  A converter is ``None`` where the value is not
    written.  Attributes of one operation with the same tags share them."""

    opening: str
    before: str
    between: str
    after: str
    closing: str
    old: Converter | None
    new: Converter | None


_NOTHING = Attribute("", "", "", "", "", None, None)


class Frame(NamedTuple):
    """A document of one operation, cut at the association's key and at the attributes."""

    operation: str
    suffix: str
    """The association after the key, as plain text; in XML it is the first part of ``middle``."""
    head: str
    middle: str
    tail: str


class Shape(NamedTuple):
    """What stands around key and values."""

    frame: Frame
    attribute: Attribute


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of some changes."""

    shapes: list[Shape]
    of_row: Numbers
    """Index of the shape of each row of the batch, -1 for rows without one."""
    attributes: Numbers
    """A number for the attribute of each shape."""


def shapes_of(rows: Rows, wanted: Flags, renderer: Renderer) -> Shapes:
    """The shapes of the wanted rows; rows that turn out not to be plain have none."""
    nulls = flags_of(rows.old.is_null()), flags_of(rows.new.is_null())
    alike = (rows.table * (len(rows.names) + 1) + rows.column + 1) * 9 + rows.type
    alike = alike * 4 + nulls[0] * 2 + nulls[1]
    places = np.flatnonzero(wanted)
    _, firsts, kinds = np.unique(alike[places], return_index=True, return_inverse=True)
    shapes: list[Shape] = []
    numbers = np.full(len(firsts), -1, np.int64)
    for kind, row in enumerate(places[firsts].tolist()):
        obj = Object(rows.text("schema", row), str(rows.text("table", row)), "")
        frame = frame_of(renderer, obj, int(rows.type[row]))
        attribute = _attribute(rows, row, (bool(nulls[0][row]), bool(nulls[1][row])), obj, renderer)
        if frame is not None and attribute is not None:
            numbers[kind] = len(shapes)
            shapes.append(Shape(frame, attribute))
    of_row = np.full(len(alike), -1, np.int64)
    of_row[places] = numbers[kinds]
    return Shapes(shapes, of_row, _numbered(shape.attribute.opening for shape in shapes))


def _numbered(texts: Iterable[str]) -> Numbers:
    """A number for each different text."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)


def frame_of(renderer: Renderer, obj: Object, event_type: int) -> Frame | None:
    """What stands around key and attributes in documents of one event type and table."""
    rest = suffix(obj.table, obj.schema)
    try:
        text = renderer.plain_text(event_type, obj.table, _KEY + rest, _ATTRIBUTES)
    except ValueProblem:
        return None
    if text.count(_KEY) != 1 or text.count(_ATTRIBUTES) != 1:
        return None
    head, _, after = text.partition(_KEY)
    middle, _, tail = after.partition(_ATTRIBUTES)
    return Frame(renderer.meanings[event_type].operation, rest, head, middle, tail)


def _attribute(
    rows: Rows, row: int, absent: tuple[bool, bool], obj: Object, renderer: Renderer
) -> Attribute | None:
    """The attribute that a change of this kind gives; ``None`` where that is not plain."""
    event_type = int(rows.type[row])
    if event_type == DELETE:
        return _NOTHING
    try:
        column = renderer.column(obj, rows.names[rows.column[row]])
    except ValueProblem:
        return None
    attribute = attribute_of(column, renderer.meanings[event_type].part, *absent)
    if attribute == _NOTHING and event_type != 1:  # no empty modify is published, an empty add is
        return None
    return attribute if column.wanted else None


def attribute_of(column: Column, part: Part, no_old: bool, no_new: bool) -> Attribute | None:
    """What an event type gives for a column; ``None`` where the column's name has a mark."""
    if _OLD in column.name or _NEW in column.name:
        return None
    around = column.convert.around
    text = part(column.name, None if no_old else around(_OLD), None if no_new else around(_NEW))
    if not text:
        return _NOTHING
    opening, inside, closing = cut_attribute(text)
    before, old, rest = _cut(inside, _OLD)
    between, new, after = _cut(rest, _NEW)
    converters = column.convert if old else None, column.convert if new else None
    return Attribute(opening, before, between, after, closing, *converters)


def _cut(text: str, mark: str) -> tuple[str, bool, str]:
    """Text before and after a mark, and whether it is there; without it all of the text is after."""
    before, found, after = text.partition(mark)
    return (before, True, after) if found else ("", False, text)
