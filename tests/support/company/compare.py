"""Compares the documents of several recordings of the same acts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from publisher.consumer import AttributeChange, Modify, Operation, RemoveAllValues
from publisher.model.change import QUERY_BACK, Reason
from tests.support.company.acts import COLUMNS, PARENTS, Act, RowChange
from tests.support.company.recordings import Operations, attributes_of, changes_of


class ActKind(NamedTuple):
    """The kind of change to a row."""

    name: str
    types: str
    """Event types of this change in the log."""


INSERT = ActKind("insert", "1")
INSERT_BY_ROW_QUERY_BACK = ActKind("insert", "5 (row query-back)")
INSERT_BY_FIELD_QUERY_BACK = ActKind("insert", "7 (field query-back)")
UPDATE = ActKind("update", "2 (old and new value)")
UPDATE_OF_NEW_VALUES = ActKind("update", "3 (new value)")
UPDATE_BY_ROW_QUERY_BACK = ActKind("update", "6 (row query-back)")
UPDATE_BY_FIELD_QUERY_BACK = ActKind("update", "8 (field query-back)")
MIXED_UPDATE = ActKind("update", "2, 3, 8")
DELETE = ActKind("delete", "4")
REPLACEMENT = ActKind("update, delete, insert", "6, 3, 4, 1")
REPLACEMENT_BY_QUERY_BACK = ActKind("update, delete, insert", "2, 4, 5")
EARLIER_UPDATE = ActKind("update followed by another one", "6, 8")
VIEW_UPDATE = ActKind("update through a view", "any")
LOOPBACK_UPDATE = ActKind("update by the driver's user", "any")
PHONE_ROW = ActKind("phone added or removed", "2 of a child table")
PHONE_UPDATE = ActKind("phone changed", "2 of a child table")
PHONE_BY_QUERY_BACK = ActKind("phone changed in any way", "8 of a child table")
KINDS = (
    *(INSERT, INSERT_BY_ROW_QUERY_BACK, INSERT_BY_FIELD_QUERY_BACK),
    *(
        UPDATE,
        UPDATE_OF_NEW_VALUES,
        UPDATE_BY_ROW_QUERY_BACK,
        UPDATE_BY_FIELD_QUERY_BACK,
        MIXED_UPDATE,
    ),
    *(DELETE, REPLACEMENT, REPLACEMENT_BY_QUERY_BACK, EARLIER_UPDATE, VIEW_UPDATE, LOOPBACK_UPDATE),
    *(PHONE_ROW, PHONE_UPDATE, PHONE_BY_QUERY_BACK),
)
"""All kinds, in the order of display."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The form of one system's documents for some acts."""

    form: str
    letter: str
    """Cells of a line with the same letter have the same documents, value for value; may be empty."""


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
        if last[act.row] != number and kind not in {VIEW_UPDATE, LOOPBACK_UPDATE}:
            kind = EARLIER_UPDATE if act.event_types & QUERY_BACK else kind
        groups[kind].append(number)
    return [_line(kind, groups[kind], acts, recorded) for kind in KINDS if groups[kind]]


def kind_of(act: Act) -> ActKind:
    """Determines which of ``KINDS`` an act is."""
    if act.events[0].reason is Reason.LOOPBACK:
        return LOOPBACK_UPDATE
    if act.events[0].table_name.startswith("view_"):
        return VIEW_UPDATE
    if len(act.changes) > 1:
        return REPLACEMENT_BY_QUERY_BACK if 5 in act.event_types else REPLACEMENT
    (change,) = act.changes
    return _phone_kind(act, change) if change.table in PARENTS else _row_kind(act, change)


def _row_kind(act: Act, change: RowChange) -> ActKind:
    if change.after is None:
        return DELETE
    if change.before is None:
        return _insert_kind(act.event_types)
    return _update_kind(act.event_types)


def _phone_kind(act: Act, change: RowChange) -> ActKind:
    if 8 in act.event_types:
        return PHONE_BY_QUERY_BACK
    return PHONE_UPDATE if change.before and change.after else PHONE_ROW


def _insert_kind(types: frozenset[int]) -> ActKind:
    if 5 in types:
        return INSERT_BY_ROW_QUERY_BACK
    return INSERT_BY_FIELD_QUERY_BACK if 7 in types else INSERT


def _update_kind(types: frozenset[int]) -> ActKind:
    if 6 in types:
        return UPDATE_BY_ROW_QUERY_BACK
    if types == {2, 3, 8}:
        return MIXED_UPDATE
    if 8 in types:
        return UPDATE_BY_FIELD_QUERY_BACK
    return UPDATE_OF_NEW_VALUES if 3 in types else UPDATE


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
        ", ".join(form_of(operation, act.row[0]) for operation in operations) or "nothing"
        for operations, act in zip(documents, acts, strict=True)
    )
    return forms.most_common(1)[0][0]


def form_of(operation: Operation, table: str) -> str:
    """Describes an operation in a few words."""
    if not isinstance(operation, Modify):
        return type(operation).__name__.lower()
    names = attributes_of(operation)
    forms = {_attribute_form(changes_of(operation, name)) for name in names}
    form = forms.pop() if len(forms) == 1 else "some of each"
    if form == "new" and names >= set(COLUMNS[table]):
        return "whole row" if names == set(COLUMNS[table]) else "whole object"
    return form


def _attribute_form(changes: Sequence[AttributeChange]) -> str:
    if isinstance(changes[0], RemoveAllValues):
        return "new"
    is_single = "." not in changes[0].attribute
    return "old → new" if is_single or len(changes) > 1 else "one value"
