from __future__ import annotations

from dataclasses import fields, replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats.columns.object_names import (
    Key,
    NamedColumn,
    Names,
    RecordFault,
    TargetTable,
    split_name,
)
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.registry import FORMATS
from publisher.model.catalogue import ColumnKind, Table
from publisher.model.change import Reason
from publisher.model.keys import IdentifierCase
from publisher.model.lanes import key_lane, lane_of, record_lane, table_hash
from tests.support.event_log_files import OPEN, USR, Tables

ORDERS = Table(
    "Shop",
    "Orders",
    ("Region", "No"),
    {"Region": ColumnKind.STRING, "No": ColumnKind.INT},
    complete=True,
)
PHONES = Table(
    "indirect",
    "usr_phone",
    (),
    {"phoneno": ColumnKind.STRING, "scan": ColumnKind.OCTET},
    complete=True,
)
VIEW = Table(
    "direct",
    "view_usr",
    (),
    {"pk_empno": ColumnKind.INT, "fname": ColumnKind.STRING},
    complete=True,
)
PARTLY = Table(None, "partly", (), {"photo": ColumnKind.OCTET})
LANES = [9, 15, 5, 3, 0, 6]
RECORD_LANE = 6
KNOWN = Tables(
    {"usr": USR, "orders": ORDERS, "usr_phone": PHONES, "view_usr": VIEW, "partly": PARTLY}
)


def names(catalogue: Tables = KNOWN, case: IdentifierCase = IdentifierCase.AS_WRITTEN) -> Names:
    return Names(catalogue, None, case, 8)


def target(name: str, case: IdentifierCase = IdentifierCase.AS_WRITTEN) -> TargetTable:
    found = names(case=case).target(name)
    assert isinstance(found, TargetTable)
    return found


def key(
    name: str, text: str, case: IdentifierCase = IdentifierCase.AS_WRITTEN
) -> Key | RecordFault:
    return names(case=case).key(target(name, case), text)


def column(name: str, text: str) -> NamedColumn | RecordFault:
    return names().column(name, target(name), text)


@pytest.mark.parametrize("name", ["usr", "orders", "partly"])
@given(
    st.lists(
        st.sampled_from(["idu=", "IDU=", "Region=a+No=", ""]).flatmap(
            lambda start: st.text("012-+. a=\"'Ж\xa0", max_size=4).map(lambda value: start + value)
        )
    )
)
def test_many_keys_resolve_as_each_of_them(name: str, written: list[str]) -> None:
    keys = names().keys(target(name), pa.array(written, pa.string()))
    for row, text in enumerate(written):
        resolved = keys.faults.get(row) or Key(keys.texts[row].as_py(), int(keys.lanes[row]))
        assert resolved == key(name, text)


part = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(part, part)
def test_quoted_names_are_read_back(schema: str, table: str) -> None:
    double = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in (schema, table)]
    back = [f"`{name.replace('`', '``')}`" for name in (schema, table)]
    bracket = [f"[{name.replace(']', ']]')}]" for name in (schema, table)]
    for quoted in (double, back, bracket):
        assert split_name(".".join(quoted)) == (schema, table)
        assert split_name(quoted[1]) == (None, table)


@pytest.mark.parametrize(
    "text", ["", " ", ".", "a.", ".a", "a..b", '"a', '""', "a.b.c.d", 'a"b', '"a"b']
)
def test_what_is_no_table_name_is_none(text: str) -> None:
    assert split_name(text) is None


@pytest.mark.parametrize("text", ["Region=a+No=01", "No=1+Region=a", ' no = 1 + REGION = "a"'])
def test_order_and_form_of_compound_keys_do_not_matter(text: str) -> None:
    found = key("orders", text, IdentifierCase.DATABASE)
    assert found == Key("No=1+Region=a", lane_of("Shop", "Orders", "No=1+Region=a", 8))


@pytest.mark.parametrize("text", ["No=1", "No=1+Region=a+x=1", "x=1+y=2"])
def test_a_compound_key_must_have_exactly_its_columns(text: str) -> None:
    found = key("orders", text)
    assert isinstance(found, RecordFault)
    assert found.reason == Reason.TABLE_KEY
    assert "Region, No" in found.detail


def test_a_view_without_known_key_takes_any_of_its_columns() -> None:
    assert isinstance(key("view_usr", "pk_empno=1"), Key)
    found = key("view_usr", "idu=1")
    assert isinstance(found, RecordFault)
    assert "has no column idu" in found.detail


def test_quoted_values_with_special_characters_are_keys_of_one_column() -> None:
    found = key("usr", 'idu="1"')
    assert found == key("usr", "idu=1")
    only = Table(None, "t", ("c",), {"c": ColumnKind.STRING}, complete=True)
    asked = names(Tables({"t": only}))
    found_target = asked.target("t")
    assert isinstance(found_target, TargetTable)
    for text in ('c="a+b=1"', 'c="a\\"b"', "c=", 'c=""'):
        found = asked.key(found_target, text)
        assert isinstance(found, Key) is (text != "c=")


def test_a_column_of_a_table_that_is_no_child_is_rejected() -> None:
    fault = column("usr", "usr_phone.phoneno")
    assert isinstance(fault, RecordFault)
    assert fault.reason is Reason.COLUMN_NAME


def test_where_columns_are_partly_known_the_others_are_taken() -> None:
    assert column("partly", "photo") == NamedColumn("photo", octet=True)
    assert column("partly", "other") == NamedColumn("other", octet=False)


def test_padding_of_fixed_width_columns_is_no_part_of_a_name() -> None:
    assert column("usr", "fname     ") == NamedColumn("fname", octet=False)
    assert target("usr      ").table == "usr"


def test_an_open_catalogue_takes_every_table() -> None:
    found = names(OPEN).target("anything")
    assert isinstance(found, TargetTable)
    assert (found.schema, found.table, found.known) == (None, "anything", None)


def test_lanes_never_change() -> None:
    # Numbers in ledger: a change of these needs a new version of the ledger.
    assert [lane_of("indirect", "usr", f"idu={i}", 16) for i in range(6)] == LANES
    assert record_lane("log.csv", 17, 16) == RECORD_LANE


@given(st.none() | part, part, part, st.integers(1, 1000))
def test_a_lane_by_parts_is_the_lane(schema: str | None, table: str, text: str, lanes: int) -> None:
    lane = lane_of(schema, table, text, lanes)
    assert 0 <= lane < lanes
    assert key_lane(table_hash(schema, table), text, lanes) == lane


@pytest.mark.parametrize("schema_known_from", ["database", "settings"])
def test_names_in_any_case_are_one_object_where_their_spelling_is_known(
    schema_known_from: str,
) -> None:
    usr = USR if schema_known_from == "database" else replace(USR, schema=None)
    answers = Names(Tables({"usr": usr}), "indirect", EventLogOptions().identifier_case, 8)
    spellings = [("usr", "idu=11"), ("USR", "IDU=11"), ("Indirect.Usr", "Idu=011")]
    spellings += [("INDIRECT.usr", "idu=11"), ("indirect.USR", " IDU = 11 ")]
    found = set()
    for table_name, text in spellings:
        target = answers.target(table_name)
        assert isinstance(target, TargetTable)
        column = answers.column(table_name, target, "FNAME")
        found.add((target.schema, target.table, answers.key(target, text), column))
    lane = lane_of("indirect", "usr", "idu=11", 8)
    assert found == {("indirect", "usr", Key("idu=11", lane), NamedColumn("fname", octet=False))}


def test_names_that_nobody_knows_stay_as_they_are_written() -> None:
    answers = Names(OPEN, None, EventLogOptions().identifier_case, 8)
    target = answers.target("Indirect.USR")
    assert isinstance(target, TargetTable)
    assert (target.schema, target.table) == ("Indirect", "USR")
    assert answers.key(target, "IDU=1") == Key("IDU=1", lane_of("Indirect", "USR", "IDU=1", 8))


def test_the_case_of_names_is_that_of_the_database_by_default_in_every_format() -> None:
    for name, format_ in FORMATS.items():
        default = {field.name: field.default for field in fields(format_.options)}
        assert default["identifier_case"] is IdentifierCase.DATABASE, name
