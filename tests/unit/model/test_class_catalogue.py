"""The catalogue of classes: child tables that are refused, and what the settings declare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from publisher.errors import TableRefusedError
from publisher.model.catalogue import (
    ChildTable,
    ColumnKind,
    JobCatalogue,
    LayeredCatalogue,
    Table,
)
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions, ForeignKey, TableKeys

INT = ColumnKind.INT
USR = Table("s", "usr", ("a", "b"), dict.fromkeys(("a", "b", "seat"), INT), complete=True)
PHONE = Table("s", "phone", (), dict.fromkeys(("a", "b", "no"), INT), complete=True)
FRIEND = Table("s", "friend", (), dict.fromkeys(("a", "b", "c", "d"), INT), complete=True)
SEAT = Table("s", "seat", (), dict.fromkeys(("seat", "no"), INT), complete=True)
OWNER = ForeignKey(("a", "b"), "usr", ("a", "b"))
KEYS = {
    "usr": TableKeys((), ("phone", "friend", "seat")),
    "phone": TableKeys((OWNER,)),
    "friend": TableKeys((OWNER, ForeignKey(("c", "d"), "usr", ("a", "b")))),
    "seat": TableKeys((ForeignKey(("seat",), "usr", ("seat",)),)),
}


def classes(options: ClassOptions, *declared: Table) -> ClassCatalogue:
    tables = LayeredCatalogue(JobCatalogue(declared), JobCatalogue([USR, PHONE, FRIEND, SEAT]))
    return ClassCatalogue(tables, declared, options, lambda _, name: KEYS[name])


def test_a_reference_of_several_columns_in_a_child_refuses_the_child() -> None:
    found = classes(ClassOptions(child_columns="each"))
    with pytest.raises(TableRefusedError, match="columns c, d of friend refer together to usr"):
        found.table("s", "friend")
    usr = found.table("s", "usr")
    assert usr is not None
    assert list(usr.children) == ["phone"]


def test_without_references_its_columns_are_plain_values() -> None:
    usr = classes(ClassOptions(child_columns="each", enable_refs=False)).table("s", "usr")
    assert usr is not None
    assert [name for name in usr.columns if "." in name] == ["friend.c", "friend.d", "phone.no"]


def test_a_declared_child_that_is_not_linked_to_the_key_refuses_the_class() -> None:
    found = classes(ClassOptions(), Table("s", "usr", children={"seat": ChildTable()}))
    for name in ("usr", "seat", "phone"):
        with pytest.raises(TableRefusedError, match="refers to seat of usr, which is not its key"):
            found.table("s", name)


def test_a_declared_child_of_a_table_outside_the_list_is_refused() -> None:
    declared = Table("s", "usr", children={"phone": ChildTable()})
    listed = ClassOptions(sync_filter="list", sync_tables=("s.usr",))
    phone = classes(listed, declared).table("s", "phone")
    assert phone is not None
    assert phone.parent is not None
    outside = ClassOptions(sync_filter="list", sync_tables=("grp",))
    with pytest.raises(TableRefusedError, match="neither in sync_tables nor a child"):
        classes(outside, declared).table("s", "phone")


DOTTED = Table("s", "usr", ("a", "b"), dict.fromkeys(("a", "b", "Phone.no"), INT), complete=True)


def test_a_child_whose_attribute_has_the_name_of_a_column_is_refused() -> None:
    tables = JobCatalogue([DOTTED, PHONE])
    found = ClassCatalogue(tables, [], ClassOptions(), lambda _, name: KEYS[name])
    with pytest.raises(
        TableRefusedError, match=r"no of child table phone is the attribute phone\.no"
    ):
        found.table("s", "phone")
    usr = found.table("s", "usr")
    assert usr is not None
    assert (list(usr.columns), dict(usr.children)) == (list(DOTTED.columns), {})


def test_a_declared_child_whose_attribute_has_the_name_of_a_column_refuses_the_class() -> None:
    declared = replace(DOTTED, children={"phone": ChildTable({"no": INT})})
    found = ClassCatalogue(JobCatalogue([declared]), [declared], ClassOptions())
    for name in ("usr", "phone"):
        with pytest.raises(TableRefusedError, match="usr has a column of this name: rename one"):
            found.table("s", name)
