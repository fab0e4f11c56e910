"""The index of the keys of a lane: every key of the lane is found, and other lanes are not read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.errors import FatalError
from publisher.journal import key_index
from publisher.journal.key_index import KeyIndexBuilder, may_have_keys
from publisher.journal.lane_reader import LaneReader
from tests.support.planned_journals import LANES, plan_small_log

keys = st.lists(st.none() | st.text(max_size=4), max_size=9)


def write_index(path: Path, *batches: list[str | None]) -> Path:
    builder = KeyIndexBuilder(path)
    for batch in batches:
        builder.add(pa.array(batch, pa.string()))
    builder.close()
    return path


@given(st.lists(keys, max_size=5), st.text(max_size=4))
def test_every_key_is_found_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str | None]], other: str
) -> None:
    path = write_index(tmp_path_factory.mktemp("index") / "keys", *batches)
    all_keys = {key for batch in batches for key in batch if key is not None}
    assert all(may_have_keys(path, [key, "idu=absent"]) for key in all_keys)
    assert may_have_keys(path, [other]) == (other in all_keys)


def test_hashes_wait_in_the_file_until_they_are_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "_AT_ONCE", 3)
    batches: list[list[str | None]] = [[f"idu={n % 5}", f"idu={n}"] for n in range(50)]
    path = write_index(tmp_path / "keys", *batches)
    assert path.stat().st_size == 4 * 50
    assert all(may_have_keys(path, [f"idu={n}"]) for n in range(50))


def test_a_lane_without_index_may_have_any_key(tmp_path: Path) -> None:
    assert may_have_keys(tmp_path / "absent", ["idu=1"])


def test_a_truncated_index_is_damage(tmp_path: Path) -> None:
    path = write_index(tmp_path / "keys", ["idu=1", "idu=2"])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FatalError, match="is damaged: remove it"):
        may_have_keys(path, ["idu=1"])


def test_only_lanes_that_may_have_the_key_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, manifest = plan_small_log(tmp_path / "run")
    journal.commit(manifest)
    opened: list[str] = []
    open_file = pq.ParquetFile

    def watch(path: Path) -> pq.ParquetFile:
        opened.append(path.name)
        return open_file(path)

    monkeypatch.setattr(pq, "ParquetFile", watch)
    lanes = [LaneReader(journal.root, tmp_path, lane) for lane in range(LANES)]
    records = [record for lane in lanes for record in lane.by_key(frozenset({"idu=3"}))]
    assert len(records) == 7
    assert len(opened) == len({record.lane for record in records}) == 1
    assert not [record for lane in lanes for record in lane.by_key(frozenset({"idu=99"}))]
    assert len(opened) == 1
