"""Minimal modifies: an operation is reduced to its difference from the published state of its object.

A consumer that applies the reduced operations has the same objects as one that applies the full ones.  The
state of an object is therefore known only as far as published operations determine it:

* ``<remove-all-values>`` determines the values of its attribute, whatever the consumer had before;
* an ``<add>`` that inserts the row of an object that the job has never published determines all values.

Other values are unknown, and operations on them stay as they are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.arrays import begins_island, last_mark
from publisher.model.change import Reason
from publisher.model.published_objects import EMPTY, UNKNOWN, PublishedObject, PublishedObjects
from publisher.planning.plan import ChunkPlan
from publisher.planning.texts import (
    KINDS,
    Form,
    OperationNumbers,
    Pieces,
    Writer,
    event_ids,
    position_texts,
)
from publisher.xds.document import operation
from publisher.xds.operations import OperationKind, join_attributes
from publisher.xds.value_edits import ValueEdits, change_values, read_edits


class ObjectOperation(NamedTuple):
    """An operation with its edits of the values of attributes."""

    kind: OperationKind
    edits: Iterable[ValueEdits]
    inserts_row: bool = False
    """True for an ``<add>`` of the object's own row, not only of rows of child tables."""


class MinimalOperation(NamedTuple):
    """The remaining elements of an operation, and the state of its object afterwards.

    ``attributes`` is ``None`` if the operation changes nothing.  The state is ``None`` after a delete.  After
    a change of the key it is the state of the object under its new key."""

    attributes: tuple[str, ...] | None
    after: PublishedObject | None


def minimize(before: PublishedObject | None, operation: ObjectOperation) -> MinimalOperation:
    """Reduces an operation to its difference from the published state.

    ``before`` is ``None`` if the job never published the object, or has deleted it."""
    if operation.kind == "delete":
        return MinimalOperation((), None)
    known = before or UNKNOWN
    if operation.kind == "modify-association":
        return MinimalOperation((), known)
    if operation.kind == "modify":
        return _modify(known, operation.edits)
    if before is None and operation.inserts_row:
        known = EMPTY
    return _add(before is not None and before.exists, known, operation.edits)


def publish_difference(
    objects: PublishedObjects,
    association: str,
    operation: ObjectOperation,
    new_association: str | None = None,
) -> tuple[str, ...] | None:
    """Reduces an operation and updates the state of its object; ``None`` if nothing has changed."""
    attributes, after = minimize(objects.state_of(association), operation)
    if attributes is not None:
        if new_association is not None:
            objects.put(association, None)
        objects.put(new_association or association, after)
    return attributes


def _add(exists: bool, known: PublishedObject, edits: Iterable[ValueEdits]) -> MinimalOperation:
    changes = not exists
    elements: list[str] = []
    for edit in edits:
        elements += edit.elements
        old = known.values_of(edit.name)
        new = edit.apply(old)
        changes |= new is None or new != old
        if new is not None:
            known = known.with_values(edit.name, new)
    return MinimalOperation(tuple(elements) if changes else None, known)


def _modify(known: PublishedObject, edits: Iterable[ValueEdits]) -> MinimalOperation:
    elements: list[str] = []
    for edit in edits:
        old = known.values_of(edit.name)
        new = edit.apply(old)
        if new is None:
            elements += edit.elements
        elif new != old:
            elements.append(change_values(edit.name, old, new))
            known = known.with_values(edit.name, new)
    return MinimalOperation(tuple(elements) or None, known)


def reduce_pieces(
    plan: ChunkPlan,
    form: Form,
    operations: OperationNumbers,
    pieces: Pieces,
    objects: PublishedObjects,
) -> tuple[OperationNumbers, Pieces]:
    """Reduces the operations of a chunk in the order of publishing: a fold over the states of their objects.

    Gives ``unchanged`` to changes of which nothing remains, and names operations and documents by their first
    remaining changes.  Returns a piece for each operation."""
    fields = plan.fields
    field, elements = Writer(plan, form, operations).elements(pieces)
    fold = _Fold(plan, form, objects)
    by_document = groupby(
        zip(operations.document[field].tolist(), field.tolist(), elements.to_pylist(), strict=True),
        key=itemgetter(0),
    )
    first: list[int] = []
    texts: list[str] = []
    for changes in fold.prefetched([[change[1:] for change in group] for _, group in by_document]):
        kept = [(place, each) for place, each in fold.reduce(changes) if each is not None]
        of_operation = groupby(kept, lambda change: int(operations.operation[change[0]]))
        contents: dict[int, str] = {}
        for _, group in of_operation:
            parts = list(group)
            contents[parts[0][0]] = join_attributes([text for _, each in parts for text in each])
        fold.doubt(contents)
        first += contents
        texts += contents.values()
    fold.pass_loopbacks()
    unchanged = fields.row[fold.unchanged].tolist()
    plan.drop_changes(dict.fromkeys(unchanged, -1), Reason.UNCHANGED)
    count = len(first)
    return _rename(plan, operations), Pieces(
        np.array(first, np.int64),
        np.full(count, -1),
        np.arange(count),
        np.ones(count, np.bool_),
        pa.array(texts, pa.string()),
    )


def _rename(plan: ChunkPlan, operations: OperationNumbers) -> OperationNumbers:
    """Names operations and documents by the rows of their first remaining changes."""
    live = plan.live()
    renamed = OperationNumbers(np.full(len(plan.fields), -1), np.full(len(plan.fields), -1))
    for old, new in zip(operations, renamed, strict=True):
        new[live] = plan.fields.row[live][last_mark(begins_island(old[live]))]
    return renamed


class _Fold:
    """Reduces the changes of one document after the other."""

    def __init__(self, plan: ChunkPlan, form: Form, objects: PublishedObjects) -> None:
        fields, names = plan.fields, plan.rules.names
        self._plan = plan
        self._form = form
        self._objects = objects
        self.unchanged: list[int] = []
        """A field of each change of which nothing remains."""
        self._associations = fields.objects.association.to_pylist()
        self._kinds = form.kinds[fields.type].tolist()
        is_single = (fields.column < 0) | ~names.column_flags(lambda each: each.is_multiple)[
            fields.column
        ]
        self._inserts_row = np.bincount(fields.change, is_single, fields.batch.num_rows) > 0
        self._is_limited = not objects.accepts(sys.maxsize)
        self._loopbacks: dict[str, list[int]] = {}
        for row, name in plan.loopbacks():
            self._loopbacks.setdefault(name, []).append(row)

    def prefetched(self, documents: list[list[_ChangeText]]) -> Iterator[list[_ChangeText]]:
        """Yields documents, after the states of their objects are read, for many documents at once."""
        for number, changes in enumerate(documents):
            if number % _PREFETCHED == 0:
                following = documents[number : number + _PREFETCHED]
                self._objects.prefetch([self._association(each[0][0]) for each in following])
            yield changes

    def reduce(self, changes: list[_ChangeText]) -> list[tuple[int, tuple[str, ...] | None]]:
        """Reduces the changes of a document: the elements that remain of each, or ``None``."""
        association = self._association(changes[0][0])
        self._pass_loopbacks(association, int(self._plan.fields.row[changes[-1][0]]))
        reduced = [(place, self._reduce(association, place, text or "")) for place, text in changes]
        self.unchanged += [place for place, text in reduced if text is None]
        return reduced

    def _reduce(self, association: str, place: int, text: str) -> tuple[str, ...] | None:
        kind = KINDS[self._kinds[place]]
        renamed = self._renamed(place)
        edits = [] if renamed else read_edits([found[0] for found in _ELEMENT.finditer(text)])
        inserts = kind == "add" and bool(self._inserts_row[self._plan.fields.change[place]])
        operation = ObjectOperation(kind, edits, inserts)
        elements = publish_difference(self._objects, association, operation, renamed)
        return (text,) if renamed and elements is not None else elements

    def doubt(self, contents: Mapping[int, str]) -> None:
        """Makes the state of an object unknown if the sink may refuse its last document.

        ``contents`` has the content of each operation, by its first field."""
        if not self._is_limited or not contents:
            return
        fields, first = self._plan.fields, next(iter(contents))
        association, renamed = self._association(first), self._renamed(first)
        characters = _AROUND + sum(
            [len(text) + _AROUND + _LONGEST_ESCAPE * len(association) for text in contents.values()]
        )
        if self._objects.accepts(_LONGEST_CHARACTER * characters):
            return
        table = self._plan.rules.names.tables[int(fields.objects.table[fields.object[first]])]
        changes = fields.change[list(contents)]
        ids = event_ids(self._plan, changes, position_texts(self._plan, changes)).to_pylist()
        texts = [
            operation(
                KINDS[self._kinds[place]],
                table.name,
                association,
                [] if renamed else [content],
                event_id if self._form.options.event_id else None,
                renamed,
            )
            for (place, content), event_id in zip(contents.items(), ids, strict=True)
        ]
        if not self._objects.accepts(len(self._form.envelope.document(texts).encode())):
            for name in filter(None, (association, renamed)):
                self._objects.put(name, UNKNOWN)

    def pass_loopbacks(self) -> None:
        """Passes the loopback changes that no document follows."""
        for association in list(self._loopbacks):
            self._pass_loopbacks(association, None)

    def _pass_loopbacks(self, association: str, before: int | None) -> None:
        """After a change that the consumer has made itself the state of the object is unknown."""
        rows = self._loopbacks.get(association)
        if rows is None or (before is not None and rows[0] > before):
            return
        self._objects.put(association, UNKNOWN)
        later = [row for row in rows if before is not None and row > before]
        if later:
            self._loopbacks[association] = later
        else:
            del self._loopbacks[association]

    def _association(self, place: int) -> str:
        return str(self._associations[self._plan.fields.object[place]])

    def _renamed(self, place: int) -> str | None:
        return self._plan.new_associations.get(int(self._plan.fields.row[place]))


_ChangeText = tuple[int, str | None]
"""A field of a change, and the elements of its attributes."""
_ELEMENT = re.compile(r"<(add|modify)-attr .*?</\1-attr>", re.DOTALL)
_PREFETCHED = 2_000
"""Number of documents whose objects are read at once."""
_AROUND = 1_000
"""Characters around an operation and a document, at most: names of classes are short."""
_LONGEST_ESCAPE = len("&quot;")
_LONGEST_CHARACTER = len("\U0001f600".encode())
