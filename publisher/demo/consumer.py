"""A consumer that applies documents to rows: documents of all systems must lead to the same rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from publisher.demo.acts import COLUMNS, Act
from publisher.demo.compare import LOOPBACK_UPDATE, VIEW_UPDATE, kind_of
from publisher.demo.recordings import Operation, Operations
from publisher.errors import InternalError


@dataclass(slots=True)
class KnownRow:
    """The state of a row according to documents."""

    exists: bool = False
    values: dict[str, str | None] = field(default_factory=dict)
    """Values of the columns that documents mention."""


def apply_operations(operations: Iterable[Operation], columns: Sequence[str]) -> KnownRow:
    """Applies the operations to a row with unknown values.

    Raises ``InternalError`` if an operation removes a value that the row does not have.
    """
    row = KnownRow()
    for operation in operations:
        row.exists = operation.kind != "delete"
        if operation.kind != "modify":
            row.values = dict.fromkeys(columns)
        for attribute in operation.attributes:
            old = row.values.get(attribute.name)
            if attribute.removed and attribute.name in row.values and (old,) != attribute.removed:
                raise InternalError(
                    f"{operation.association}: {attribute.name} is {old} and should be"
                    f" {attribute.removed[0]}"
                )
            row.values[attribute.name] = attribute.added[0] if attribute.added else None
    return row


def agreed_rows(acts: Sequence[Act], recorded: Sequence[Sequence[Operations]]) -> int:
    """Counts the rows whose final values are equal in all recordings that mention them.

    Rows that the log names by a view, or ignores as loopback, do not count.  Raises ``InternalError``
    if two recordings disagree.
    """
    numbers_of: dict[tuple[str, tuple[object, ...]], list[int]] = defaultdict(list)
    for number, act in enumerate(acts):
        numbers_of[act.row].append(number)
    uncounted = {act.row for act in acts if kind_of(act) in {VIEW_UPDATE, LOOPBACK_UPDATE}}
    for row, numbers in numbers_of.items():
        if row in uncounted:
            continue
        columns = COLUMNS[row[0]]
        states = [
            apply_operations((operation for n in numbers for operation in system[n]), columns)
            for system in recorded
        ]
        exists = {state.exists for state in states}
        if len(exists) > 1 or any(_disagree(states, column) for column in columns):
            raise InternalError(f"the recordings disagree about {row}: {states}")
    return len(numbers_of.keys() - uncounted)


def _disagree(rows: Sequence[KnownRow], column: str) -> bool:
    values = {row.values[column] for row in rows if column in row.values}
    return len(values) > 1
