"""Templates: the text around key and values, shared by changes that differ only in key and values.

Changes share a template if they have the same event type, table and column, and if the same values (old,
new) are NULL.  The renderer renders marks in place of key and values, and the result is cut at the
marks; so no rendering rule is repeated here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from publisher.model.change import Object
from publisher.planning.columnar.eligibility import DELETE, INSERT_FIELD
from publisher.planning.columnar.rows import ChangeColumns, Flags, Numbers, flags_of, group_equal
from publisher.planning.rendered_columns import RenderedColumn
from publisher.planning.renderer import Renderer
from publisher.xds.association import suffix
from publisher.xds.escape import ValueProblem
from publisher.xds.operations import OperationKind, Part, cut_attribute
from publisher.xds.values import Converter

_OLD, _NEW = "\ue000", "\ue001"
_KEY, _ATTRIBUTES = "\ue002", "\ue003"
"""Marks: private characters; a name with one of them gets no template."""


class AttributeTemplate(NamedTuple):
    """An attribute, cut at its tags and its values.

    A converter is ``None`` if the value is not written.  Consecutive attributes of one operation with
    equal tags share the tags."""

    opening: str
    before: str
    between: str
    after: str
    closing: str
    old: Converter | None
    new: Converter | None
    is_multiple: bool = False
    """See ``RenderedColumn``."""


_NOTHING = AttributeTemplate("", "", "", "", "", None, None)


class DocumentTemplate(NamedTuple):
    """A document of one operation, cut at the association's key and at the attributes."""

    operation: OperationKind
    suffix: str
    """The association after the key, as plain text; ``middle`` starts with its XML form."""
    head: str
    middle: str
    tail: str


class ChangeTemplate(NamedTuple):
    """The text around key and values."""

    document: DocumentTemplate
    attribute: AttributeTemplate


@dataclass(frozen=True, slots=True)
class ChangeTemplates:
    """The templates of some changes."""

    templates: list[ChangeTemplate]
    of_row: Numbers
    """Index of the template of each row of the batch; -1 for rows without one."""
    attributes: Numbers
    """Number of each template's attribute; attributes with the same opening tag have the same number."""


def change_templates(rows: ChangeColumns, wanted: Flags, renderer: Renderer) -> ChangeTemplates:
    """Creates the templates of the wanted rows; ineligible rows get none."""
    nulls = flags_of(rows.old.is_null()), flags_of(rows.new.is_null())
    signature = (rows.table * (len(rows.names) + 1) + rows.column + 1) * 9 + rows.type
    signature = signature * 4 + nulls[0] * 2 + nulls[1]
    places = np.flatnonzero(wanted)
    firsts, kinds = group_equal(signature[places])
    templates: list[ChangeTemplate] = []
    numbers = np.full(len(firsts), -1, np.int64)
    for kind, row in enumerate(places[firsts].tolist()):
        obj = Object(rows.text("schema", row), str(rows.text("table", row)), "")
        document = document_template(renderer, obj, int(rows.type[row]))
        attribute = _attribute(rows, row, (bool(nulls[0][row]), bool(nulls[1][row])), obj, renderer)
        if document is not None and attribute is not None:
            numbers[kind] = len(templates)
            templates.append(ChangeTemplate(document, attribute))
    of_row = np.full(len(signature), -1, np.int64)
    of_row[places] = numbers[kinds]
    return ChangeTemplates(
        templates, of_row, _number(template.attribute.opening for template in templates)
    )


def _number(texts: Iterable[str]) -> Numbers:
    """Numbers distinct texts."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)


def document_template(renderer: Renderer, obj: Object, event_type: int) -> DocumentTemplate | None:
    """Creates the template of documents of one event type and table; ``None`` if XML forbids a name."""
    after_key = suffix(obj.table, obj.schema)
    try:
        text = renderer.uniform_document(event_type, obj.table, _KEY + after_key, _ATTRIBUTES)
    except ValueProblem:
        return None
    if text.count(_KEY) != 1 or text.count(_ATTRIBUTES) != 1:
        return None
    head, _, after = text.partition(_KEY)
    middle, _, tail = after.partition(_ATTRIBUTES)
    return DocumentTemplate(renderer.meanings[event_type].operation, after_key, head, middle, tail)


def _attribute(
    rows: ChangeColumns, row: int, absent: tuple[bool, bool], obj: Object, renderer: Renderer
) -> AttributeTemplate | None:
    """Creates the attribute template of a row; ``None`` if the row is ineligible."""
    event_type = int(rows.type[row])
    if event_type == DELETE:
        return _NOTHING
    try:
        column = renderer.column(obj, rows.names[rows.column[row]])
    except ValueProblem:
        return None
    attribute = attribute_template(column, renderer.meanings[event_type].part, *absent)
    if attribute is None or not column.is_published:
        return None
    # an empty modify is not published, an empty add is
    return attribute if attribute.opening or event_type == INSERT_FIELD else None


def attribute_template(
    column: RenderedColumn, part: Part, no_old: bool, no_new: bool
) -> AttributeTemplate | None:
    """Creates the template of a column's attribute; ``None`` if the column's name has a mark."""
    if _OLD in column.name or _NEW in column.name:
        return None
    around = column.convert.around
    text = part(column.name, None if no_old else around(_OLD), None if no_new else around(_NEW))
    if not text:
        return _NOTHING._replace(is_multiple=column.is_multiple)
    opening, inside, closing = cut_attribute(text)
    before, old, remainder = _cut(inside, _OLD)
    between, new, after = _cut(remainder, _NEW)
    converters = column.convert if old else None, column.convert if new else None
    return AttributeTemplate(
        opening, before, between, after, closing, *converters, column.is_multiple
    )


def _cut(text: str, mark: str) -> tuple[str, bool, str]:
    """Splits text at a mark: the text before it, whether it occurs, the text after it (or all text)."""
    before, separator, after = text.partition(mark)
    return (before, True, after) if separator else ("", False, text)
