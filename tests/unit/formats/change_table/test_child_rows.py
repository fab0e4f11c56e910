"""Rows of child tables: changes of the parent's objects, and what is rejected because it is unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.contract import Context
from publisher.model.catalogue import ChildTable, ColumnKind, JobCatalogue, Table
from publisher.model.change import TALLY
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions
from tests.support.change_table_files import change_text, seq, write
from tests.support.event_log_files import OPEN, Row
from tests.support.prepare import prepare_here, read_prepared
from tests.unit.formats.change_table.test_messages import message

USR = Table(
    schema=None,
    name="usr",
    key=("idu",),
    columns={"idu": ColumnKind.INT},
    children={"usr_phone": ChildTable({"phoneno": ColumnKind.STRING})},
)
CLASSES = ClassCatalogue(JobCatalogue([USR]), [USR], ClassOptions())
DATA = ("phone_id", "idu", "phoneno")
ATTRIBUTE = "usr_phone.phoneno"


def row(number: int, oper: str, mask: str | None, *values: str | None) -> Row:
    """A record of ``usr_phone``; ``mask`` names the set bits by ``i``, ``d`` and ``p``, the columns."""
    bits = sum(1 << 4 + "idp".index(letter) for letter in mask or "")
    headers: Row = {"header__change_seq": seq(number), "header__change_oper": oper}
    if mask is not None:
        headers |= {"header__change_mask": f"{bits:02X}" if bits else None}
    headers |= {"header__transaction_id": "A1"}
    return headers | dict(zip(DATA, values, strict=True))


def read(
    folder: Path, *rows: Row, classes: ClassOptions | None = None, **changes: object
) -> list[tuple[object, ...]]:
    """The changes of records, in the order of change_seq."""
    options = ChangeTableOptions(source_table="usr_phone", mask_order="msb", header_columns=4)
    options = replace(options, **changes)  # type: ignore[arg-type]
    return read_file(write(folder / "rows.csv", rows), options, classes or ClassOptions())


def read_file(
    path: Path, options: ChangeTableOptions, classes: ClassOptions
) -> list[tuple[object, ...]]:
    """The changes of the records in a file."""
    source, context = ChangeTable(options), Context(0, 5, CLASSES, classes=classes)
    records: list[Row] = []
    with prepare_here(source, [path], 1, OPEN) as prepared:
        for batches in read_prepared(prepared, context):
            for batch in batches:
                records += batch.to_pylist()
    tallies = [int(str(record["row"])) for record in records if record["outcome"] == TALLY]
    records = [record for record in records if record["outcome"] != TALLY]
    assert sum(int(str(record["records"])) for record in records) == sum(tallies)
    ordered = sorted(records, key=lambda record: (record["low"], record["ordinal"]))
    assert all(record["table"] in ("usr", None) for record in ordered)
    return [change_text(record) for record in ordered]


READ = ClassOptions(child_row_events="read")


def test_rows_add_and_remove_values(tmp_path: Path) -> None:
    rows = [
        row(1, "I", "idp", "9", "01", "111"),
        row(2, "U", "p", "9", "1", "222"),
        row(2, "B", "", "9", "1", "111"),
        row(3, "D", "i", "9", "1", "222"),
        row(4, "I", "idp", "8", "1", None),
    ]
    assert read(tmp_path, *rows) == [
        (2, "idu=1", (ATTRIBUTE, None, "111")),
        (2, "idu=1", (ATTRIBUTE, "111", "222")),
        (2, "idu=1", (ATTRIBUTE, "222", None)),
        (2, "idu=1", (ATTRIBUTE, None, None)),
    ]


def test_a_row_that_moves_changes_both_parents(tmp_path: Path) -> None:
    rows = [
        row(1, "U", "d", "9", "2", "111"),
        row(1, "B", "", "9", "1", "111"),
        row(2, "U", "dp", "9", "1", "333"),
        row(2, "B", "", "9", "2", "111"),
        row(3, "U", "d", "9", "02", None),
        row(3, "B", "", "9", "1", "333"),
        row(4, "U", "d", "9", "02", "333"),
        row(4, "B", "", "9", "2", "333"),
    ]
    assert read(tmp_path, *rows) == [
        (2, "idu=1", (ATTRIBUTE, "111", None)),
        (2, "idu=2", (ATTRIBUTE, None, "111")),
        (2, "idu=2", (ATTRIBUTE, "111", None)),
        (2, "idu=1", (ATTRIBUTE, None, "333")),
        (2, "idu=1", (ATTRIBUTE, "333", None)),
        (2, "idu=2", (ATTRIBUTE, None, "333")),
        (2, "idu=2"),
    ]


UNKNOWN = {
    "DELETE without the value": [row(1, "D", "i", "9", "1", None)],
    "UPDATE without before image": [row(1, "U", "p", "9", "1", "222")],
}


@pytest.mark.parametrize("rows", UNKNOWN.values(), ids=UNKNOWN)
def test_a_value_that_is_not_in_the_record_is_never_guessed(
    tmp_path: Path, rows: list[Row]
) -> None:
    assert read(tmp_path, *rows) == [("child-row",)]
    assert read(tmp_path, *rows, classes=READ) == [(8, "idu=1", (ATTRIBUTE,))]


def test_null_is_a_value_in_full_images(tmp_path: Path) -> None:
    deleted = row(1, "D", "i", "9", "1", None)
    assert read(tmp_path, deleted, images="full") == [(2, "idu=1", (ATTRIBUTE, None, None))]


def test_an_update_of_other_columns_changes_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, row(1, "U", "i", "9", "1", "222")) == [(2, "idu=1")]


UNREADABLE = {
    "the former parent is unknown": ([row(1, "U", "d", "9", "2", "111")], "child-row"),
    "the parent of an INSERT is NULL": ([row(1, "I", "idp", "9", None, "111")], "table-key"),
    "the parent of a DELETE is NULL": ([row(1, "D", "i", "9", None, "111")], "table-key"),
    "the link becomes NULL": (
        [row(1, "U", "d", "9", None, "111"), row(1, "B", "", "9", "1", "111")],
        "table-key",
    ),
    "the link was NULL": (
        [row(1, "U", "d", "9", "1", "111"), row(1, "B", "", "9", None, "111")],
        "table-key",
    ),
    "the link is no number": ([row(1, "I", "idp", "9", "x", "111")], "table-key"),
    "a moved row has no value": (
        [row(1, "U", "d", "9", "2", None), row(1, "B", "", "9", "1", None)],
        "child-row",
    ),
}


@pytest.mark.parametrize(("rows", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_records_without_a_known_parent_are_rejected_even_if_rows_are_read(
    tmp_path: Path, rows: list[Row], reason: str
) -> None:
    expected = [(reason,)] * len(rows)
    assert read(tmp_path, *rows) == read(tmp_path, *rows, classes=READ) == expected


def test_without_masks_an_update_alone_may_have_moved_the_row(tmp_path: Path) -> None:
    alone = row(1, "U", None, "9", "1", "222")
    for images in ("full", "sparse"):
        found = read(tmp_path, alone, images=images, header_columns=None, classes=READ)
        assert found == [("child-row",)]
    pair = [alone, row(1, "B", None, "9", "1", "111")]
    for setting in ("full", "sparse", None):
        changes = read(tmp_path, *pair, images=setting, header_columns=None)
        assert changes == [(2, "idu=1", (ATTRIBUTE, "111", "222"))]


@pytest.mark.parametrize("column", ["idu", "phoneno"])
def test_a_change_table_without_link_or_values_ends_the_run(tmp_path: Path, column: str) -> None:
    whole = row(1, "I", "idp", "9", "1", "1")
    rows = [{name: value for name, value in whole.items() if name != column}]
    with pytest.raises(FatalError, match=f"lack its column {column}: keep the column"):
        read(tmp_path, *rows)


def test_messages_of_child_tables_change_values(tmp_path: Path) -> None:
    def image(owner: int, phone: str | None) -> dict[str, object]:
        return {"phone_id": 9, "idu": owner, "phoneno": phone}

    messages = [
        message(1, "INSERT", image(1, "111"), columnMask="07"),
        message(2, "UPDATE", image(1, "222"), image(1, "111"), changeMask="04", columnMask="07"),
        message(3, "UPDATE", image(2, "222"), image(1, "222"), changeMask="02", columnMask="07"),
        message(4, "DELETE", image(2, "222"), changeMask="01", columnMask="07"),
        message(5, "UPDATE", image(2, "333"), changeMask="04", columnMask="07"),
        message(6, "INSERT", {"phone_id": 9, "phoneno": "1"}, columnMask="05"),
    ]
    path = tmp_path / "messages.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in messages), "utf-8")
    options = ChangeTableOptions(layout="messages", source_table="usr_phone", mask_order="msb")
    expected = [
        (2, "idu=1", (ATTRIBUTE, None, "111")),
        (2, "idu=1", (ATTRIBUTE, "111", "222")),
        (2, "idu=1", (ATTRIBUTE, "222", None)),
        (2, "idu=2", (ATTRIBUTE, None, "222")),
        (2, "idu=2", (ATTRIBUTE, "222", None)),
        ("child-row",),
        ("child-row",),
    ]
    found = read_file(path, options, ClassOptions())
    assert sorted(found, key=str) == sorted(expected, key=str)
