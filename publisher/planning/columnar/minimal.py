"""Reduces documents of columnar planning to their differences from the published state of their objects.

The rules are those of ``planning.minimal``.  Here is only what makes them fast: states are read for many
objects at once, and edits are made from templates and columns of values, without parsing elements.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Decision, Outcome, Reason
from publisher.model.document_batches import Documents, join_batches
from publisher.model.published_objects import UNKNOWN, PublishedObjects
from publisher.planning.columnar.rows import Flags, Numbers
from publisher.planning.columnar.templates import (
    AttributeTemplate,
    ChangeTemplates,
    DocumentTemplate,
)
from publisher.planning.columnar.values import ValueContents
from publisher.planning.columnar.writer import (
    DocumentFields,
    DocumentGroups,
    DocumentWriter,
    escape_keys,
)
from publisher.planning.minimal import ObjectOperation, publish_difference, publish_value
from publisher.xds.escape import escape_text
from publisher.xds.operations import join_attributes
from publisher.xds.value_edits import REMOVE_ALL, ValueEdits, attribute_name, find_values
from publisher.xds.values import Converter


class Reduction:
    """Reduces operations, and collects the decisions on those that change nothing."""

    def __init__(self, objects: PublishedObjects, lane_rows: Numbers) -> None:
        """``lane_rows`` are the row numbers of the changes in the lane."""
        self.prefetch = objects.prefetch
        self._objects = objects
        self._lane_rows = lane_rows
        self._is_limited = not objects.accepts(sys.maxsize)
        self.decisions: list[Decision] = []

    def reduce(self, association: str, operation: ObjectOperation) -> str | None:
        """Reduces an operation to its attributes; ``None`` if nothing has changed."""
        attributes = publish_difference(self._objects, association, operation)
        return None if attributes is None else join_attributes(attributes)

    def replace(self, association: str, name: str, value: str) -> str | None:
        """See ``planning.minimal.publish_value``."""
        return publish_value(self._objects, association, name, value)

    def doubt(self, key: str, template: DocumentTemplate, elements: Sequence[str | None]) -> None:
        """Makes the state of an object unknown if the sink may refuse its last document, which has these
        elements."""
        if not self._is_limited:
            return
        texts = [text for text in elements if text is not None]
        around = sum([len(part) for part in (template.head, template.middle, template.tail)])
        characters = around + _LONGEST_ESCAPE * len(key) + sum(map(len, texts))
        if not texts or self._objects.accepts(_LONGEST_CHARACTER * characters):
            return
        attributes = join_attributes(texts)
        pieces = (
            template.head,
            escape_text(key, "the key"),
            template.middle,
            attributes,
            template.tail,
        )
        if not self._objects.accepts(len("".join(pieces).encode())):
            self._objects.put(f"{key}{template.suffix}", UNKNOWN)

    def keep_changed(self, rows: Numbers, attributes: Sequence[str | None]) -> Flags:
        """Flags the rows with a difference, and decides on the others."""
        kept = np.array([text is not None for text in attributes], np.bool_)
        for row in self._lane_rows[rows[~kept]].tolist():
            self.decisions.append(Decision(row, Outcome.IGNORED, Reason.UNCHANGED))
        return kept


@dataclass(frozen=True, slots=True)
class AttributeEdit:
    """An attribute's template as the edit of the values that it gets."""

    template: AttributeTemplate
    name: str
    clears: bool
    old: tuple[str, str] | None
    """The texts around the content of an old value; ``None`` if it is not written."""
    new: tuple[str, str] | None

    @classmethod
    def of(cls, template: AttributeTemplate) -> AttributeEdit | None:
        """Returns ``None`` for a template without text."""
        if not template.opening:
            return None
        return cls(
            template,
            attribute_name(template.opening),
            REMOVE_ALL in template.before + template.between + template.after,
            _around(template.old),
            _around(template.new),
        )

    def only_value(self, new: str) -> str | None:
        """The value element that the attribute has afterwards, whatever it had before; ``None`` if there may
        be none or several."""
        if self.new is None or not self.clears or self.template.is_multiple:
            return None
        return f"{self.new[0]}{new}{self.new[1]}"

    def edits(self, old: str, new: str) -> ValueEdits:
        """The edits for contents of values; ``new`` may have several ones with the tags between them."""
        template = self.template
        is_present: dict[str, bool] = {}
        if self.old is not None:
            is_present[f"{self.old[0]}{old}{self.old[1]}"] = False
        if self.new is not None:
            values = f"{self.new[0]}{new}{self.new[1]}"
            for value in find_values(values) if self.template.is_multiple else (values,):
                is_present[value] = True
        element = (
            f"{template.opening}{template.before}{old}{template.between}{new}"
            f"{template.after}{template.closing}"
        )
        return ValueEdits(self.name, self.clears, is_present, (element,))


def _around(converter: Converter | None) -> tuple[str, str] | None:
    if converter is None:
        return None
    opening, _, closing = converter.around(_MARK).partition(_MARK)
    return opening, closing


_MARK = "\ue000"
_LONGEST_ESCAPE = len("&quot;")
_LONGEST_CHARACTER = len("\U0001f600".encode())


class MinimalWriter(DocumentWriter):
    """Composes documents of changes with logged values, which are reduced to differences."""

    def __init__(
        self,
        fields: DocumentFields,
        templates: ChangeTemplates,
        contents: tuple[ValueContents, ValueContents],
        reduction: Reduction,
    ) -> None:
        super().__init__(fields, templates, contents)
        self._reduction = reduction
        self._edits = [AttributeEdit.of(item.attribute) for item in templates.templates]

    def documents(self, groups: DocumentGroups) -> Documents:
        """Composes the documents of these groups, without those that change nothing."""
        elements = self._reduce(groups)
        kept = self._reduction.keep_changed(groups.rows, elements)
        if len(elements) == len(groups.starts):
            texts = [text for text in elements if text is not None]
        else:
            ends = [*groups.starts.tolist(), len(elements)]
            parts = (
                [each for each in elements[a:b] if each is not None] for a, b in pairwise(ends)
            )
            texts = [join_attributes(part) for part in parts if part]
        attributes = pa.array(texts, pa.string())
        documents = self._compose(groups.select(kept), partial(self._texts_around, attributes))
        is_sorted = bool(np.all(np.diff(documents.ranks) > 0))
        return documents if is_sorted else join_batches([documents])

    def _texts_around(
        self, attributes: pa.StringArray, groups: DocumentGroups, keys: pa.StringArray
    ) -> pa.StringArray:
        """Composes texts of documents around their attributes."""
        firsts = groups.rows[groups.starts]
        head, middle, tail = (
            self._document_field(firsts, name) for name in ("head", "middle", "tail")
        )
        return pc.binary_join_element_wise(head, escape_keys(keys), middle, attributes, tail, "")

    def _reduce(self, groups: DocumentGroups) -> list[str | None]:
        """Reduces the element of each row, in the order of publishing."""
        rows, firsts = groups.rows, groups.rows[groups.starts]
        keys = self._fields.keys(firsts).to_pylist()
        kinds = self._templates.of_row[rows].tolist()
        templates = [self._templates.templates[kinds[start]].document for start in groups.starts]
        names = [f"{key}{each.suffix}" for key, each in zip(keys, templates, strict=True)]
        self._reduction.prefetch(names)
        old, new = (contents.at(rows).to_pylist() for contents in self._contents)
        elements: list[str | None] = []
        ends = [*groups.starts[1:].tolist(), len(rows)]
        for document, end in enumerate(ends):
            start = len(elements)
            elements += [
                self._element(names[document], kinds[row], old[row], new[row])
                for row in range(start, end)
            ]
            self._reduction.doubt(keys[document], templates[document], elements[start:])
        return elements

    def _element(self, association: str, kind: int, old: str, new: str) -> str | None:
        """Reduces the element of one row; ``None`` if nothing has changed."""
        edit, template = self._edits[kind], self._templates.templates[kind]
        if edit is not None and template.document.operation == "modify":
            value = edit.only_value(new)
            if value is not None:
                return self._reduction.replace(association, edit.name, value)
        edits = () if edit is None else (edit.edits(old, new),)
        operation = ObjectOperation(
            template.document.operation, edits, not template.attribute.is_multiple
        )
        return self._reduction.reduce(association, operation)


class ColumnEdits(NamedTuple):
    """The edits of one attribute by query-backs: with a value, and without."""

    value: AttributeEdit | None
    null: AttributeEdit | None
    contents: list[str | None]
    """For a column with several values, their elements are joined."""

    @classmethod
    def of(
        cls, value: AttributeTemplate, null: AttributeTemplate, contents: list[str | None]
    ) -> ColumnEdits:
        """Creates the edits from the templates of the attribute."""
        return cls(AttributeEdit.of(value), AttributeEdit.of(null), contents)

    def edits(self, row: int) -> ValueEdits | None:
        """The edits of one row; ``None`` if the attribute has no element."""
        content = self.contents[row]
        edit = self.null if content is None else self.value
        return None if edit is None else edit.edits("", content or "")


def reduce_rows(
    reduction: Reduction,
    keys: Sequence[str],
    document: DocumentTemplate,
    columns: Sequence[ColumnEdits],
) -> list[str | None]:
    """Reduces query-backs of one table, one for each key part of an association."""
    associations = [f"{key}{document.suffix}" for key in keys]
    reduction.prefetch(associations)
    texts: list[str | None] = []
    for row, (key, association) in enumerate(zip(keys, associations, strict=True)):
        edits = [each for column in columns if (each := column.edits(row)) is not None]
        operation = ObjectOperation(document.operation, edits, inserts_row=True)
        text = reduction.reduce(association, operation)
        texts.append(text)
        reduction.doubt(key, document, [text])
    return texts
