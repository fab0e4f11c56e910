"""A consumer that applies documents to objects: those of all systems must lead to the same objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from publisher.consumer import (
    KnownObject,
    Modify,
    Objects,
    Operation,
    RemoveAllValues,
    RemoveValue,
    Value,
)
from publisher.errors import InternalError
from tests.support.company.acts import ATTRIBUTES, Act
from tests.support.company.compare import LOOPBACK_UPDATE, VIEW_UPDATE, kind_of
from tests.support.company.recordings import Operations, attributes_of, changes_of


@dataclass(frozen=True, slots=True)
class KnownState:
    """The state of an object according to documents."""

    exists: bool
    values: Mapping[str, frozenset[Value]]
    """All values of the attributes that documents show."""


def apply_operations(operations: Iterable[Operation], columns: Sequence[str]) -> KnownState:
    """Applies the operations to an object with unknown values.

    Raises ``InternalError`` if an operation removes a value that the object does not have.
    """
    objects = Objects()
    mentioned: set[str] = set()
    for operation in operations:
        if isinstance(operation, Modify):
            _check_removed_values(operation, objects.get(operation.association), mentioned)
            mentioned |= {name for name in attributes_of(operation) if _shows_all(operation, name)}
        else:
            mentioned = set(columns)
        objects.apply(operation)
    row = next(iter(objects.values()), KnownObject("", {}))
    return KnownState(bool(objects), {name: frozenset(row.values(name)) for name in mentioned})


def _shows_all(operation: Modify, attribute: str) -> bool:
    """Returns whether an operation shows all values: a child table may have others than the changed one."""
    changes = changes_of(operation, attribute)
    return "." not in attribute or isinstance(changes[0], RemoveAllValues)


def _check_removed_values(operation: Modify, row: KnownObject | None, mentioned: set[str]) -> None:
    """Raises ``InternalError`` if the first removed value of a mentioned attribute is not its value."""
    for name in attributes_of(operation) & mentioned:
        change = changes_of(operation, name)[0]
        values = row.values(name) if row is not None else ()
        if isinstance(change, RemoveValue) and change.value not in values:
            raise InternalError(
                f"{operation.association}: {name} is {[value.text for value in values]} and should be"
                f" {change.value.text}"
            )


def agreed_objects(acts: Sequence[Act], recorded: Sequence[Sequence[Operations]]) -> int:
    """Counts the objects whose final values are equal in all recordings that mention them.

    Objects that the log names by a view, or ignores as loopback, do not count.  Raises ``InternalError``
    if two recordings disagree.
    """
    numbers_of: dict[tuple[str, tuple[object, ...]], list[int]] = defaultdict(list)
    for number, act in enumerate(acts):
        numbers_of[act.row].append(number)
    uncounted = {act.row for act in acts if kind_of(act) in {VIEW_UPDATE, LOOPBACK_UPDATE}}
    for row, numbers in numbers_of.items():
        if row in uncounted:
            continue
        columns = ATTRIBUTES[row[0]]
        states = [
            apply_operations((operation for n in numbers for operation in system[n]), columns)
            for system in recorded
        ]
        exists = {state.exists for state in states}
        if len(exists) > 1 or any(_disagree(states, column) for column in columns):
            raise InternalError(f"the recordings disagree about {row}: {states}")
    return len(numbers_of.keys() - uncounted)


def _disagree(rows: Sequence[KnownState], column: str) -> bool:
    values = {row.values[column] for row in rows if column in row.values}
    return len(values) > 1
