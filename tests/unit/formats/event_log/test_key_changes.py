"""Updates of key columns: rejected, changes of keys, or attributes."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.formats.event_log.options import EventLogOptions
from publisher.model.change import EventType, Reason
from tests.support.event_log_files import OPEN, Row, Tables, event, read, write

RENAMES = EventLogOptions(key_change="modify-association")


def one(
    tmp_path: Path, row: Row, options: EventLogOptions = RENAMES, catalogue: Tables | None = None
) -> Row:
    ([record], _) = read(write(tmp_path / "log.csv", [row]), options, None, catalogue)
    return record


def update(old: str | None = "1", new: str | None = "5", **changes: object) -> Row:
    return event(**{"column_name": "idu", "old_value": old, "new_value": new, **changes})


@pytest.mark.parametrize("catalogue", [Tables(), OPEN])
@pytest.mark.parametrize("written", ["idu", "IDU", "idu "])
def test_an_update_of_a_key_column_is_a_change_of_the_key(
    tmp_path: Path, catalogue: Tables, written: str
) -> None:
    record = one(tmp_path, update(column_name=written, table_name="usr"), RENAMES, catalogue)
    assert record["event_type"] == EventType.KEY_CHANGE
    assert (record["key"], record["old"], record["new"]) == ("idu=1", ["1"], ["5"])


def test_values_are_canonical(tmp_path: Path) -> None:
    record = one(tmp_path, update("+1", "05"))
    assert (record["old"], record["new"]) == (["1"], ["5"])


def test_the_old_value_of_type_3_is_that_of_the_key(tmp_path: Path) -> None:
    record = one(tmp_path, update(None, "5", event_type=3))
    assert (record["event_type"], record["old"], record["new"]) == (9, ["1"], ["5"])


@pytest.mark.parametrize("event_type", [1, 7, 8])
def test_other_types_of_a_key_column_are_changes_of_an_attribute(
    tmp_path: Path, event_type: int
) -> None:
    assert one(tmp_path, update(event_type=event_type))["event_type"] == event_type


def test_a_column_of_a_compound_key_may_change(tmp_path: Path) -> None:
    row = update("1", "5", table_key='b="x+idu=9"+idu=1')
    record = one(tmp_path, row, RENAMES, OPEN)
    assert record["event_type"] == EventType.KEY_CHANGE
    row = update("1", "5", table_key='b="x+idu=9"+c=1')
    assert one(tmp_path, row, RENAMES, OPEN)["event_type"] == 2


def test_an_update_that_changes_nothing_is_one_of_an_attribute(tmp_path: Path) -> None:
    assert one(tmp_path, update("1", "01"))["event_type"] == 2


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        (update("3"), "old_value '3' is not the value of idu in the key idu=1; log"),
        (update(None), "column idu is part of the key: its old and new values cannot be NULL"),
        (update("1", None), "its old and new values cannot be NULL"),
        (update("1", "x"), "column idu is part of the key: 'x' is not a number"),
    ],
)
def test_a_change_that_contradicts_the_key_is_rejected(
    tmp_path: Path, row: Row, detail: str
) -> None:
    record = one(tmp_path, row)
    assert record["reason"] == Reason.KEY_CHANGE
    assert detail in str(record["detail"])
    assert record["key"] == "idu=1"


def test_changes_of_keys_are_rejected_unless_the_setting_permits_them(tmp_path: Path) -> None:
    record = one(tmp_path, update(), EventLogOptions())
    assert record["reason"] == Reason.KEY_CHANGE
    assert "the key idu=1 becomes idu=5; log no updates" in str(record["detail"])


def test_a_key_column_may_be_an_attribute(tmp_path: Path) -> None:
    record = one(tmp_path, update(), EventLogOptions(key_change="attribute"))
    assert (record["event_type"], record["old"], record["new"]) == (2, ["1"], ["5"])


def test_no_part_of_a_key_changes_alone(tmp_path: Path) -> None:
    """A record of one update is rejected if another one is, but not records of other objects."""
    rows = [
        event(
            number,
            table_key=key,
            table_name="part",
            column_name=column,
            old_value=old,
            new_value="7",
        )
        for number, (key, column, old) in enumerate(
            [("a=1+b=2", "a", "1"), ("a=1+b=2", "b", "3"), ("a=4+b=2", "a", "4")], 1
        )
    ]
    (records, _) = read(write(tmp_path / "log.csv", rows), RENAMES, None, OPEN)
    details = {record["high"]: record["detail"] for record in records}
    assert "record 2 changes another column of the same key" in str(details[1])
    assert "old_value '3' is not the value of b" in str(details[2])
    assert details[3] is None
