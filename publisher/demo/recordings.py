"""Parses the documents of a run for the same acts by source, so that they can be compared."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from lxml import etree

from publisher.demo.acts import Act, RowChange
from publisher.demo.people import employee_key, membership_key
from publisher.errors import InternalError
from publisher.journal.lane_writer import LaneNames


class Attribute(NamedTuple):
    """One attribute of an operation."""

    name: str
    removes_all: bool
    removed: tuple[str, ...]
    """Values, each after its type."""
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as a consumer sees it: the order of the attributes means nothing."""

    kind: str
    class_name: str
    association: str
    attributes: frozenset[Attribute]


Operations = tuple[Operation, ...]


class _Published(NamedTuple):
    association: str
    records: str
    text: str


def recordings(
    journal: Path, documents: Path, lanes: int, acts: Sequence[Act]
) -> list[list[Operations]]:
    """The operations of each act, by source; the first is the event log, whose documents name the
    events.

    Raises ``InternalError`` where a source has others than those of the acts.
    """
    published = _documents_by_source(journal, documents, lanes)
    others = [_of_changes(published[source], acts) for source in sorted(published) if source]
    return [_of_events(published[0], acts), *others]


def _documents_by_source(journal: Path, documents: Path, lanes: int) -> dict[int, list[_Published]]:
    """All documents by source, those of an object in their order."""
    found: dict[int, list[_Published]] = defaultdict(list)
    columns = ["source", "association", "records", "offset", "length"]
    for lane in range(lanes):
        names = LaneNames(lane)
        part = (documents / names.part).read_bytes()
        for row in pq.read_table(journal / names.index, columns=columns).to_pylist():
            text = part[row["offset"] : row["offset"] + row["length"]].decode()
            found[row["source"]].append(_Published(row["association"], row["records"], text))
    return found


def _of_events(published: Sequence[_Published], acts: Sequence[Act]) -> list[Operations]:
    place = {str(event.record_id): n for n, act in enumerate(acts) for event in act.events}
    found: list[Operations] = [()] * len(acts)
    for document in published:
        number = place.get(document.records.partition(",")[0])
        if number is not None:
            found[number] += tuple(operations(document.text))
    return found


def _of_changes(published: Sequence[_Published], acts: Sequence[Act]) -> list[Operations]:
    """Each change is an operation by itself, those of a row in the order of the acts."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for document in published:
        waiting[document.association].append(document.text)
    found = []
    for act in acts:
        taken: Operations = ()
        for change in act.changes:
            texts = waiting[association(change)]
            if not texts:
                raise InternalError(f"no document of a change of {association(change)}")
            taken += tuple(operations(texts.pop(0)))
        found.append(taken)
    left = [name for name, texts in waiting.items() if texts]
    if left:
        raise InternalError(f"documents without an act: {', '.join(left[:5])}")
    return found


def association(change: RowChange) -> str:
    """The association of the row, which no format may write differently."""
    match change.key:
        case (str() as group, int() as number):
            key = membership_key(group, number)
        case (int() as number,):
            key = f"idu={number}" if change.table == "usr" else employee_key(number)
        case other:
            raise InternalError(f"no key of {change.table}: {other}")
    return f"{key},table={change.table},schema=indirect"


def operations(document: str) -> Iterator[Operation]:
    """The operations of a document."""
    (inside,) = etree.fromstring(document.encode()).findall("input")
    for element in inside:
        if element.tag in {"add", "modify", "delete"}:
            yield Operation(
                str(element.tag),
                element.get("class-name", ""),
                element.findtext("association", ""),
                frozenset(_attribute(child) for child in element if child.get("attr-name")),
            )


def _attribute(element: etree._Element) -> Attribute:
    removed: list[str] = []
    added: list[str] = []
    for child in element.iter("value"):
        parent = child.getparent()
        gone = parent is not None and parent.tag == "remove-value"
        (removed if gone else added).append(f"{child.get('type')} {_number(child.text or '')}")
    return Attribute(
        element.get("attr-name", ""),
        element.find("remove-all-values") is not None,
        tuple(removed),
        tuple(added),
    )


def _number(text: str) -> str:
    """SQLite and DISPATCH_ATTRS keep no zeros at the end of decimals."""
    return text.rstrip("0").rstrip(".") if re.fullmatch(r"[0-9]+\.[0-9]+", text) else text
