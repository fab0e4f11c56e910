"""Files of published states: the newest state of an object counts, whatever was merged or spilled."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.errors import FatalError
from publisher.ledger.object_states import (
    LaneStates,
    StatesBefore,
    StatesOfSource,
    count_to_merge,
    merge_states,
    write_unknown,
)
from publisher.model.published_objects import UNKNOWN, PublishedObject
from tests.support.object_states import read_states

names = st.sampled_from(["idu=1,table=usr", "idu=2", "人=名 & <x>", "a" * 300])
states = st.none() | st.builds(
    lambda values, is_whole: PublishedObject.of(values, is_whole=is_whole),
    st.dictionaries(st.sampled_from(["a", "b"]), st.lists(st.text("ué\n", max_size=3)).map(tuple)),
    st.booleans(),
)

runs = st.lists(st.lists(st.tuples(names, states), max_size=8), max_size=6)


@settings(max_examples=150, deadline=None)
@given(runs, st.booleans(), st.sampled_from([1, 500, 1 << 20]), st.sampled_from([0, 2, 3]))
def test_each_run_reads_the_newest_states(
    runs: list[list[tuple[str, PublishedObject | None]]],
    is_complete: bool,
    bytes_held: int,
    merge: int,
) -> None:
    absent = None if is_complete else UNKNOWN
    expected: dict[str, PublishedObject | None] = {}
    files: list[Path] = []
    with TemporaryDirectory() as name:
        for number, puts in enumerate(runs):
            path = Path(name) / f"{number} # ?.db"
            before = StatesBefore(tuple(map(str, files)), is_complete)
            lane = LaneStates(before, path, bytes_held)
            for association, state in puts:
                lane.put(association, state)
                expected[association] = state
                assert lane.state_of(association) == (absent if state is None else state)
            for association in ("idu=1,table=usr", "idu=2", "never"):
                state = expected.get(association)
                assert lane.state_of(association) == (absent if state is None else state)
            rows = lane.close()
            assert rows == len({association for association, _ in puts})
            assert path.exists() == bool(puts)
            files = [path, *files] if rows else files
            if merge and len(files) > merge:
                merged = Path(name) / f"{number}-merged.db"
                merge_states(files[:merge], merged, is_oldest=merge == len(files))
                files = [merged, *files[merge:]]
        assert read_states(files) == {n: s for n, s in expected.items() if s is not None}


def test_a_merge_with_the_oldest_file_drops_removed_objects(tmp_path: Path) -> None:
    for number, state in enumerate([PublishedObject.of({"a": ("u",)}), None]):
        lane = LaneStates(StatesBefore(), tmp_path / f"{number}.db")
        lane.put("1", state)
        lane.close()
    files = [tmp_path / "1.db", tmp_path / "0.db"]
    assert merge_states(files, tmp_path / "newer.db", is_oldest=False) == 1
    assert merge_states(files, tmp_path / "all.db", is_oldest=True) == 0


def test_refused_objects_are_unknown_even_if_the_state_is_complete(tmp_path: Path) -> None:
    assert write_unknown(tmp_path / "refused.db", ["1"]) == 1
    lane = LaneStates(StatesBefore((str(tmp_path / "refused.db"),), is_complete=True), tmp_path)
    assert lane.state_of("1") == UNKNOWN
    assert lane.state_of("2") is None


def test_sources_with_topics_of_their_own_have_states_of_their_own(tmp_path: Path) -> None:
    lane = LaneStates(StatesBefore(is_complete=True, by_source=True), tmp_path / "lane.db")
    StatesOfSource(lane, "hr").put("1", UNKNOWN)
    assert StatesOfSource(lane, "hr").state_of("1") == UNKNOWN
    assert StatesOfSource(lane, "crm").state_of("1") is None
    lane.close()


@settings(max_examples=200)
@given(st.lists(st.integers(1, 2000), max_size=300))
def test_files_stay_few_and_rows_are_rarely_written_again(sizes: list[int]) -> None:
    rows: list[int] = []
    written = 0
    for size in sizes:
        rows.insert(0, size)
        count = count_to_merge(rows)
        rows[:count] = [sum(rows[:count])] if count else []
        written += rows[0] if count else 0
        assert len(rows) <= 12
    assert written <= 30 * sum(sizes)


def test_a_damaged_file_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "damaged.db"
    path.write_bytes(b"no database" * 500)
    with pytest.raises(FatalError, match=r"damaged\.db .* restore it, or publish once"):
        LaneStates(StatesBefore((str(path),)), tmp_path / "new.db")


def test_a_full_disk_is_an_error_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = LaneStates(StatesBefore(), tmp_path / "lane.db", bytes_held=1)
    lane.put("1", UNKNOWN)
    connect = sqlite3.connect

    def connect_to_a_small_disk(*arguments: object, **options: object) -> sqlite3.Connection:
        file: sqlite3.Connection = connect(*arguments, **options)  # type: ignore[call-overload]
        file.execute("PRAGMA max_page_count = 4")
        return file

    monkeypatch.setattr(sqlite3, "connect", connect_to_a_small_disk)
    small = LaneStates(StatesBefore(), tmp_path / "small.db", bytes_held=1 << 20)
    for number in range(1000):
        small.put(f"{number}" * 40, UNKNOWN)
    with pytest.raises(OSError, match=r"small\.db cannot be written"):
        small.close()
