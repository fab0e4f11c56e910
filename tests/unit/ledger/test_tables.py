"""Packed rows of a run: what was packed comes back, and damage is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from publisher.errors import FatalError
from publisher.ledger.tables import (
    LOOKUPS,
    RECORDS,
    TABLES,
    RunTable,
    by_lane,
    number_rows,
    pack,
    unpack,
)
from publisher.model.change import Outcome
from tests.support.planned_ledgers import record


def lane(*numbers: int, **more: Any) -> pa.Table:
    """The records of a lane."""
    rows = [dict(record(number, Outcome.PUBLISHED, **more)) for number in numbers]
    return pa.Table.from_pylist(rows, RECORDS.schema)


def in_pieces(*numbers: int) -> pa.Table:
    """The records of a lane in several chunks."""
    return pa.concat_tables([lane(number, key=f"idu={number}") for number in numbers])


@pytest.mark.parametrize(
    "lanes",
    [
        [lane(1)],
        [lane(1, 2), lane(), lane(3)],
        [lane(), lane(), lane(7)],
        [lane(7), lane()],
        [in_pieces(5, 6, 7), in_pieces(1), lane()],
        [lane(*range(1_000), key="idu=ä", columns=["a", "b"], children=[None, "x"])],
    ],
)
def test_rows_come_back_by_lane(lanes: Sequence[pa.Table]) -> None:
    rows = unpack(RECORDS, pack(RECORDS, lanes), "job-000001")
    assert rows.schema.names == ["lane", *RECORDS.schema.names]
    found = by_lane(rows, len(lanes))
    assert [table.to_pylist() for table in found] == [each.to_pylist() for each in lanes]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_rows_need_no_place(table: RunTable) -> None:
    lanes = [table.schema.empty_table()] * 3
    assert pack(table, lanes) is pack(table, []) is None
    rows = unpack(table, None, "job-000001")
    assert [part.num_rows for part in by_lane(rows, 3)] == [0, 0, 0]
    assert number_rows(rows, 7).schema.names == table.numbered.names


def test_rows_are_numbered_as_in_the_files_of_an_hour() -> None:
    lanes = [pa.Table.from_pylist([{"source": 0, "key": "idu=1"}], LOOKUPS.schema)] * 2
    rows = number_rows(unpack(LOOKUPS, pack(LOOKUPS, lanes), ""), 12)
    assert rows.schema.equals(LOOKUPS.numbered)
    assert rows.select(["run", "lane", "key"]).to_pylist() == [
        {"run": 12, "lane": number, "key": "idu=1"} for number in range(2)
    ]


def flip(packed: bytes, at: int) -> bytes:
    """Changes one byte."""
    place = at % len(packed)
    return packed[:place] + bytes([packed[place] ^ 0xFF]) + packed[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one-byte": lambda _: b"x",
    "no-rows": lambda packed: packed[:12],
    "few-rows": lambda packed: packed[:40],
    "cut": lambda packed: packed[:-1],
    "doubled": lambda packed: packed + packed,
} | {f"byte{at}": partial(flip, at=at) for at in (0, 8, 11, 12, 20, 100, -20, -1)}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_rows_are_named(damage: Callable[[bytes], bytes]) -> None:
    packed = pack(RECORDS, [lane(*range(50), key="idu=1")])
    assert packed is not None
    with pytest.raises(FatalError) as found:
        unpack(RECORDS, damage(packed), "job-000004")
    assert found.value.message == (
        "the records of run job-000004 in the ledger are damaged: restore the ledger from a copy"
    )
