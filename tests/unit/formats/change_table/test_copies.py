"""B, B, U and B, U, U: a repeated record is a duplicate, wherever its copies are in the input."""

from __future__ import annotations

import json
import random
from itertools import permutations
from pathlib import Path

import pytest

from publisher.formats.change_table.source import ChangeTable
from publisher.formats.files.options import SnapshotOptions
from publisher.model.change import Outcome
from tests.support.change_table_files import change_text, options, read, record, write
from tests.support.event_log_files import Row, csv_text
from tests.support.live_change_tables import ColumnedTable

B = record(2, "B", idu="1", fname="a")
U = record(2, "U", [1], idu="1", fname="x")
OTHER_B = B | {"fname": "other"}
UPDATE = (2, "idu=1", ("fname", "a", "x"))
AROUND = [record(1, "I", range(10), idu="1"), record(9, "D", [0], idu="7")]
SMALL = SnapshotOptions(block_size=256)


def meant(tmp_path: Path, files: list[list[Row]], **settings: object) -> list[tuple[object, ...]]:
    paths = []
    for number, rows in enumerate(files):
        path = tmp_path / f"{number}.csv"
        path.write_text(csv_text(rows, list(B)))
        paths.append(path)
    found = read(paths, options(**settings), SMALL, 4)
    return [change_text(one) for one in found if one["key"] != "idu=7" and one["high"]][1:]


@pytest.mark.parametrize("records", [(B, B, U), (B, U, U), (B, B, B, U), (B, U, U, U)])
def test_identical_copies_are_duplicates_in_any_order(
    tmp_path: Path, records: tuple[Row, ...]
) -> None:
    for order in {tuple(map(id, p)): p for p in permutations(records)}.values():
        found = meant(tmp_path, [[AROUND[0], *order, AROUND[1]]])
        assert sorted(found, key=str) == [("duplicate",)] * (len(records) - 2) + [UPDATE]


@pytest.mark.parametrize("copy", [B, U])
@pytest.mark.parametrize("first", [True, False])
def test_copies_in_another_file_are_duplicates(tmp_path: Path, copy: Row, first: bool) -> None:
    files = [[AROUND[0], B, U], [AROUND[1], copy]]
    found = meant(tmp_path, files[:: 1 if first else -1])
    assert sorted(found, key=str) == [("duplicate",), UPDATE]


def test_before_images_that_differ_are_doubles(tmp_path: Path) -> None:
    found = meant(tmp_path, [[*AROUND, B, OTHER_B, U]])
    assert found == [("double-record",)] * 3


def test_copies_are_found_anywhere_among_other_records(tmp_path: Path) -> None:
    chance = random.Random(3)
    for _ in range(5):
        rows = [*AROUND]
        for number in range(10, 30):
            pair = [
                record(number, "B", idu=str(number), fname="a"),
                record(number, "U", [1], idu=str(number), fname="x"),
            ]
            rows += [*pair, chance.choice(pair)]
        chance.shuffle(rows)
        found = meant(tmp_path, [rows[:20], rows[20:]])
        assert [one for one in found if one == ("duplicate",)] == [("duplicate",)] * 20
        assert sum(one[0] == 2 for one in found) == 20


@pytest.mark.parametrize("records", ["BBU", "BUU", "UBUU"])
def test_copies_of_a_live_table_are_duplicates(tmp_path: Path, records: str) -> None:
    table = ColumnedTable(tmp_path)
    names = {"B": "old", "U": "new"}
    table.add((1, "I", 1), *((2, one, 1, names[one]) for one in records), (3, "D", 1))
    found = table.run()
    changes = [row for row in found if row["outcome"] is None]
    assert [(row["event_type"], row["old"]) for row in changes] == [
        (1, None),
        (2, ["old"]),
        (4, None),
    ]
    copies = [row for row in found if row["outcome"] == Outcome.IGNORED]
    assert [row["reason"] for row in copies] == ["duplicate"] * (len(records) - 2)


def test_a_third_update_with_another_value_has_no_before_image(tmp_path: Path) -> None:
    other = U | {"fname": "other"}
    found = meant(tmp_path, [[*AROUND, B, U, U, other]], images="full")
    assert sorted(found, key=str) == [
        ("duplicate",),
        UPDATE,
        (3, "idu=1", ("fname", "other")),
    ]


def test_a_before_image_in_a_file_with_other_columns_belongs_to_its_update(tmp_path: Path) -> None:
    names = [name for name in B if name != "c10"]
    (tmp_path / "0.csv").write_text(csv_text([B], names))
    (tmp_path / "1.csv").write_text(csv_text([*AROUND, U]))
    found = read([tmp_path / "0.csv", tmp_path / "1.csv"], options(header_columns=7))
    assert UPDATE in [change_text(one) for one in found]
    assert [one["records"] for one in found if one["event_type"] == 2] == [2]


def test_an_update_is_exported_with_its_before_image_from_another_file(tmp_path: Path) -> None:
    paths = [write(tmp_path / "0.csv", [U]), write(tmp_path / "1.csv", [B])]
    source = ChangeTable(options())
    splits = source.splits(paths, 1)
    exported = json.loads(source.raw_operations(splits, 0, frozenset([2]))[2])
    assert (exported["fname"], exported["before image"]["fname"]) == ("x", "a")
    paths[1].unlink()
    exported = json.loads(source.raw_operations(splits, 0, frozenset([2]))[2])
    assert "before image" not in exported
