"""Packed records come out again: all of them, lane by lane, in order, a block at a time."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats import record_packing
from publisher.formats.record_packing import (
    KEYS,
    pack,
    sort_lanes,
    unpack,
)
from publisher.model.record_schema import RECORD_SCHEMA

ORDER = ["source", "part", "rank", "high", "low", "ordinal", "split", "row"]


def record(**values: Any) -> dict[str, Any]:
    base = {"source": 0, "lane": 0, "part": "", "rank": 1, "high": 1, "low": 0, "ordinal": 0}
    return {
        **dict.fromkeys(RECORD_SCHEMA.names),
        **base,
        "split": 0,
        "row": 1,
        "records": 1,
        **values,
    }


def batches(records: Sequence[dict[str, Any]], size: int = 7) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pylist(list(records[start : start + size]), schema=RECORD_SCHEMA)
        for start in range(0, len(records), size)
    ]


def lanes(pieces: list[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    """Returns the pieces of each lane sorted by their keys, as the shuffle does."""
    table = pa.Table.from_batches(pieces)
    order = [(name, "ascending", "at_start") for name in KEYS]
    table = table.take(pa.compute.sort_indices(table, sort_keys=order))
    return {
        lane: list(unpack(table.filter(pa.compute.field("lane") == lane).to_batches()))
        for lane in table["lane"].unique().to_pylist()
    }


def rows(found: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in found for row in batch.to_pylist()]


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ORDER)


ranks = st.one_of(st.integers(1, 5), st.integers(1, 1 << 40))


@given(
    st.lists(
        st.builds(
            record,
            source=st.integers(0, 1),
            lane=st.integers(0, 3),
            part=st.sampled_from(["node-2", "", "node-1"]),
            rank=ranks,
            high=st.integers(0, 9),
            split=st.integers(0, 2),
            columns=st.lists(st.text(), max_size=2),
            new=st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text()), max_size=2)),
        ),
        max_size=40,
    )
)
def test_every_record_comes_out_in_its_lane_and_in_order(records: list[dict[str, Any]]) -> None:
    numbered = [{**entry, "row": number} for number, entry in enumerate(records)]
    wanted = {
        lane: sorted((r for r in numbered if r["lane"] == lane), key=place)
        for lane in {r["lane"] for r in numbered}
    }
    found = {} if not records else lanes(list(pack(batches(numbered))))
    assert {lane: rows(out) for lane, out in found.items()} == wanted
    whole = [pa.concat_batches(batches(numbered))] if numbered else []
    lanes_together = [lane for batch in whole for lane in sort_lanes(batch)]
    assert {lane: rows([out]) for lane, out in lanes_together} == wanted
    assert len(lanes_together) == len(wanted)


unranked = st.builds(
    record,
    part=st.sampled_from(["b", None, "", "a"]),
    rank=st.sampled_from([None, 0, 1, 2, 1 << 20]),
    high=st.integers(0, 3),
    split=st.integers(0, 2),
    row=st.integers(0, 1 << 18),
)


@given(st.lists(unranked, min_size=1, max_size=40))
def test_records_that_are_not_packed_have_the_order_of_packed_records(
    records: list[dict[str, Any]],
) -> None:
    together = pa.concat_batches(batches(records))
    ((_, in_order),) = sort_lanes(together)
    (packed,) = lanes(list(pack(batches(records)))).values()
    assert rows([in_order]) == rows(packed)


def test_a_block_at_a_time_is_held_whatever_the_order_of_the_input() -> None:
    size = 1 << record_packing.BLOCK_BITS
    ranks_ = [1 + (number * 7919) % (8 * size) for number in range(0, 8 * size, 16)]
    records = [record(rank=rank, row=number) for number, rank in enumerate(ranks_)]
    out = lanes(list(pack(batches(records, 1000))))[0]
    assert sum(batch.num_rows for batch in out) == len(records)
    assert max(batch.num_rows for batch in out) < size // 16 + record_packing.ROWS_TOGETHER


def test_blocks_of_few_records_come_together() -> None:
    size = 1 << record_packing.BLOCK_BITS
    records = [record(rank=1 + number * size, row=number) for number in range(2_000)]
    out = lanes(list(pack(batches(records, 1000))))[0]
    assert [batch.num_rows for batch in out] == [2_000]
    assert out[0].column("rank").to_pylist() == [1 + number * size for number in range(2_000)]


def test_records_without_rank_are_cut_by_their_place() -> None:
    count = (1 << record_packing.BLOCK_BITS) * 2
    records = [record(rank=0, row=number) for number in range(count)]
    out = lanes(list(pack(batches(records, 5000))))[0]
    assert [r["row"] for r in rows(out)] == list(range(count))
    assert len(out) == 2


def test_large_values_make_small_pieces() -> None:
    value = "x" * (record_packing.PIECE_BYTES // 3)
    records = [record(rank=rank, new=[value]) for rank in range(1, 11)]
    pieces = list(pack(batches(records, 4)))
    assert (
        max(len(data) for p in pieces for data in p["data"].to_pylist())
        < record_packing.PIECE_BYTES * 1.1
    )
    out = lanes(pieces)[0]
    assert [r["rank"] for r in rows(out)] == list(range(1, 11))
    assert max(batch.nbytes for batch in out) < record_packing.BYTES + record_packing.PIECE_BYTES
