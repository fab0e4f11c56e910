"""Tables whose class is refused: their changes are rejected, and no other change is."""

from __future__ import annotations

import pytest

from publisher.model.catalogue import ColumnKind, JobCatalogue, Table
from publisher.model.change import Object, Outcome, Reason
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions, ForeignKey, TableKeys
from tests.support.planning import Event, Rows, Setup, log, outcomes

INT = ColumnKind.INT
TABLES = [
    Table("s", "usr", ("id",), {"id": INT, "seat": INT}, complete=True),
    Table("s", "seat", ("no",), {"no": INT, "a": INT, "b": INT}, complete=True),
    Table("s", "pair", ("a", "b"), {"a": INT, "b": INT, "c": INT, "d": INT}, complete=True),
]
KEYS = {
    "usr": TableKeys((ForeignKey(("seat",), "seat", ("no",)),)),
    "seat": TableKeys((ForeignKey(("a", "b"), "pair", ("a", "b")),)),
    "pair": TableKeys((ForeignKey(("c", "d"), "pair", ("a", "b")),)),
}
"""``seat`` and ``pair`` have references of several columns, so their classes are refused."""


def classes() -> ClassCatalogue:
    return ClassCatalogue(JobCatalogue(TABLES), [], ClassOptions(), lambda _, name: KEYS[name])


def test_a_reference_to_a_refused_class_is_published() -> None:
    planned = Setup(catalogue=classes()).plan(
        log(Event(3, "seat", "07", obj=Object("s", "usr", "id=1")))
    )
    (document,) = planned.documents
    assert 'association-ref="no=7,table=seat,schema=s"' in document.text


@pytest.mark.parametrize("obj", [Object("s", "seat", "no=1"), Object("s", "pair", "a=1+b=2")])
@pytest.mark.parametrize("event_type", [1, 7, 8])
def test_changes_of_a_refused_class_are_rejected_beside_deletes_and_query_backs(
    obj: Object, event_type: int
) -> None:
    """The class may have been accepted when the log was read."""
    changes = log(
        Event(event_type, "a", "1", obj=obj),
        Event(6, obj=obj),
        Event(4, obj=obj),
        Event(event_type, "x.y", "1", obj=obj),
    )
    planned = Setup(catalogue=classes(), lookup=Rows()).plan(changes)
    found = outcomes(planned, changes)
    refused = f"{Outcome.REJECTED.label}: {Reason.TABLE_NAME}"
    assert found[0] == found[3] == refused
    assert found[2] in ("document 0", refused)
