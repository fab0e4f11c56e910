"""The result of a comparison: counts and a few examples of each kind of difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from publisher.ledger.parts import LedgerPart
from publisher.model.change import Outcome
from publisher.reports.diff.compare_objects import (
    Aspect,
    ComparedOperation,
    ComparedRecord,
    Counts,
    OperationDifferences,
    differing_aspects,
    differing_attributes,
)
from publisher.reports.diff.examples import (
    ExampleReader,
    OperationExample,
    RecordExample,
)
from publisher.reports.diff.moved_items import MovedItems, ObjectName
from publisher.reports.diff.pairing import Pairing

ONLY_FIRST = "only in the first"
ONLY_SECOND = "only in the second"


@dataclass(frozen=True, slots=True)
class LedgerSummary:
    """One of the compared ledger."""

    ledger: str
    runs: int
    records: int
    documents: int


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """Records that differ in one way."""

    change: str
    records: int
    examples: tuple[RecordExample, ...]


@dataclass(frozen=True, slots=True)
class OperationDifference:
    """Operations that differ in one way; ``attributes`` counts the attributes that differ."""

    change: str
    operations: int
    attributes: dict[str, int]
    examples: tuple[OperationExample, ...]


@dataclass(frozen=True, slots=True)
class LedgerDiff:
    """The differences of two ledgers.

    ``moved`` is the number of operations that both ledger have, but in different orders."""

    first: LedgerSummary
    second: LedgerSummary
    objects: Counts
    records: Counts
    operations: Counts
    documents: Counts
    moved: int
    record_differences: tuple[RecordDifference, ...]
    operation_differences: tuple[OperationDifference, ...]

    @property
    def differs(self) -> bool:
        """True if anything differs."""
        counts = (self.objects, self.records, self.operations, self.documents)
        return bool(self.moved) or any(each.differs for each in counts)


class _Example(NamedTuple):
    """An item of the first and of the second ledger, with their objects."""

    first: tuple[ObjectName, ComparedRecord | ComparedOperation] | None
    second: tuple[ObjectName, ComparedRecord | ComparedOperation] | None


@dataclass(slots=True)
class _Difference:
    count: int = 0
    attributes: Counter[str] = field(default_factory=Counter)
    examples: list[_Example] = field(default_factory=list)


class DifferenceBuilder:
    """Collects the differences of objects."""

    def __init__(
        self, sides: Sequence[Sequence[LedgerPart]], moved: MovedItems, examples: int
    ) -> None:
        self._reader = ExampleReader(sides)
        self._limit = examples
        self._moved_items = moved
        self._objects = self._records = self._operations = self._documents = Counts()
        self._moved = 0
        self._of_records: dict[str, _Difference] = {}
        self._of_operations: dict[str, _Difference] = {}

    def add_same(self, *, objects: int, records: int, documents: int, operations: int) -> None:
        """Adds objects that are the same in both ledger."""
        self._objects += Counts(objects)
        self._records += Counts(records)
        self._documents += Counts(documents)
        self._operations += Counts(operations)

    def add_object(
        self,
        obj: ObjectName,
        *,
        documents: Counts,
        records: Pairing[ComparedRecord],
        operations: OperationDifferences,
    ) -> None:
        """Adds an object that is not the same in both ledger."""
        if obj.has_object and not obj.is_alone:
            self._objects += Counts(changed=1)
        self._documents += documents
        self._moved += operations.moved
        for one, other in records.pairs:
            self._add_record(_Example((obj, one), (obj, other)))
        self._operations += Counts(operations.same)
        for change in operations.changed:
            example = _Example((obj, change.first), (obj, change.second))
            self._add_changed_operation(example, change.first, change.second, change.aspects)
        for side in (0, 1):
            alone: list[ComparedRecord | ComparedOperation] = []
            alone += records.only_second if side else records.only_first
            alone += operations.only_second if side else operations.only_first
            for item in alone:
                self._add_alone(side, obj, item)

    def _add_alone(
        self, side: int, obj: ObjectName, item: ComparedRecord | ComparedOperation
    ) -> None:
        if item.is_known:
            self._moved_items.add(side, obj, item)
        else:
            self._moved_items.add_alone(side, obj)
            self._add_only(side, obj, item)

    def finish(self, first: LedgerSummary, second: LedgerSummary) -> LedgerDiff:
        """Pairs items over all objects, and builds the result."""
        for found in self._moved_items.pair():
            for one, other in found.pairs:
                example = _Example((one.object, one.item), (other.object, other.item))
                if isinstance(one.item, ComparedOperation):
                    assert isinstance(other.item, ComparedOperation)
                    aspects = differing_aspects(one.item, other.item, moved=True)
                    self._add_changed_operation(example, one.item, other.item, aspects)
                else:
                    self._add_record(example)
            for side, alone in enumerate((found.only_first, found.only_second)):
                for each in alone:
                    self._add_only(side, each.object, each.item)
        return LedgerDiff(
            first,
            second,
            self._objects + self._moved_items.count_objects(),
            self._records,
            self._operations,
            self._documents,
            self._moved,
            tuple(
                RecordDifference(
                    change,
                    found.count,
                    tuple(self._reader.record(*each) for each in found.examples),
                )
                for change, found in _largest_first(self._of_records)
            ),
            tuple(
                OperationDifference(
                    change,
                    found.count,
                    dict(found.attributes.most_common()),
                    tuple(self._reader.operation(*each) for each in found.examples),
                )
                for change, found in _largest_first(self._of_operations)
            ),
        )

    def _add_record(self, example: _Example) -> None:
        """Adds a record of both ledger."""
        assert example.first is not None
        assert example.second is not None
        (obj, one), (partner, other) = example.first, example.second
        assert isinstance(one, ComparedRecord)
        assert isinstance(other, ComparedRecord)
        records = max(one.records, other.records)
        change = (
            "" if one.meaning == other.meaning else f"{outcome_text(one)} → {outcome_text(other)}"
        )
        if obj.group != partner.group and obj.has_object and partner.has_object:
            change = f"{change or 'the same outcome'}, of another object"
        if change:
            self._records += Counts(changed=records)
            self._add(self._of_records, change, example, records)
        else:
            self._records += Counts(records)

    def _add_changed_operation(
        self,
        example: _Example,
        first: ComparedOperation,
        second: ComparedOperation,
        aspects: Sequence[Aspect],
    ) -> None:
        self._operations += Counts(changed=1)
        found = self._add(self._of_operations, ", ".join(aspects), example)
        found.attributes.update(differing_attributes(first, second))

    def _add_only(
        self, side: int, obj: ObjectName, item: ComparedRecord | ComparedOperation
    ) -> None:
        count = item.records if isinstance(item, ComparedRecord) else 1
        counts = Counts(only_second=count) if side else Counts(only_first=count)
        example = _Example(None, (obj, item)) if side else _Example((obj, item), None)
        place = ONLY_SECOND if side else ONLY_FIRST
        if isinstance(item, ComparedRecord):
            self._records += counts
            self._add(self._of_records, f"{outcome_text(item)}, {place}", example, count)
        else:
            self._operations += counts
            self._add(self._of_operations, f"{item.kind}, {place}", example)

    def _add(
        self, differences: dict[str, _Difference], change: str, example: _Example, count: int = 1
    ) -> _Difference:
        found = differences.setdefault(change, _Difference())
        found.count += count
        if len(found.examples) < self._limit:
            found.examples.append(example)
        return found


def outcome_text(record: ComparedRecord) -> str:
    """The outcome with its reason."""
    reason = f" ({record.reason})" if record.reason else ""
    return Outcome(record.outcome).label + reason


def _largest_first(differences: dict[str, _Difference]) -> list[tuple[str, _Difference]]:
    return sorted(differences.items(), key=lambda entry: (-entry[1].count, entry[0]))
