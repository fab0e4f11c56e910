"""Minimal modifies: an operation is reduced to its difference from the published state of its object.

A consumer that applies the reduced operations has the same objects as one that applies the full ones.  The
state of an object is therefore known only as far as published operations determine it:

* ``<remove-all-values>`` determines the values of its attribute, whatever the consumer had before;
* an ``<add>`` that inserts the row of an object that the job has never published determines all values.

Other values are unknown, and operations on them stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from publisher.model.published_objects import EMPTY, UNKNOWN, PublishedObject, PublishedObjects
from publisher.xds.operations import OperationKind
from publisher.xds.value_edits import ValueEdits, change_values


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


def publish_value(objects: PublishedObjects, association: str, name: str, value: str) -> str | None:
    """Does as ``publish_difference`` for a modify after which an attribute has one value, and is faster.

    Returns the remaining element; ``None`` if nothing has changed."""
    known = objects.state_of(association) or UNKNOWN
    if known.has_only(name, value):
        return None
    after = (value,)
    element = change_values(name, known.values_of(name), after)
    objects.put(association, known.with_values(name, after))
    return element


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
