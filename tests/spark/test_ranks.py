"""Ranks by event time: one place for each record, however the sorted events are cut in batches."""

from __future__ import annotations

import pyarrow as pa
import pytest

from publisher.engine.spark.event_time_ranks import count_ranks, number_ranks

EVENTS = [(5, 1), (5, 1), (5, 2), (7, 1), (7, 1), (7, 1), (8, 3)]
"""Event time and record id."""


def batches(cut: int) -> list[pa.RecordBatch]:
    schema = pa.schema([("event_time", pa.int64()), ("high", pa.int64()), ("rank", pa.int64())])
    schema = schema.append(pa.field("_piece", pa.int32()))
    rows = [dict(zip(schema.names, (*at, 0, 4), strict=True)) for at in EVENTS]
    table = pa.Table.from_pylist(rows, schema).rename_columns([*schema.names[:3], "piece"])
    found: list[pa.RecordBatch] = table.to_batches(max_chunksize=cut)
    return found


@pytest.mark.parametrize("cut", range(1, 8))
def test_the_same_record_again_takes_no_place(cut: int) -> None:
    empty = batches(cut)[0].slice(0, 0)
    (counted,) = count_ranks(iter([empty, *batches(cut)]))
    assert counted.to_pylist() == [{"piece": 4, "events": 4}]
    ranks = [
        rank
        for batch in number_ranks({4: 10})(iter([empty, *batches(cut)]))
        for rank in batch.column("rank").to_pylist()
    ]
    assert ranks == [11, 11, 12, 13, 13, 13, 14]
