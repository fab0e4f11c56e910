"""Folds documents into the objects that a consumer has after them, by the column."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.row_images import Mask, Places
from publisher.formats.triggerless.multi_values import group_values
from publisher.verify.elements import element_text
from publisher.verify.operation_columns import OperationColumns, OperationKind, ValueChangeKind


@dataclass(frozen=True, slots=True)
class ObjectValues:
    """The objects after some documents, and their values."""

    associations: pa.Array
    names: tuple[str, ...]
    """Names of attributes."""
    objects: Places
    """The place of each value's object in ``associations``."""
    attributes: Places
    """The place of each value's attribute in ``names``."""
    elements: pa.Array
    """The values as elements."""
    mentions: AttributeMentions

    def columns(self, chosen: Places) -> Mapping[str, pa.Array]:
        """Writes the values of the chosen objects as joined elements, by attribute."""
        places = np.full(len(self.associations), -1, np.int64)
        places[chosen] = np.arange(len(chosen))
        at = places[self.objects]
        values = np.flatnonzero(at >= 0)
        # values of one attribute become neighbours, in the order of their objects
        values = values[np.lexsort((at[values], self.attributes[values]))]
        ends = np.cumsum(np.bincount(self.attributes[values], minlength=len(self.names)))
        columns = {}
        for name, of_attribute in zip(self.names, np.split(values, ends)[:-1], strict=True):
            if len(of_attribute):
                elements = self.elements.take(pa.array(of_attribute))
                columns[name] = group_values(at[of_attribute], len(chosen), elements)
        return columns

    def texts(self) -> dict[str, dict[str, set[str]]]:
        """Returns the texts of the values of all objects, by attribute."""
        objects = [dict[str, set[str]]() for _ in range(len(self.associations))]
        for at, attribute, element in zip(
            self.objects.tolist(), self.attributes.tolist(), self.elements.to_pylist(), strict=True
        ):
            texts = objects[at].setdefault(self.names[attribute], set())
            texts.add(element_text(element))
        return dict(zip(self.associations.to_pylist(), objects, strict=True))

    def mentions_of(self, names: Collection[str]) -> dict[str, dict[str, bool]]:
        """Returns the attributes that documents mention of partial objects, see ``ObjectEvidence``."""
        value_set = pa.array([*names], pa.string())
        is_wanted = pc.is_in(self.associations, value_set).to_numpy(zero_copy_only=False)
        mentions = self.mentions
        places = np.flatnonzero(is_wanted & mentions.is_partial)
        of_object: dict[int, dict[str, bool]] = {place: {} for place in places.tolist()}
        for at in np.flatnonzero(is_wanted[mentions.objects]).tolist():
            attribute = self.names[mentions.attributes[at]]
            of_object[int(mentions.objects[at])][attribute] = bool(mentions.is_whole[at])
        associations = self.associations.take(pa.array(places)).to_pylist()
        return dict(zip(associations, of_object.values(), strict=True))


@dataclass(frozen=True, slots=True)
class AttributeMentions:
    """The attributes that documents mention, of objects whose first document is no ``<add>``.

    Their other attributes, and their earlier values, are unknown.
    """

    is_partial: Mask
    """Marks these objects."""
    objects: Places
    attributes: Places
    is_whole: Mask
    """True if all earlier values were removed."""


def fold_operations(operations: OperationColumns, ignored: Mask) -> ObjectValues:
    """Applies operations in their order, except changes of keys and ``ignored`` operations."""
    kinds, objects = operations.kinds, operations.objects
    numbers = np.arange(len(kinds))
    deletes = np.flatnonzero((kinds == OperationKind.DELETE) & ~ignored)
    last_delete = np.full(len(operations.associations), -1)
    last_delete[objects[deletes]] = deletes  # of several numbers the last one stays
    is_effective = ~ignored & (kinds != OperationKind.DELETE) & (numbers > last_delete[objects])
    first = np.full(len(operations.associations), -1)
    backwards = np.flatnonzero(is_effective)[::-1]
    first[objects[backwards]] = backwards
    existing = np.flatnonzero(first >= 0)
    places = np.full(len(first), -1)
    places[existing] = np.arange(len(existing))
    changes = np.flatnonzero(is_effective[operations.operations])
    at = places[objects[operations.operations[changes]]]
    # after a delete nothing is unknown
    is_partial = (kinds[first[existing]] == OperationKind.MODIFY) & (last_delete[existing] < 0)
    values, mentions = _apply(operations, changes, at, is_partial)
    return ObjectValues(
        operations.associations.take(pa.array(existing)),
        operations.names,
        at[values],
        operations.attributes[changes[values]],
        operations.elements.take(pa.array(changes[values])),
        mentions,
    )


def _apply(
    operations: OperationColumns, changes: Places, objects: Places, is_partial: Mask
) -> tuple[Places, AttributeMentions]:
    """Returns the places in ``changes`` of the values that stay, and the mentioned attributes."""
    kinds, count = operations.changes[changes], max(1, len(operations.names))
    slots, slot = np.unique(objects * count + operations.attributes[changes], return_inverse=True)
    cleared = np.full(len(slots), -1)
    clearing = np.flatnonzero(kinds == ValueChangeKind.REMOVE_ALL)
    cleared[slot[clearing]] = clearing
    places = np.flatnonzero(
        (kinds != ValueChangeKind.REMOVE_ALL) & (np.arange(len(kinds)) > cleared[slot])
    )
    elements = operations.elements.take(pa.array(changes[places]))
    last = places[_last_of_each(slot[places], elements)]
    of_slot = slots // count
    mentioned = np.flatnonzero(is_partial[of_slot])
    mentions = AttributeMentions(
        is_partial, of_slot[mentioned], slots[mentioned] % count, cleared[mentioned] >= 0
    )
    return last[kinds[last] == ValueChangeKind.ADD], mentions


def _last_of_each(slots: Places, elements: pa.Array) -> Places:
    """Returns the places of the last change of each value of each attribute of an object."""
    if not len(slots):
        return slots
    is_single = np.bincount(slots)[slots] == 1
    several = np.flatnonzero(~is_single)[::-1]
    encoded = elements.take(pa.array(several)).dictionary_encode()
    values = slots[several] * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy()
    _, last = np.unique(values, return_index=True)
    return np.sort(np.concatenate([np.flatnonzero(is_single), several[last]]))


def find_repeated(event_ids: pa.Array, contents: Sequence[pa.Array]) -> Mask:
    """Marks documents whose event has arrived before, with equal contents."""
    first = pc.index_in(event_ids, event_ids)
    repeats = pc.not_equal(first, pa.array(np.arange(len(event_ids)), pa.int32()))
    is_known: Mask = np.array(pc.and_(repeats, event_ids.is_valid()), np.bool_)
    at = np.flatnonzero(is_known)
    for content in contents if len(at) else ():
        equal = pc.equal(content.take(pa.array(at)), content.take(first.take(pa.array(at))))
        is_known[at] &= pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
    return is_known
