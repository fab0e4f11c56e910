"""Minimal modifies: an operation is reduced to its difference from the published state of its object.

A consumer that applies the reduced operations has the same objects as one that applies the full ones.  The
state of an object is therefore known only as far as published operations determine it:

* ``<remove-all-values>`` determines the values of its attribute, whatever the consumer had before;
* an ``<add>`` that inserts the row of an object that the job has never published determines all values.

Other values are unknown, and operations on them stay as they are.
"""

from __future__ import annotations

from typing import NamedTuple

from publisher.model.published_objects import UNKNOWN, PublishedObject
from publisher.xds.operations import OperationKind
from publisher.xds.value_edits import change_values, read_edits, replace_values


class ObjectOperation(NamedTuple):
    """An operation with the rendered elements of its attributes."""

    kind: OperationKind
    attributes: tuple[str, ...]
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
        return MinimalOperation(operation.attributes, None)
    known = before or UNKNOWN
    if operation.kind == "modify-association":
        return MinimalOperation(operation.attributes, known)
    if operation.kind == "add":
        if before is None and operation.inserts_row:
            known = PublishedObject(is_whole=True)
        return _add(before is not None and before.exists, known, operation)
    return _modify(known, operation)


def _add(exists: bool, known: PublishedObject, operation: ObjectOperation) -> MinimalOperation:
    values = dict(known.values)
    changes = not exists
    for edits in read_edits(operation.attributes):
        old = known.values_of(edits.name)
        new = edits.apply(old)
        changes |= new is None or new != old
        if new is not None:
            values[edits.name] = new
    after = PublishedObject(values, known.is_whole)
    return MinimalOperation(operation.attributes if changes else None, after)


def _modify(known: PublishedObject, operation: ObjectOperation) -> MinimalOperation:
    values = dict(known.values)
    elements: list[str] = []
    for edits in read_edits(operation.attributes):
        old = known.values_of(edits.name)
        new = edits.apply(old)
        if new is None:
            elements += edits.elements
        elif old is None:
            elements.append(replace_values(edits.name, new))
        else:
            elements.append(change_values(edits.name, old, new))
        if new is not None:
            values[edits.name] = new
    attributes = tuple(filter(None, elements))
    after = PublishedObject(values, known.is_whole)
    return MinimalOperation(attributes or None, after)
