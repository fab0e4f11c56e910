"""Change files in several runs: an UPDATE waits for its before image in a later file, and vice versa."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from publisher.errors import FatalError
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.contract import CarryOver
from publisher.formats.files.options import SnapshotOptions
from publisher.model.change import TALLY, Outcome
from tests.support.change_table_files import CONTEXT, change_text, options, record, seq, write
from tests.support.event_log_files import Row, csv_text
from tests.support.prepare import prepare_here, read_prepared

SECOND = 1_000_000
HELD = ("open-pair",)
LONE = ("before-image-alone",)
B = record(5, "B", idu="1", fname="a")
U = record(5, "U", [1], idu="1", fname="x")
FIRST = [record(1, "I", range(10), idu="1"), record(2, "B", idu="1"), record(2, "U", [], idu="1")]
LATER = record(6, "D", [0], idu="1")
PAIR = (2, "idu=1", ("fname", "a", "x"))
DELETED = (4, "idu=1")


class ChangeTableFolder:
    """Files that are read run after run, as a job reads them."""

    def __init__(self, path: Path, suffix: str = ".csv", **settings: object) -> None:
        self._path, self._suffix, self._runs = path, suffix, 0
        given = {"header_columns": 7, "mask_order": "msb"} | settings
        self._source = ChangeTable(options(**given), SnapshotOptions())
        self.clock = 0.0
        """In seconds."""

    @property
    def state(self) -> Path | None:
        """The folder that the last run has left."""
        return self._path / f"state-{self._runs}" if self._runs else None

    def run(self, *rows: Row) -> list[Row]:
        """The records of a run with one new file of these rows, or with no new file."""
        before = self.state
        self._runs += 1
        kept = CarryOver(before, self._path / f"state-{self._runs}", int(self.clock * SECOND))
        paths = []
        if rows:
            paths = [write(self._path / f"usr__ct-{self._runs}{self._suffix}", rows)]
        records, framed = [], 0
        with prepare_here(self._source, paths, 3, CONTEXT.catalogue, carry_over=kept) as prepared:
            for batches in read_prepared(prepared, CONTEXT):
                for batch in batches:
                    for row in batch.to_pylist():
                        if row["outcome"] == TALLY:
                            framed += row["row"]
                        else:
                            records.append(row)
        assert sum(int(str(row["records"])) for row in records) == framed
        return sorted(records, key=lambda row: (row["high"], row["low"], row["ordinal"]))

    def meant(self, *rows: Row) -> list[tuple[object, ...]]:
        """Returns the records in short, without those that the first run publishes."""
        found = [change_text(row) for row in self.run(*rows)]
        return found[2:] if rows[:1] == tuple(FIRST[:1]) else found


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(("one", "other"), [(B, U), (U, B)])
def test_the_halves_of_a_pair_wait_for_each_other(
    tmp_path: Path, suffix: str, one: Row, other: Row
) -> None:
    folder = ChangeTableFolder(tmp_path, suffix)
    assert folder.meant(*FIRST, one, LATER) == [HELD, HELD]
    assert folder.meant(other) == [PAIR, DELETED]
    assert folder.meant(record(9, "D", [0], idu="4")) == [(4, "idu=4")]


def test_a_half_that_waited_long_enough_is_decided_alone(tmp_path: Path) -> None:
    folder = ChangeTableFolder(tmp_path)
    assert folder.meant(*FIRST, B, LATER) == [HELD, HELD]
    folder.clock = 59
    assert folder.meant() == [HELD, HELD]
    folder.clock = 60
    assert folder.meant() == [LONE, DELETED]
    assert folder.meant() == []


def test_a_new_half_waits_its_own_time(tmp_path: Path) -> None:
    folder = ChangeTableFolder(tmp_path)
    assert folder.meant(*FIRST, B) == [HELD]
    folder.clock = 60
    assert folder.meant(record(7, "B", idu="2"), LATER) == [LONE, DELETED, HELD]
    folder.clock = 61
    assert folder.meant(record(7, "U", [], idu="2")) == [(2, "idu=2")]


def test_an_update_waits_only_where_updates_have_before_images(tmp_path: Path) -> None:
    folder = ChangeTableFolder(tmp_path)
    assert [change_text(row) for row in folder.run(FIRST[0], U)][1] == (3, "idu=1", ("fname", "x"))
    folder = ChangeTableFolder(tmp_path / "other")
    (tmp_path / "other").mkdir()
    assert folder.meant(*FIRST) == []
    assert folder.meant(U) == [HELD]  # the previous file had before images
    assert folder.meant(B, LATER) == [PAIR, DELETED]


def test_a_half_far_behind_the_youngest_waits_for_nothing(tmp_path: Path) -> None:
    young = record(1, "D", [0], idu="8") | {"header__change_seq": seq(1, "2024031810490000")}
    assert ChangeTableFolder(tmp_path).meant(*FIRST, B, young) == [LONE, (4, "idu=8")]


def test_nothing_waits_where_that_is_set_and_in_a_replay(tmp_path: Path) -> None:
    assert ChangeTableFolder(tmp_path, pair_wait=0).meant(*FIRST, B, LATER) == [LONE, DELETED]
    path = write(tmp_path / "usr__ct.csv", [*FIRST, B, LATER])
    source = ChangeTable(options(header_columns=7, mask_order="msb"))
    with prepare_here(source, [path], 1, CONTEXT.catalogue) as prepared:
        batches = list(prepared.read(0, CONTEXT))
    reasons = [row["reason"] for batch in batches for row in batch.to_pylist()]
    assert "open-pair" not in reasons


def test_masks_of_held_rows_are_read_as_before(tmp_path: Path) -> None:
    """Bits 16 and 31, or 7 and 8: both are possible, and the previous file shows the order."""
    wide = {f"d{place:02}": None for place in range(24)}
    order: dict[str, Any] = {"header_columns": None, "mask_order": "auto"}
    insert = record(1, "I", range(34), idu="1") | wide
    pair = [record(2, "B", idu="1") | wide, record(2, "U", [], idu="1") | wide]
    doubtful = record(5, "U", [9, 24], idu="1") | wide | {"c10": "x", "d14": "y"}
    folder = ChangeTableFolder(tmp_path, **order)
    assert change_text(folder.run(insert, *pair, doubtful)[-1]) == HELD
    folder.clock = 60
    (found,) = folder.run()
    assert change_text(found) == (3, "idu=1", ("c10", "x"), ("d14", "y"))
    (tmp_path / "other").mkdir()
    without_a_file_before = ChangeTableFolder(tmp_path / "other", **order)
    with pytest.raises(FatalError, match="mask_order"):
        without_a_file_before.run(doubtful)


def test_rejects_among_held_rows_are_rejected_once(tmp_path: Path) -> None:
    folder = ChangeTableFolder(tmp_path)
    unknown = record(6, "X", [0], idu="1")
    no_time = LATER | {"header__timestamp": "yesterday"}
    found = folder.meant(*FIRST, B, unknown, no_time)
    assert sorted(found, key=str) == [("change-operation",), HELD, HELD]
    assert folder.meant(U) == [PAIR, ("event-time",)]


def test_held_rows_of_a_table_known_by_its_metadata_are_read_so_again(tmp_path: Path) -> None:
    (tmp_path / "hr.people__ct").mkdir()
    path = tmp_path / "hr.people__ct" / "a.csv"
    path.write_text(csv_text([*FIRST, B], list(B), header=False))
    names = [{"ordinal": n, "name": name, "primaryKeyPos": int(name == "idu")}
             for n, name in enumerate(B, 1)]  # fmt: skip
    info = {"sourceSchema": "hr", "sourceTable": 'the "people"', "columns": names}
    path.with_suffix(".dfm").write_text(json.dumps({"dataInfo": info}))
    source = ChangeTable(
        options(source_table=None, key=(), header_columns=7, mask_order="msb"), SnapshotOptions()
    )
    first = CarryOver(None, tmp_path / "1")
    second = CarryOver(tmp_path / "1", tmp_path / "2", 61 * SECOND)
    with prepare_here(source, [path], 1, CONTEXT.catalogue, carry_over=first):
        pass
    with prepare_here(source, [], 1, CONTEXT.catalogue, carry_over=second) as prepared:
        (found, _) = [row for b in prepared.read(0, CONTEXT) for row in b.to_pylist()]
    assert (found["schema"], found["table"]) == ("hr", 'the "people"')
    assert (found["outcome"], found["reason"]) == (Outcome.REJECTED, "before-image-alone")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"version": 2}', "has version 2, this program reads version 1: use the version"),
        ("{", "is damaged"),
        ('{"version": 1}', "is damaged"),
    ],
)
def test_a_state_of_another_version_is_refused_before_anything_is_read(
    tmp_path: Path, content: str, message: str
) -> None:
    folder = ChangeTableFolder(tmp_path)
    folder.run(*FIRST, B)
    assert folder.state is not None
    (folder.state / "held.json").write_text(content)
    with pytest.raises(FatalError, match=message):
        folder.run(U)
