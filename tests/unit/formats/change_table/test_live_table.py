"""A live change table in several runs: rows that arrive late, rows that wait for their partner."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from publisher.formats.change_table import extent
from publisher.model.change import Outcome
from tests.support.change_table_files import seq
from tests.support.live_change_tables import ColumnedTable

REJECTED, IGNORED = int(Outcome.REJECTED), int(Outcome.IGNORED)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ColumnedTable:
    made = ColumnedTable(tmp_path)
    monkeypatch.setattr(
        "publisher.formats.change_table.backlog.time.time", lambda: float(made.clock)
    )
    return made


def test_a_late_row_is_published_once_and_reported(table: ColumnedTable) -> None:
    table.add((1, "I", 1), (9, "I", 9))
    assert table.read_texts() == [(1, "idu=1"), (1, "idu=9")]
    assert not table.notes
    table.add((5, "I", 5))
    assert table.waiting() == 1
    assert table.read_texts() == [(1, "idu=5")]
    (note,) = table.notes
    assert note.startswith("late: 1 row(s) of table ct have a change_seq that an earlier run")
    assert table.waiting() == 0
    assert table.read_texts() == []
    assert not table.notes


def test_late_and_new_rows_are_read_together(table: ColumnedTable) -> None:
    table.add((1, "I", 1), (9, "I", 9))
    table.run()
    table.add((5, "I", 5), (12, "D", 1), (0, "I", 7))
    assert table.read_texts() == [(1, "idu=7"), (1, "idu=5"), (4, "idu=1")]
    assert table.read_texts() == []


def test_a_late_pair_is_one_change(table: ColumnedTable) -> None:
    table.add((1, "I", 1), (9, "I", 9))
    table.run()
    table.add((5, "B", 1, "old"), (5, "U", 1, "new"))
    (found,) = table.run()
    assert (found["event_type"], found["old"], found["new"]) == (2, ["old"], ["new"])
    assert table.read_texts() == []


def test_late_rows_below_the_window_are_reported_but_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extent, "LATE_WINDOW", 3)
    table = ColumnedTable(tmp_path)
    table.add(*((number, "I", number) for number in range(10, 20)))
    assert len(table.run()) == 10
    assert (table.mark.floor, table.mark.rows, table.mark.rows_in_window) == (seq(16), 7, 3)
    table.add((3, "I", 3), (18, "D", 4), (16, "D", 5))
    assert table.read_texts() == [(4, "idu=4")]
    read, older = table.notes
    assert "late: 1 row(s)" in read
    assert f"late: 2 row(s) of table ct have a change_seq up to {seq(16)}" in older
    assert table.read_texts() == []
    assert not table.notes


def test_removed_rows_hide_no_late_one(table: ColumnedTable) -> None:
    table.add((1, "I", 1), (2, "I", 2), (9, "I", 9))
    table.run()
    table.remove(1, 2)
    table.add((5, "I", 5))
    assert table.read_texts() == [(1, "idu=5")]
    assert table.read_texts() == []


def test_rows_added_between_planning_and_reading_are_read_once(table: ColumnedTable) -> None:
    """Tasks cannot share a snapshot of SQLite or MariaDB."""
    table.add((1, "I", 1), (9, "I", 9))
    table.between = lambda: table.add((5, "I", 5), (12, "I", 12))  # type: ignore[method-assign]
    first = table.read_texts()
    table.between = lambda: None  # type: ignore[method-assign]
    assert [*first, *table.read_texts()] == [
        (1, "idu=1"), (1, "idu=9"), (1, "idu=5"), (1, "idu=12"),
    ]  # fmt: skip
    assert table.read_texts() == []


@pytest.mark.parametrize("window", [3, 50])
@pytest.mark.parametrize("seed", range(4))
def test_every_row_in_reach_is_read_once_whatever_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, seed: int
) -> None:
    monkeypatch.setattr(extent, "LATE_WINDOW", window)
    chance = random.Random(seed)
    table = ColumnedTable(tmp_path)
    numbers = list(range(1, 60))
    for at in range(0, len(numbers) - 1, 2):  # neighbours come in any order: within any window
        if chance.random() < 0.5:
            numbers[at], numbers[at + 1] = numbers[at + 1], numbers[at]
    read: list[object] = []
    while numbers:
        portion = [numbers.pop(0) for _ in range(min(len(numbers), chance.randint(1, 4)))]
        table.add(*((number, "I", number) for number in portion))
        read += [row["key"] for row in table.run()]
        assert not any("before the window" in note for note in table.notes)
    assert sorted(read, key=str) == sorted((f"idu={n}" for n in range(1, 60)), key=str)


def test_a_before_image_waits_for_its_update(table: ColumnedTable) -> None:
    table.add((1, "I", 1), (2, "B", 1, "old"))
    assert table.read_texts() == [(1, "idu=1")]
    (note,) = table.notes
    assert f"from change_seq {seq(2)} on" in note
    assert table.waiting() == 0
    table.clock = 5
    table.add((2, "U", 1, "new"), (3, "D", 1))
    assert table.waiting() == 3
    update, deleted = table.run()
    assert (update["event_type"], update["old"], update["new"]) == (2, ["old"], ["new"])
    assert deleted["event_type"] == 4
    assert table.read_texts() == []


def test_an_update_waits_if_other_updates_have_before_images(table: ColumnedTable) -> None:
    table.add((1, "B", 1, "x"), (1, "U", 1, "y"), (2, "U", 1, "new"))
    assert table.read_texts() == [(2, "idu=1")]
    table.add((2, "B", 1, "y"))
    (update,) = table.run()
    assert (update["event_type"], update["old"], update["new"]) == (2, ["y"], ["new"])


def test_updates_do_not_wait_if_none_has_a_before_image(table: ColumnedTable) -> None:
    table.add((1, "U", 1), (2, "U", 1))
    assert table.read_texts() == [(3, "idu=1"), (3, "idu=1")]
    table.add((3, "U", 1))
    assert table.read_texts() == [(3, "idu=1")]
    assert not table.notes


def test_rows_after_a_waiting_row_wait_as_well(table: ColumnedTable) -> None:
    table.add((1, "I", 1), (2, "B", 1), (3, "D", 1))
    assert table.read_texts() == [(1, "idu=1")]
    table.clock = 30
    assert table.waiting() == 0
    assert table.read_texts() == []
    table.clock = 61
    assert table.waiting() == 2
    assert table.read_texts() == [(REJECTED, "before-image-alone"), (4, "idu=1")]
    assert table.read_texts() == []


def test_a_lone_row_far_behind_the_youngest_does_not_wait(table: ColumnedTable) -> None:
    later = "2024031810490000" + "9" * 19
    table.add((1, "B", 1), (later, "I", 2))
    assert table.read_texts() == [(REJECTED, "before-image-alone"), (1, "idu=2")]


def test_nothing_waits_where_that_is_set(tmp_path: Path) -> None:
    table = ColumnedTable(tmp_path, pair_wait=0)
    table.add((1, "I", 1), (2, "B", 1))
    assert table.read_texts() == [(1, "idu=1"), (REJECTED, "before-image-alone")]


def test_a_late_before_image_waits_for_its_late_update(table: ColumnedTable) -> None:
    table.add((1, "I", 1), (9, "I", 9))
    table.run()
    table.add((5, "B", 1, "old"))
    assert table.read_texts() == []
    assert "waiting: 1 late row(s)" in table.notes[0]
    assert table.waiting() == 0
    table.add((5, "U", 1, "new"))
    (update,) = table.run()
    assert (update["event_type"], update["old"], update["new"]) == (2, ["old"], ["new"])
    table.add((6, "B", 1))
    assert table.read_texts() == []
    table.clock = 61
    assert table.waiting() == 1
    assert table.read_texts() == [(REJECTED, "before-image-alone")]
    assert table.read_texts() == []
