"""Each event type against a whole operation in ``event_types/``.

``type-1.xml`` to ``type-5.xml`` say what the guide's page prints; the others follow the same example.
Compared as canonical XML, without the white space between elements and around associations.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from lxml import etree

from publisher.model.catalogue import ColumnKind, JobCatalogue, Table
from publisher.model.change import Change, EventType, Object, Position
from publisher.planning.fields import WHOLE_ROW
from publisher.planning.names import key_columns
from publisher.planning.query_back import CurrentRow
from publisher.xds.document import DocumentOptions
from publisher.xds.operations import InsertQueryBack
from publisher.xds.values import text_of
from tests.support.planning import Rows, Setup

EXPECTED = Path(__file__).parent / "event_types"
KINDS = {
    "photo": ColumnKind.OCTET,
    "badge": ColumnKind.INT,
    "active": ColumnKind.STATE,
    "since": ColumnKind.TIMESTAMP,
}
USR = Object("indirect", "usr", "idu=1")
OLD = {"fname": "Jack", "lname": "Frost", "photo": "qqo="}
NEW = {"fname": "John", "lname": "Doe", "photo": "u7s="}
ROW = {"fname": "John", "lname": "Doe", "photo": b"\xbb\xbb"}
NOTHING = dict.fromkeys(NEW)
Texts = dict[str, str | None]


class EventTypeCase(NamedTuple):
    """Changes of one operation: each type with old and new texts by column."""

    file: str
    changes: list[tuple[int, Texts, Texts]]
    obj: Object = USR
    key_order: tuple[str, ...] = ()
    insert_query_back: InsertQueryBack = "modify"


def looked_up(row: Mapping[str, object]) -> Texts:
    return {column: text_of(value) for column, value in row.items()}


CURRENT = looked_up(ROW)
CASES = [
    EventTypeCase("type-1", [(1, NOTHING, {**OLD})]),
    EventTypeCase("type-2", [(2, {**OLD}, {**NEW})]),
    EventTypeCase("type-3", [(3, {**OLD}, {**NEW})]),
    EventTypeCase("type-4", [(4, {}, {})]),
    EventTypeCase("type-5", [(5, {}, CURRENT)]),
    EventTypeCase("type-5-add", [(5, {}, CURRENT)], insert_query_back="add"),
    EventTypeCase("type-6", [(6, {}, CURRENT)]),
    EventTypeCase("type-6-null", [(6, {}, looked_up({**ROW, "lname": None}))]),
    EventTypeCase("type-7", [(7, {}, {"fname": "John", "photo": "u7s="})]),
    EventTypeCase(
        "type-7-add", [(7, {}, {"fname": "John", "lname": None})], insert_query_back="add"
    ),
    EventTypeCase("type-8", [(8, {}, {"fname": "John"})]),
    EventTypeCase(
        "mixed",
        [
            (2, {"fname": "Jack"}, {"fname": "John"}),
            (8, {}, {"lname": "Doe"}),
            (3, {"photo": "qqo="}, {"photo": None}),
        ],
    ),
    EventTypeCase(
        "several-values",
        [
            (1, {}, {"fname": "John"}),
            (1, {}, {"usr_phone.phoneno": "111-1111"}),
            (1, {}, {"usr_phone.phoneno": "222-2222"}),
        ],
    ),
    EventTypeCase(
        "several-changes",
        [
            (2, {"usr_phone.phoneno": "111-1111"}, {"usr_phone.phoneno": "333-3333"}),
            (2, {}, {"usr_phone.phoneno": "444-4444"}),
        ],
    ),
    EventTypeCase("view", [(1, {}, {**OLD})], Object("direct", "view_usr", "pk_empno=1")),
    EventTypeCase(
        "compound-key",
        [(2, {"lname": None}, {"lname": "Doe"})],
        Object("indirect", "usr", 'pkey1=", ; \' + \\" = \\\\ < >"+pkey2=value2'),
        ("pkey2", "pkey1"),
    ),
    EventTypeCase("no-schema", [(4, {}, {})], Object(None, "usr", "idu=1")),
    EventTypeCase(
        "kinds",
        [(3, {}, {"badge": "007", "active": "T", "since": "2024-02-29 12:34:56.5"})],
    ),
]


def render_case(case: EventTypeCase) -> str:
    changes: list[Change] = []
    row: Texts = dict.fromkeys(key_columns(case.obj.key), "1")
    for number, (event_type, old, new) in enumerate(case.changes):
        names = () if WHOLE_ROW[event_type] else tuple(new)
        change = Change(
            row=number,
            object=case.obj,
            position=Position("", number + 1, 0, 0),
            rank=number + 1,
            event_type=event_type,
            columns=names,
            old=tuple(map(old.get, names)) if event_type == 2 else None,
            new=tuple(map(new.get, names)) if event_type < 4 else None,
        )
        changes.append(change)
        row |= new if event_type > 4 else {}
    return planned_operation(case, changes, CurrentRow(tuple(row), tuple(row.values())))


def planned_operation(case: EventTypeCase, changes: list[Change], row: CurrentRow | None) -> str:
    table = Table(case.obj.schema, case.obj.table, case.key_order, KINDS)
    setup = Setup(
        documents=DocumentOptions(insert_query_back=case.insert_query_back),
        catalogue=JobCatalogue([table]),
        lookup=Rows({case.obj: row}),
    )
    (document,) = setup.plan(changes).documents
    sent = etree.fromstring(document.text).find("input")
    assert sent is not None
    (operation,) = sent
    return etree.tostring(operation, encoding="unicode")


def canonical_xml(text: str) -> str:
    root = etree.fromstring(text)
    for element in root.iter():
        element.tail = None
        if len(element):
            element.text = None
    for name in root.iter("association"):
        name.text = name.text.strip() if name.text else None
    return etree.tostring(root, method="c14n").decode()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_an_event_type_gives_its_operation(case: EventTypeCase) -> None:
    expected = (EXPECTED / f"{case.file}.xml").read_text("utf-8")
    assert canonical_xml(render_case(case)) == canonical_xml(expected)


def test_every_expected_file_is_compared() -> None:
    assert {path.stem for path in EXPECTED.iterdir()} == {
        *(case.file for case in CASES),
        "key-change",
    }


def test_a_change_of_the_key_gives_its_operation() -> None:
    at = Position("", 1, 0, 0)
    change = Change(0, USR, at, 1, EventType.KEY_CHANGE, ("idu",), ("1",), ("5",))
    rendered = planned_operation(EventTypeCase("key-change", []), [change], None)
    expected = (EXPECTED / "key-change.xml").read_text("utf-8")
    assert canonical_xml(rendered) == canonical_xml(expected)
