"""Compares the published objects of a table with its rows, by key and attribute, as pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.consumer.errors import Origin
from publisher.formats.columns.row_images import Mask, Places, differ

Marks = npt.NDArray[np.bool_]
"""One mark for each column of an object."""


class ResultKind(StrEnum):
    """Result of comparing one object."""

    MISSING = "missing"
    """In the table, but not in the documents, which should show it."""
    SURPLUS = "surplus"
    """In the documents, but not in the table."""
    PERHAPS_SURPLUS = "perhaps-surplus"
    """As ``SURPLUS``, but a row of the table cannot be read, perhaps that of the object."""
    DIFFERENT = "different"
    """Attributes differ."""
    NEVER_PUBLISHED = "never-published"
    """In the table, and no document shows it, or not all of its attributes: it is older than the log."""
    EXPIRED = "expired"
    """As ``NEVER_PUBLISHED``, but documents of the topic have expired, perhaps those of the object."""
    UNSETTLED = "unsettled"
    """Differs, but a change of the object is being published, or hidden by an open transaction."""


FINDINGS = frozenset({ResultKind.MISSING, ResultKind.SURPLUS, ResultKind.DIFFERENT})
"""The results that show that consumers cannot have what the tables have."""


class ObjectStates(NamedTuple):
    """Objects with the values of their attributes, as texts that are equal for equal sets of values."""

    associations: pa.Array
    values: Sequence[pa.Array]

    def with_plain_numbers(self, columns: Collection[int]) -> ObjectStates:
        """Removes zeros from the end of fractions: logs and databases write 1.50 and 1.5."""
        values = [
            plain_numbers(values) if number in columns else values
            for number, values in enumerate(self.values)
        ]
        return ObjectStates(self.associations, values)


class StateDifferences(NamedTuple):
    """The differences of two sides; numbers are places in ``ObjectStates``."""

    missing: Places
    """Objects of the table that are not published."""
    surplus: Places
    """Published objects that are not in the table."""
    changed: Places
    """Places in the table of objects with differing attributes."""
    published: Places
    """Places of these objects among the published ones."""
    differs: Mask
    """The differing attributes of each of them."""


def compare_states(table: ObjectStates, published: ObjectStates, ignored: Mask) -> StateDifferences:
    """Compares the objects of a table with the published ones; both have the same columns.

    ``ignored`` marks the values of the table that no document can have."""
    at = pc.fill_null(pc.index_in(table.associations, published.associations), -1)
    places: Places = at.to_numpy(zero_copy_only=False).astype(np.int64)
    is_known = places >= 0
    both = np.flatnonzero(is_known)
    theirs = places[both]
    differs = np.zeros((len(both), len(table.values)), bool)
    for number, (ours, values) in enumerate(zip(table.values, published.values, strict=True)):
        differs[:, number] = differ(ours.take(pa.array(both)), values.take(pa.array(theirs)))
    differs &= ~ignored[both]
    rows = np.flatnonzero(differs.any(axis=1))
    surplus = np.ones(len(published.associations), bool)
    surplus[theirs] = False
    return StateDifferences(
        np.flatnonzero(~is_known),
        np.flatnonzero(surplus),
        both[rows],
        theirs[rows],
        differs[rows],
    )


def plain_numbers(elements: pa.Array) -> pa.Array:
    """Removes zeros from the end of fractions."""
    for fraction in (r"(\.[0-9]*[1-9])0+", r"()\.0*"):
        pattern = f">(-?[0-9]+){fraction}</value>$"
        elements = pc.replace_substring_regex(elements, pattern, r">\1\2</value>")
    return elements


@dataclass(slots=True)
class ObjectDocuments:
    """Facts about the documents of an object, repeated ones included."""

    origins: list[Origin] = field(default_factory=list)
    event_ids: set[str] = field(default_factory=set)
    is_ended: bool = False
    """True if a document deletes the object, or gives it another key."""

    def add(self, origin: Origin, event_id: str | None) -> None:
        """Adds a document."""
        self.origins.append(origin)
        if event_id is not None:
            self.event_ids.add(event_id)


@dataclass(frozen=True, slots=True)
class ObjectEvidence:
    """Facts that decide what the differences of objects mean."""

    documents: Mapping[str, ObjectDocuments] = field(default_factory=dict)
    mentioned: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    """The attributes that documents mention, for objects whose first document is no ``<add>``, and whether
    all earlier values were removed: other attributes, and earlier values, are unknown."""
    waiting: Collection[str] = ()
    """Objects whose next change is read but not published yet."""
    ledger_run: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Ids of the published documents of each object, as the ledger has them."""
    marks: Mapping[str, int] | None = None
    """The end of each part of the documents before the tables were read; ``None``: none came later."""
    has_expired: bool = False
    """True if the first documents of the topic, or of the runs, are gone."""
    publishes_all: bool = False
    """True if a source publishes every row of its tables, so that every object must have documents."""
    are_hidden: bool = False
    """True if an open transaction hides documents, perhaps those of the object."""

    def origins(self, association: str) -> Sequence[Origin]:
        """Returns the places of an object's documents."""
        documents = self.documents.get(association)
        return () if documents is None else documents.origins

    def is_unsettled(self, association: str) -> bool:
        """Tests whether a change of an object is being published."""
        if self.are_hidden or association in self.waiting:
            return True
        marks = self.marks
        return marks is not None and any(
            origin.number >= marks.get(origin.part, 0) for origin in self.origins(association)
        )

    def has_lost(self, association: str) -> bool:
        """Tests whether documents of an object are in the ledger, but not at the sink."""
        ids = self.ledger_run.get(association, ())
        documents = self.documents.get(association, ObjectDocuments())
        if not documents.event_ids:
            return len(ids) > len(documents.origins)
        return not documents.event_ids.issuperset(ids)

    def knows(self, association: str, attribute: str, *, is_multiple: bool) -> bool:
        """Returns whether documents determine the values of an attribute."""
        mentioned = self.mentioned.get(association)
        if mentioned is None:
            return True
        return mentioned.get(attribute, False) if is_multiple else attribute in mentioned

    def judge_missing(self, association: str) -> ResultKind:
        """Decides about an object that consumers do not have: documents may mention it and still end it."""
        documents = self.documents.get(association, ObjectDocuments())
        is_lost = documents.is_ended if self.has_expired else bool(documents.origins)
        judge = self.judge_present if is_lost else self.judge_absent
        return judge(association, ResultKind.MISSING)

    def judge_absent(self, association: str, kind: ResultKind) -> ResultKind:
        """Decides about an object, or attributes, that documents do not mention."""
        if self.is_unsettled(association):
            return ResultKind.UNSETTLED
        if self.has_expired:
            return ResultKind.EXPIRED
        is_wrong = self.publishes_all or self.has_lost(association)
        return kind if is_wrong else ResultKind.NEVER_PUBLISHED

    def judge_present(self, association: str, kind: ResultKind) -> ResultKind:
        """Decides about an object, or attributes, that documents mention."""
        return ResultKind.UNSETTLED if self.is_unsettled(association) else kind


class ChangedObject(NamedTuple):
    """The result of an object with differing attributes, and a mask of those that the result is about."""

    kind: ResultKind
    columns: Marks


def judge_changed(
    association: str,
    differs: Marks,
    columns: Sequence[str],
    multiple: Collection[str],
    evidence: ObjectEvidence,
) -> ChangedObject:
    """Decides about an object with differing attributes.

    Attributes that documents do not determine count only if nothing else differs, or if documents of the
    object are lost.
    """
    known = differs & np.array(
        [evidence.knows(association, name, is_multiple=name in multiple) for name in columns]
    )
    if (known == differs).all():
        return ChangedObject(evidence.judge_present(association, ResultKind.DIFFERENT), differs)
    kind = evidence.judge_absent(association, ResultKind.DIFFERENT)
    if kind in (ResultKind.UNSETTLED, ResultKind.DIFFERENT) or not known.any():
        return ChangedObject(kind, differs)
    return ChangedObject(ResultKind.DIFFERENT, known)
