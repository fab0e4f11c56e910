"""Compares the documents of several recordings of the same acts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from publisher.demo.acts import COLUMNS, Act
from publisher.demo.recordings import Attribute, Operation, Operations
from publisher.model.change import QUERY_BACK, Reason


class ActKind(NamedTuple):
    """The kind of change to a row."""

    what: str
    types: str
    """Event types of such a change in the log."""


INSERTED = ActKind("insert", "1")
INSERTED_READ = ActKind("insert", "5 (row query-back)")
INSERTED_COLUMNS_READ = ActKind("insert", "7 (field query-back)")
CHANGED = ActKind("update", "2 (old and new value)")
REPLACED = ActKind("update", "3 (new value)")
READ = ActKind("update", "6 (row query-back)")
COLUMNS_READ = ActKind("update", "8 (field query-back)")
MIXED = ActKind("update", "2, 3, 8")
DELETED = ActKind("delete", "4")
RENEWED = ActKind("update, delete, insert", "6, 3, 4, 1")
RENEWED_READ = ActKind("update, delete, insert", "2, 4, 5")
LATE = ActKind("update before a further one", "6, 8")
VIEW = ActKind("update through a view", "any")
LOOPBACK = ActKind("update by the driver's user", "any")
KINDS = (
    *(INSERTED, INSERTED_READ, INSERTED_COLUMNS_READ),
    *(CHANGED, REPLACED, READ, COLUMNS_READ, MIXED),
    *(DELETED, RENEWED, RENEWED_READ, LATE, VIEW, LOOPBACK),
)
"""All kinds, in the order of display."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The form of one system's documents for some acts."""

    form: str
    alike: str
    """A letter; cells of a line with the same letter have the same documents, value for value."""


@dataclass(frozen=True, slots=True)
class Line:
    """Acts of one kind."""

    kind: ActKind
    acts: int
    cells: tuple[Cell, ...]
    """Cells by system."""


def lines(acts: Sequence[Act], recorded: Sequence[Sequence[Operations]]) -> list[Line]:
    """Groups the acts by kind, with the form of each system's documents; the log comes first."""
    last = {act.row: number for number, act in enumerate(acts)}
    groups: dict[ActKind, list[int]] = defaultdict(list)
    for number, act in enumerate(acts):
        kind = kind_of(act)
        again = last[act.row] != number and kind not in {VIEW, LOOPBACK}
        groups[LATE if again and act.types & QUERY_BACK else kind].append(number)
    return [_line(kind, groups[kind], acts, recorded) for kind in KINDS if groups[kind]]


def kind_of(act: Act) -> ActKind:
    """Determines which of ``KINDS`` an act is."""
    if act.events[0].reason is Reason.LOOPBACK:
        return LOOPBACK
    if act.events[0].table_name.startswith("view_"):
        return VIEW
    if len(act.changes) > 1:
        return RENEWED_READ if 5 in act.types else RENEWED
    (change,) = act.changes
    if change.after is None:
        return DELETED
    if change.before is None:
        return _insert_kind(act.types)
    return _update_kind(act.types)


def _insert_kind(types: frozenset[int]) -> ActKind:
    if 5 in types:
        return INSERTED_READ
    return INSERTED_COLUMNS_READ if 7 in types else INSERTED


def _update_kind(types: frozenset[int]) -> ActKind:
    if 6 in types:
        return READ
    if types == {2, 3, 8}:
        return MIXED
    if 8 in types:
        return COLUMNS_READ
    return REPLACED if 3 in types else CHANGED


def _line(
    kind: ActKind,
    numbers: Sequence[int],
    acts: Sequence[Act],
    systems: Sequence[Sequence[Operations]],
) -> Line:
    documents_of = [[system[number] for number in numbers] for system in systems]
    firsts = [documents_of.index(documents) for documents in documents_of]
    shared = [first for first in sorted(set(firsts)) if firsts.count(first) > 1]
    letters = {first: "ABC"[place] for place, first in enumerate(shared)}
    cells = (
        Cell(_form(documents, [acts[n] for n in numbers]), letters.get(first, ""))
        for documents, first in zip(documents_of, firsts, strict=True)
    )
    return Line(kind, len(numbers), tuple(cells))


def _form(documents: Sequence[Operations], acts: Sequence[Act]) -> str:
    """Returns the most frequent form of the documents."""
    forms = Counter(
        ", ".join(form_of(one, act.changes[0].table) for one in operations) or "nothing"
        for operations, act in zip(documents, acts, strict=True)
    )
    return forms.most_common(1)[0][0]


def form_of(operation: Operation, table: str) -> str:
    """Describes an operation in a few words."""
    if operation.kind != "modify":
        return operation.kind
    changes = {_change(attribute) for attribute in operation.attributes}
    how = changes.pop() if len(changes) == 1 else "some of each"
    whole = len(operation.attributes) == len(COLUMNS[table])
    return "whole row" if whole and how == "new" else how


def _change(attribute: Attribute) -> str:
    return "new" if attribute.removes_all else "old → new"
