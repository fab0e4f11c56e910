"""Rows come out sorted, all of them, whatever the memory; files are removed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from publisher.engine.local.external_sort import ExternalSort

SCHEMA = pa.schema([("lane", pa.int32()), ("part", pa.string()), ("row", pa.int64())])
Row = tuple[int, str | None]
rows = st.tuples(st.integers(0, 3), st.sampled_from([None, "", "a", "é", "\U0001f600"]))


def sort(batches: Sequence[Sequence[Row]], folder: Path, memory: int) -> tuple[list[Row], int]:
    """The sorted rows, and the number of files that they came from."""
    number = 0
    with ExternalSort(SCHEMA, ("lane", "part"), folder, memory=memory) as sorter:
        for batch in batches:
            lanes, parts = ([row[at] for row in batch] for at in (0, 1))
            numbers = range(number, number := number + len(batch))
            sorter.add(pa.record_batch([lanes, parts, numbers], schema=SCHEMA))
        found = [row for batch in sorter.sorted_batches() for row in batch.to_pylist()]
        files = sum(path.is_file() for path in folder.rglob("*"))
    assert not list(folder.iterdir())
    assert sorted(row["row"] for row in found) == list(range(number))
    return [(row["lane"], row["part"]) for row in found], files


@given(st.lists(st.lists(rows, max_size=6), max_size=8), st.sampled_from([0, 60, 1 << 20]))
def test_any_memory_gives_the_same_order(batches: list[list[Row]], memory: int) -> None:
    with TemporaryDirectory() as name:
        found, files = sort(batches, Path(name), memory)
    assert found == sorted(
        (row for batch in batches for row in batch),
        key=lambda row: (row[0], row[1] is not None, (row[1] or "").encode()),
    )
    if memory == 0:
        assert files == sum(bool(batch) for batch in batches)
    elif memory > 1_000:
        assert files == 0
