"""Examples of differences, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from publisher.console import shorten
from publisher.ledger.manifest import SourceEntry
from publisher.ledger.parts import LedgerPart
from publisher.model.change import Outcome, Position
from publisher.model.lanes import SEPARATOR
from publisher.reports.diff.compare_objects import (
    ComparedOperation,
    ComparedRecord,
    differing_attributes,
)
from publisher.reports.diff.ledger_rows import read_texts
from publisher.reports.diff.moved_items import ObjectName
from publisher.reports.diff.operations import parse_operations
from publisher.reports.object_histories import AttributeDiff, operation_diffs
from publisher.reports.selectors import position_text

_LONGEST = 200
_VALUES = 20


@dataclass(frozen=True, slots=True)
class RecordExample:
    """A record that differs; ``first`` and ``second`` are its outcomes, or ``None``."""

    object: str | None
    source: str
    position: str
    first: str | None
    first_reason: str | None
    second: str | None
    second_reason: str | None


@dataclass(frozen=True, slots=True)
class AttributeExample:
    """The changes of an attribute in the first and in the second ledger, or ``None``."""

    attribute: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True)
class OperationExample:
    """An operation that differs: its kind and association in both ledger, or ``None``."""

    object: str | None
    event_id: str
    first: str | None
    first_association: str | None
    second: str | None
    second_association: str | None
    attributes: tuple[AttributeExample, ...]


_Item = tuple[ObjectName, ComparedRecord | ComparedOperation]


class ExampleReader:
    """Describes items of the first and the second ledger; long texts are truncated."""

    def __init__(self, sides: Sequence[Sequence[LedgerPart]]) -> None:
        self._sides = sides
        self._sources: dict[str, SourceEntry] = {
            source.name: source
            for parts in sides
            for part in parts
            for run in part.runs
            for source in run.manifest.sources
        }

    def record(self, first: _Item | None, second: _Item | None) -> RecordExample:
        """Describes a record."""
        obj, item = first or second or _nothing()
        assert isinstance(item, ComparedRecord)
        source, position = self._place(item.position)
        outcomes = [_outcome(each) for each in (first, second)]
        return RecordExample(_name(obj), source, position, *outcomes[0], *outcomes[1])

    def _place(self, text: str) -> tuple[str, str]:
        """The name of the source, and the position as its users write it."""
        rest, *numbers = text.rsplit(SEPARATOR, 3)
        source, _, part = rest.partition(SEPARATOR)
        position = Position(part, *map(int, numbers))
        return shorten(source, _LONGEST), shorten(
            position_text(self._sources[source], position), _LONGEST
        )

    def operation(self, first: _Item | None, second: _Item | None) -> OperationExample:
        """Describes an operation."""
        obj, item = first or second or _nothing()
        described = [_kind(each) for each in (first, second)]
        diffs = [self._diffs(side, each) for side, each in enumerate((first, second))]
        names = list(dict.fromkeys([*diffs[0], *diffs[1]]))
        if first is not None and second is not None:
            changed = differing_attributes(_operation(first), _operation(second))
            names = [name for name in names if name in changed]
        return OperationExample(
            _name(obj),
            shorten(_operation((obj, item)).event_id, _LONGEST),
            *described[0],
            *described[1],
            tuple(
                AttributeExample(
                    shorten(name, _LONGEST),
                    *(_changes_text(of_side.get(name)) for of_side in diffs),
                )
                for name in names[:_VALUES]
            ),
        )

    def _diffs(self, side: int, item: _Item | None) -> dict[str, AttributeDiff]:
        """The changes of an operation by attribute."""
        if item is None:
            return {}
        operation = _operation(item)
        part = self._sides[side][operation.place.part]
        operations = parse_operations(read_texts(part, [operation.place.row])[0])
        if operations is None:
            return {}
        return {diff.attribute: diff for diff in operation_diffs(operations[operation.number])}


def _nothing() -> Any:
    raise AssertionError("an example has an item")


def _operation(item: _Item) -> ComparedOperation:
    assert isinstance(item[1], ComparedOperation)
    return item[1]


def _name(obj: ObjectName) -> str | None:
    """The object as people write it; ``None`` for a record without an object."""
    if not obj.has_object:
        return None
    schema, table, key = obj.group.split(SEPARATOR, 2)
    return shorten(f"{key} of {schema}.{table}" if schema else f"{key} of {table}", _LONGEST)


def _outcome(item: _Item | None) -> tuple[str | None, str | None]:
    if item is None:
        return None, None
    record = item[1]
    assert isinstance(record, ComparedRecord)
    return Outcome(record.outcome).label, record.reason


def _kind(item: _Item | None) -> tuple[str | None, str | None]:
    if item is None:
        return None, None
    operation = _operation(item)
    return operation.kind, shorten(operation.association, _LONGEST)


def _changes_text(diff: AttributeDiff | None) -> str | None:
    """``- old, + new``; ``None`` if the operation does not change the attribute."""
    if diff is None:
        return None
    signs = ["- all"] if diff.removes_all else []
    signs += [f"- {shorten(value, _LONGEST)}" for value in diff.removed[:_VALUES]]
    signs += [f"+ {shorten(value, _LONGEST)}" for value in diff.added[:_VALUES]]
    omitted = max(0, len(diff.removed) - _VALUES) + max(0, len(diff.added) - _VALUES)
    return ", ".join([*signs, *([f"… ({omitted:,} more values)"] if omitted else [])])
