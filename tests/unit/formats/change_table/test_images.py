"""Images of an UPDATE: columns that neither image supplies, that the mask does not mark, or for which the
mask has no bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.change_table_files import HEADERS, change_text, options, read, record, write
from tests.support.event_log_files import Row

ALL = range(10)
INSERT = record(1, "I", ALL, idu="9")
KEY_CHANGE = (
    record(2, "B", idu="1", fname="a", lname="l"),
    record(2, "U", [0, 1], idu="9", fname="x"),
)
UNKNOWN = ("c04", "c05", "c06", "c07", "c08", "c09", "c10")


def meant(tmp_path: Path, *rows: Row, **changes: object) -> list[tuple[object, ...]]:
    return [
        change_text(one) for one in read(write(tmp_path / "t__ct.csv", rows), options(**changes))
    ]


@pytest.mark.parametrize("images", [None, "sparse"])
def test_a_column_that_no_image_of_a_key_change_supplies_is_absent(
    tmp_path: Path, images: str | None
) -> None:
    _, deleted, added = meant(tmp_path, INSERT, *KEY_CHANGE, images=images)
    assert deleted == (4, "idu=1")
    assert added == (1, "idu=9", ("idu", "9"), ("fname", "x"), ("lname", "l"))


def test_null_of_full_images_is_a_value_of_the_new_row(tmp_path: Path) -> None:
    rows = (KEY_CHANGE[0], KEY_CHANGE[1] | {"lname": "l"})
    _, _, added = meant(tmp_path, INSERT, *rows, images="full")
    assert added[4:] == (("lname", "l"), *((name, None) for name in UNKNOWN))


def test_a_new_row_without_gaps_is_published(tmp_path: Path) -> None:
    before = KEY_CHANGE[0] | dict.fromkeys(UNKNOWN, "v")
    rows = (before, record(2, "U", [0, 1], idu="9", fname="x"))
    found = meant(tmp_path, INSERT, *rows)
    assert [one[0] for one in found] == [1, 4, 1]
    assert len(found[2]) == 12


def without_mask(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "header__change_mask"}


def test_sparse_images_without_mask_give_no_null_of_a_new_key(tmp_path: Path) -> None:
    rows = [without_mask(row) for row in KEY_CHANGE]
    _, added = meant(tmp_path, *rows, images="sparse")
    assert added == (1, "idu=9", ("idu", "9"), ("fname", "x"), ("lname", "l"))


CLEAR_BIT = [
    # before, after, and the settings of images under which they contradict the mask
    ("a", "b", {None, "full", "sparse"}),
    (None, "b", {None, "full"}),
    ("a", None, {"full"}),
    ("a", "a", set()),
    (None, None, set()),
]


@pytest.mark.parametrize("images", [None, "full", "sparse"])
@pytest.mark.parametrize(("old", "new", "contradicts"), CLEAR_BIT)
def test_a_difference_that_the_mask_does_not_mark_is_rejected(
    tmp_path: Path, old: str | None, new: str | None, contradicts: set[str | None], images: str
) -> None:
    rows = [
        INSERT,
        record(2, "B", idu="1", fname="a", lname=old),
        record(2, "U", [1], idu="1", fname="x", lname=new),
    ]
    found = read(write(tmp_path / "t__ct.csv", rows), options(images=images))[1:]
    if images in contradicts:
        assert [change_text(one) for one in found] == [("change-mask",)] * 2
        assert "lname differs from the before image" in str(found[0]["detail"])
    else:
        assert [change_text(one) for one in found] == [(2, "idu=1", ("fname", "a", "x"))]


def test_a_difference_under_an_empty_mask_is_rejected(tmp_path: Path) -> None:
    rows = [INSERT, record(2, "B", idu="1", fname="a"), record(2, "U", [], idu="1", fname="x")]
    assert meant(tmp_path, *rows)[1:] == [("change-mask",)] * 2


def test_both_records_of_a_rejected_pair_are_kept(tmp_path: Path) -> None:
    rows = [INSERT, record(2, "B", idu="1", fname="a"), record(2, "U", [], idu="1", fname="x")]
    found = read(write(tmp_path / "t__ct.csv", rows), options())[1:]
    raws = "\n".join(sorted(str(one["raw"]) for one in found))
    assert '"header__change_oper": "B"' in raws
    assert '"header__change_oper": "U"' in raws
    assert sorted(int(str(one["row"])) for one in found) == [3, 4]
    assert [one["records"] for one in found] == [1, 1]


WIDE = tuple(f"w{place:04}" for place in range(1_100))
"""Data columns: with 7 header columns, the columns from place 1,017 on are beyond bit 1,023."""
PLACES = range(1_017)


def wide(number: int, oper: str, bits: object = None, **values: str | None) -> Row:
    row = record(number, oper, bits)  # type: ignore[arg-type]
    headers = {name: row[name] for name in HEADERS}
    return headers | dict.fromkeys(WIDE) | {"w0000": "1"} | values


def wide_meant(tmp_path: Path, *rows: Row, **changes: object) -> list[tuple[object, ...]]:
    told_ = options(key=("w0000",), header_columns=7, mask_order="msb", **changes)
    return [change_text(one) for one in read(write(tmp_path / "t__ct.csv", rows), told_)]


def test_an_insert_keeps_columns_without_a_bit_in_its_mask(tmp_path: Path) -> None:
    (found,) = wide_meant(tmp_path, wide(1, "I", PLACES, w0001="a", w1050="z"))
    assert ("w1050", "z") in found
    assert ("w1016", None) in found
    longer = wide(1, "I", range(1_100), w0001="a", w1050="z")
    (found,) = wide_meant(tmp_path, longer)
    assert ("w1051", None) in found


def test_columns_beyond_the_mask_of_an_update_follow_its_before_image(tmp_path: Path) -> None:
    before = wide(2, "B", w0001="a", w1050="y")
    update = wide(2, "U", [1], w0001="b", w1050="z")
    found = wide_meant(tmp_path, before, update)
    assert found == [(2, "w0000=1", ("w0001", "a", "b"), ("w1050", "y", "z"))]
    unclear = wide(2, "U", [1], w0001="b")
    assert wide_meant(tmp_path, before, unclear) == [("unmasked-update",)] * 2
    (found_,) = wide_meant(tmp_path, before, unclear, images="sparse")
    assert found_ == (2, "w0000=1", ("w0001", "a", "b"))
    (found_,) = wide_meant(tmp_path, before, unclear, images="full")
    assert ("w1050", "y", None) in found_


def test_columns_beyond_the_mask_without_before_image_follow_settings(tmp_path: Path) -> None:
    update = wide(2, "U", [1], w0001="b", w1050="z")
    assert wide_meant(tmp_path, update) == [("unmasked-update",)]
    (found,) = wide_meant(tmp_path, update, images="sparse")
    assert found == (3, "w0000=1", ("w0001", "b"), ("w1050", "z"))
    longer = wide(2, "U", [1, 1_050], w0001="b", w1050="z", w1051="as before")
    assert wide_meant(tmp_path, longer) == [
        (3, "w0000=1", ("w0001", "b"), ("w1050", "z")),
    ]


def test_whole_inserts_show_the_order_of_masks_that_end_early(tmp_path: Path) -> None:
    rows = [wide(1, "I", PLACES, w0001="a", w1050="z"), wide(2, "U", [1, 9], w0001="b")]
    path = write(tmp_path / "t__ct.csv", rows)
    found = read(path, options(key=("w0000",), images="sparse"))
    assert change_text(found[1]) == (3, "w0000=1", ("w0001", "b"), ("w0009", None))
