"""Compares the records, documents and operations of one object in two ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from publisher.model.lanes import SEPARATOR
from publisher.reports.diff.pairing import Pairing, count_moved_items, pair_equal, pair_items


class DocumentPlace(NamedTuple):
    """The place of a document: its part of the ledger, its row there, and its length in bytes."""

    part: int
    row: int
    length: int


class ComparedRecord(NamedTuple):
    """A source record.

    ``position`` is its source and position; ``is_known``: the other ledger may have the same record."""

    position: str
    is_known: bool
    outcome: int
    reason: str | None
    records: int = 1
    """Number of source records: two if before image and after image are records of their own."""

    @property
    def identity(self) -> str | None:
        """Identifies the record in both ledger."""
        return self.position if self.is_known else None

    @property
    def meaning(self) -> tuple[int, str | None]:
        """The outcome with its reason."""
        return self.outcome, self.reason


class ComparedDocument(NamedTuple):
    """A document; ``operations`` is the number of its operations, for ``is_known`` see ``ComparedRecord``."""

    event_id: str
    is_known: bool
    digest: bytes
    operations: int
    place: DocumentPlace

    @property
    def identity(self) -> str | None:
        """Identifies the document in both ledger."""
        return self.event_id if self.is_known else None


class ComparedOperation(NamedTuple):
    """An operation; ``values`` has a digest of the changes of each attribute.

    ``event_id`` is that of the document if it has no own one; ``number`` counts in the document from 0."""

    event_id: str
    is_known: bool
    has_own_id: bool
    kind: str
    association: str
    values: tuple[tuple[str, bytes], ...]
    place: DocumentPlace
    number: int

    @property
    def is_numbered(self) -> bool:
        """True if only its number distinguishes it from the first operation of its document."""
        return self.is_known and self.number > 0 and not self.has_own_id

    @property
    def identity(self) -> str | None:
        """Identifies the operation in both ledger."""
        if not self.is_known:
            return None
        return f"{self.event_id}{SEPARATOR}{self.number}" if self.is_numbered else self.event_id

    @property
    def meaning(self) -> tuple[object, ...]:
        """Everything that consumers apply."""
        return self.kind, self.association, self.values


class Aspect(StrEnum):
    """The part of an operation that differs."""

    KEY = "key"
    OPERATION = "operation"
    VALUES = "values"
    ATTRIBUTE_ORDER = "order of attributes"


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of equal, changed and unpaired items."""

    same: int = 0
    changed: int = 0
    only_first: int = 0
    only_second: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.same + other.same,
            self.changed + other.changed,
            self.only_first + other.only_first,
            self.only_second + other.only_second,
        )

    @property
    def differs(self) -> bool:
        """True if anything differs."""
        return bool(self.changed or self.only_first or self.only_second)


@dataclass(frozen=True, slots=True)
class ObjectRows:
    """The records and documents of one object in one ledger, in their order."""

    records: list[ComparedRecord] = field(default_factory=list)
    documents: list[ComparedDocument] = field(default_factory=list)


class ChangedOperation(NamedTuple):
    """An operation that differs between the ledger."""

    first: ComparedOperation
    second: ComparedOperation
    aspects: tuple[Aspect, ...]


@dataclass(frozen=True, slots=True)
class DocumentMatches:
    """Documents with equal bytes, and the others, which are compared by their operations."""

    same: list[tuple[ComparedDocument, ComparedDocument]]
    rest_first: list[ComparedDocument]
    rest_second: list[ComparedDocument]
    counts: Counts


@dataclass(frozen=True, slots=True)
class OperationDifferences:
    """The result for the operations of one object."""

    same: int
    changed: list[ChangedOperation]
    only_first: list[ComparedOperation]
    only_second: list[ComparedOperation]
    moved: int
    """Number of operations that both ledger have, in different orders."""


def match_documents(
    first: Sequence[ComparedDocument], second: Sequence[ComparedDocument]
) -> DocumentMatches:
    """Finds the documents that both ledger have."""
    found = pair_items(first, second, attrgetter("identity"), attrgetter("digest"))
    same = [(one, other) for one, other in found.pairs if one.digest == other.digest]
    equal_first = {one.place for one, _ in same}
    equal_second = {other.place for _, other in same}
    return DocumentMatches(
        same,
        [document for document in first if document.place not in equal_first],
        [document for document in second if document.place not in equal_second],
        Counts(
            len(same), len(found.pairs) - len(same), len(found.only_first), len(found.only_second)
        ),
    )


def pair_records(
    first: Sequence[ComparedRecord], second: Sequence[ComparedRecord]
) -> Pairing[ComparedRecord]:
    """Pairs the records of two ledgers."""
    return pair_items(first, second, attrgetter("identity"), attrgetter("meaning"))


def compare_operations(
    first: Sequence[ComparedOperation],
    second: Sequence[ComparedOperation],
    same: Sequence[tuple[ComparedDocument, ComparedDocument]] = (),
) -> OperationDifferences:
    """Compares operations of documents that differ; ``same`` are the object's equal documents."""
    found = _pair_operations(first, second)
    differences = [(one, other, differing_aspects(one, other)) for one, other in found.pairs]
    changed = [ChangedOperation(*each) for each in differences if each[2]]
    equal = sum(document.operations for document, _ in same)
    places = [
        ((one.place, number), (other.place, number))
        for one, other in same
        for number in range(one.operations)
    ]
    places += [((one.place, one.number), (other.place, other.number)) for one, other in found.pairs]
    return OperationDifferences(
        same=equal + len(found.pairs) - len(changed),
        changed=changed,
        only_first=found.only_first,
        only_second=found.only_second,
        moved=count_moved_items(places),
    )


def _pair_operations(
    first: Sequence[ComparedOperation], second: Sequence[ComparedOperation]
) -> Pairing[ComparedOperation]:
    """Pairs operations by identity; in batches, whose operations have no own ids, also by meaning."""
    found = pair_items(first, second, attrgetter("identity"), attrgetter("meaning"))
    if not any(each.is_numbered for each in (*found.only_first, *found.only_second)):
        return found
    equal = pair_equal(found.only_first, found.only_second, attrgetter("meaning"))
    return replace(equal, pairs=found.pairs + equal.pairs)


def differing_aspects(
    first: ComparedOperation, second: ComparedOperation, *, moved: bool = False
) -> tuple[Aspect, ...]:
    """Names the parts that differ; ``moved``: the operations belong to different objects."""
    aspects = []
    if moved or first.association != second.association:
        aspects.append(Aspect.KEY)
    if first.kind != second.kind:
        aspects.append(Aspect.OPERATION)
    if sorted(first.values) != sorted(second.values):
        aspects.append(Aspect.VALUES)
    elif first.values != second.values:
        aspects.append(Aspect.ATTRIBUTE_ORDER)
    return tuple(aspects)


def differing_attributes(first: ComparedOperation, second: ComparedOperation) -> tuple[str, ...]:
    """Names the attributes whose changes differ."""
    return tuple(sorted({name for name, _ in set(first.values) ^ set(second.values)}))
