"""Meaning of the records of a change table (reference, change tables; manual, header columns)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.formats.change_table.masks import Order
from publisher.model.change import Reason
from tests.support.change_table_files import change_text, options, read, record, write
from tests.support.event_log_files import Row, Tables, csv_text

ALL = range(10)
KINDS = ("t__ct.csv", "t__ct.jsonl", "t__ct.parquet")


def meant(tmp_path: Path, *rows: Row, name: str = "t__ct.csv", **changes: object) -> list[object]:
    return [change_text(one) for one in read(write(tmp_path / name, rows), options(**changes))]


def insert(number: int = 1, order: Order = "msb", **values: str) -> Row:
    return record(number, "I", ALL, order=order) | {"idu": "9"} | values


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("order", ["msb", "lsb"])
def test_each_operation_gives_its_event_type(tmp_path: Path, name: str, order: Order) -> None:
    rows = [
        record(1, "I", ALL, order=order, idu="1", fname="Ann"),
        record(2, "U", [1, 2], order=order, idu="1", fname="Eve", lname=None, c04="stays"),
        record(2, "B", [], order=order, idu="1", fname="Ann", lname="Li", c04="stays"),
        record(3, "U", [1, 9], order=order, idu="1", fname="Zoe"),
        record(4, "D", [0], order=order, idu="1", fname="Zoe"),
    ]
    inserted = [(f"c{n:02}", None) for n in range(4, 11)]
    assert meant(tmp_path, *rows, name=name) == [
        (1, "idu=1", ("idu", "1"), ("fname", "Ann"), ("lname", None), *inserted),
        (2, "idu=1", ("fname", "Ann", "Eve"), ("lname", "Li", None)),
        (3, "idu=1", ("fname", "Zoe"), ("c10", None)),
        (4, "idu=1"),
    ]


def test_a_changed_key_deletes_the_old_object_and_adds_the_new(tmp_path: Path) -> None:
    rows = [
        insert(),
        record(2, "B", idu="1", fname="Ann", lname="Li"),
        record(2, "U", [0, 1], idu="2", fname=None),
    ]
    deleted, added = meant(tmp_path, *rows)[1:]
    assert deleted == (4, "idu=1")
    assert added[:5] == (1, "idu=2", ("idu", "2"), ("fname", None), ("lname", "Li"))  # type: ignore[index]


def test_a_key_that_is_only_written_differently_did_not_change(tmp_path: Path) -> None:
    rows = [
        record(2, "B", idu="01", fname="a"),
        record(2, "U", [0, 1], idu="1", fname="b"),
        insert(),
    ]
    path = write(tmp_path / "t__ct.csv", rows)
    found = read(path, options(source_table="usr", columns=()), tables=Tables())
    assert "column-name" in str(change_text(found[0]))  # the database has no c04
    small = [{k: v for k, v in row.items() if not k.startswith("c")} for row in rows]
    found = read(write(path, small), options(header_columns=7, mask_order="msb"), tables=Tables())
    assert change_text(found[-1]) == (2, "idu=1", ("idu", "01", "1"), ("fname", "a", "b"))


def test_a_changed_key_without_before_image_is_rejected_or_looked_up(tmp_path: Path) -> None:
    rows = [insert(), record(2, "U", [0, 1], idu="2", fname="Ann")]
    assert meant(tmp_path, *rows)[1] == ("key-change",)
    assert meant(tmp_path, *rows, key_change="query-back")[1] == (6, "idu=2")


def test_an_update_that_changes_nothing_is_an_operation_without_columns(tmp_path: Path) -> None:
    assert meant(tmp_path, insert(), record(2, "U", [], idu="2"))[1] == (3, "idu=2")


def without_mask(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "header__change_mask"}


def test_updates_without_mask_are_read_as_the_settings_say(tmp_path: Path) -> None:
    rows = [
        without_mask(record(1, "U", idu="1", fname="Ann")),
        without_mask(record(2, "U", idu="1", fname="Eve", lname=None)),
        without_mask(record(2, "B", idu="1", fname="Ann", lname="Li")),
    ]
    assert meant(tmp_path, *rows) == [("unmasked-update",)] * 3  # the before image, too
    assert meant(tmp_path, *rows, images="sparse") == [
        (3, "idu=1", ("idu", "1"), ("fname", "Ann")),
        (2, "idu=1", ("fname", "Ann", "Eve")),
    ]
    full = meant(tmp_path, *rows, images="full")
    assert full[0][:5] == (3, "idu=1", ("idu", "1"), ("fname", "Ann"), ("lname", None))  # type: ignore[index]
    assert full[1] == (2, "idu=1", ("fname", "Ann", "Eve"), ("lname", "Li", None))


def test_records_that_say_no_operation_are_rejected(tmp_path: Path) -> None:
    rows = [
        insert(),
        record(2, "B", idu="1"),
        record(3, "L", idu="1"),
        record(4, "I", ALL, idu="1") | {"header__operation": "UPDATE"},
        record(5, "", idu="1") | {"header__operation": "TRUNCATE"},
        record(6, "D", [0], idu=None),
        record(7, "U", [1], idu="1") | {"header__change_mask": "xyz"},
        record(8, "U", [11], idu="1"),
        record(9, "I", ALL, idu="1") | {"header__timestamp": "soon"},
        record(10, "I", ALL, idu="1") | {"header__change_seq": "2024"},
    ]
    reasons = sorted(str(one[0]) for one in meant(tmp_path, *rows) if len(one) == 1)  # type: ignore[index, arg-type]
    assert reasons == sorted(
        [
            "before-image-alone",
            "change-operation",
            "change-operation",
            "truncate",
            "table-key",
            "change-mask",
            "change-mask",
            "event-time",
            "change-seq",
        ]
    )


def test_the_first_day_of_1970_is_no_time(tmp_path: Path) -> None:
    row = insert() | {"header__timestamp": "1970-01-01 00:00:00"}
    (found,) = read(write(tmp_path / "t__ct.csv", [row]), options())
    assert found["event_time"] is None
    (found,) = read(write(tmp_path / "t__ct.csv", [insert()]), options())
    assert found["event_time"] == 1_710_758_846_000_000


def test_the_manual_and_real_exports_are_distinguished(tmp_path: Path) -> None:
    for order in ("msb", "lsb"):
        rows = [insert(order=order), record(2, "U", [1, 2, 9], order=order, idu="1", fname="x")]
        assert meant(tmp_path, *rows)[1][0] == 3  # type: ignore[index]


def test_without_evidence_it_refuses_to_guess(tmp_path: Path) -> None:
    row = record(1, "U", idu="1", lname="x") | {"header__change_mask": "800900"}
    path = write(tmp_path / "t__ct.csv", [row | {f"d{n}": None for n in range(20)}])
    with pytest.raises(FatalError, match="mask_order"):
        read(path, options(header_columns=0))


def test_columns_need_a_sequence_and_an_operation(tmp_path: Path) -> None:
    path = tmp_path / "t__ct.csv"
    path.write_text("header__change_seq,idu\n1,2\n")
    with pytest.raises(FatalError, match="change_oper"):
        read(path)
    path.write_text("seq,idu\n1,2\n")
    with pytest.raises(FatalError, match="prefix"):
        read(path)


def test_keys_of_several_sources_must_agree(tmp_path: Path) -> None:
    rows = [insert(), record(2, "D", [0, 1], idu="1", fname="x")]
    with pytest.raises(FatalError, match="masks of DELETE records"):
        meant(tmp_path, *rows)
    assert meant(tmp_path, *rows, key_from_deletes=False)[1] == (4, "idu=1")
    assert meant(tmp_path, *rows, key=())[1] == (4, "fname=x+idu=1")
    with pytest.raises(FatalError, match="set key"):
        meant(tmp_path, insert(), key=())


def test_the_table_is_named_by_folder_or_settings(tmp_path: Path) -> None:
    folder = tmp_path / "hr.people__ct"
    folder.mkdir()
    (found,) = read(write(folder / "20240318.csv", [insert()]), options(source_table=None))
    assert (found["schema"], found["table"]) == ("hr", "people")
    with pytest.raises(FatalError, match="source_table"):
        read(write(tmp_path / "x.csv", [insert()]), options(source_table=None))


def test_any_subset_of_header_columns_will_do(tmp_path: Path) -> None:
    rows = [record(1, "I", idu="1"), record(2, "D", idu="1")]
    kept = ("header__change_seq", "header__change_oper", "header__timestamp", "idu")
    (tmp_path / "t__ct.csv").write_text(csv_text(rows, kept))
    assert [change_text(one) for one in read(tmp_path / "t__ct.csv")] == [
        (1, "idu=1", ("idu", "1")),
        (4, "idu=1"),
    ]


def test_an_update_that_is_broken_by_its_keys_leaves_its_before_image(tmp_path: Path) -> None:
    rows = [insert(number, idu=str(number)) for number in range(1, 40)]
    update = record(50, "U", [1], idu="7", fname="b") | {"x" * 1_001: "1"}
    before = record(50, "B", [], idu="7", fname="a")
    path = write(tmp_path / "usr.jsonl", [*rows[:15], update, *rows[15:], before])
    for wanted in (1, 2, 3):
        reasons = Counter(row["reason"] for row in read(path, wanted=wanted))
        assert reasons == {None: 39, Reason.BROKEN_RECORD: 1, Reason.BEFORE_IMAGE_ALONE: 1}
