"""Reads the operations of each act from the documents of a run, by source, to compare the sources."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple, TypeVar

from publisher.consumer import (
    Add,
    AttributeChange,
    Modify,
    Operation,
    RemoveAllValues,
    parse_document,
)
from publisher.errors import InternalError
from publisher.ledger.lane_rows import LaneRows
from publisher.ledger.tables import DOCUMENTS
from tests.support.company.acts import Act, RowChange
from tests.support.company.people import employee_key, membership_key

Operations = tuple[Operation, ...]
Change = TypeVar("Change", bound=AttributeChange)


class _Published(NamedTuple):
    association: str
    records: str
    text: str


def recordings(
    lanes: Iterable[LaneRows], acts_of_sources: Sequence[Sequence[Act]]
) -> list[list[Operations]]:
    """Returns the operations of each act, by source; the first source is the event log, whose
    documents name the events.  Each source has the acts as it recorded them.

    Raises ``InternalError`` if another source lacks the document of a change, or has additional ones.
    """
    published = _documents_by_source(lanes)
    log, *others = acts_of_sources
    changes = (_of_changes(published[number], acts) for number, acts in enumerate(others, 1))
    return [_of_events(published[0], log), *changes]


def _documents_by_source(lanes: Iterable[LaneRows]) -> dict[int, list[_Published]]:
    """Reads all documents, by source; the documents of each object keep their order."""
    published: dict[int, list[_Published]] = defaultdict(list)
    for lane in lanes:
        rows = lane.read(DOCUMENTS, ["source", "association", "records"]).to_pylist()
        for row, text in zip(rows, lane.texts(), strict=True):
            published[row["source"]].append(_Published(row["association"], row["records"], text))
    return published


def _of_events(published: Sequence[_Published], acts: Sequence[Act]) -> list[Operations]:
    act_numbers = {str(event.record_id): n for n, act in enumerate(acts) for event in act.events}
    operations_of: list[Operations] = [()] * len(acts)
    for document in published:
        number = act_numbers.get(document.records.partition(",")[0])
        if number is not None:
            operations_of[number] += tuple(operations(document.text))
    return operations_of


def _of_changes(published: Sequence[_Published], acts: Sequence[Act]) -> list[Operations]:
    """Assigns documents to acts: each change has one document; a row's documents are in order."""
    unassigned: dict[str, list[str]] = defaultdict(list)
    for document in published:
        unassigned[document.association].append(document.text)
    operations_of = []
    for act in acts:
        act_operations: Operations = ()
        for change in act.changes:
            texts = unassigned[association(change)]
            if not texts:
                raise InternalError(f"no document of a change of {association(change)}")
            act_operations += tuple(operations(texts.pop(0)))
        operations_of.append(act_operations)
    names = [name for name, texts in unassigned.items() if texts]
    if names:
        raise InternalError(f"documents without an act: {', '.join(names[:5])}")
    return operations_of


def association(change: RowChange) -> str:
    """Returns the association of the object, which is the same in all formats."""
    match change.key:
        case (str() as group, int() as number):
            key = membership_key(group, number)
        case (int() as number,):
            key = f"idu={number}" if change.class_name == "usr" else employee_key(number)
        case other:
            raise InternalError(f"no key of {change.table}: {other}")
    return f"{key},table={change.class_name},schema=indirect"


def operations(document: str) -> Iterator[Operation]:
    """Yields the operations of a document; the order of the attributes has no meaning."""
    for operation in parse_document(document):
        match operation:
            case Add():
                yield replace(operation, changes=_normalise(operation.changes))
            case Modify():
                yield replace(operation, changes=_normalise(operation.changes))
            case _:
                yield operation


def changes_of(operation: Operation, attribute: str) -> list[AttributeChange]:
    """Returns the changes of one attribute in their order."""
    changes = operation.changes if isinstance(operation, Add | Modify) else ()
    return [change for change in changes if change.attribute == attribute]


def attributes_of(operation: Operation) -> set[str]:
    """Returns the names of the attributes that an operation changes."""
    changes = operation.changes if isinstance(operation, Add | Modify) else ()
    return {change.attribute for change in changes}


def _normalise(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Sorts changes by attribute and normalises decimals."""
    normal = (
        change
        if isinstance(change, RemoveAllValues)
        else replace(change, value=replace(change.value, text=_number(change.value.text)))
        for change in changes
    )
    return tuple(sorted(normal, key=attrgetter("attribute")))


def _number(text: str) -> str:
    """Removes trailing zeros of decimals, which SQLite and DISPATCH_ATTRS drop."""
    return text.rstrip("0").rstrip(".") if re.fullmatch(r"[0-9]+\.[0-9]+", text) else text
