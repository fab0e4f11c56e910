"""The answers to look-ups are written in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.ledger import lookups
from publisher.ledger.lookups import LookupAnswer, LookupLog
from publisher.ledger.table_writer import TableWriter
from publisher.ledger.tables import LOOKUPS
from publisher.model.change import Object


def add_rows(log: LookupLog, *numbers: int) -> None:
    objects = pa.record_batch(
        [["s"] * len(numbers), ["usr"] * len(numbers), [f"idu={n}" for n in numbers]],
        names=["schema", "table", "key"],
    )
    values = [pa.array([str(n) for n in numbers])]
    log.add_rows(0, objects, np.zeros(len(numbers), np.int64), ["idu"], values)


def add_gone(log: LookupLog, number: int) -> None:
    log.add(0, Object("s", "usr", f"idu={number}"), 0, LookupAnswer.GONE, None)


def texts_of(table: pa.Table) -> list[str]:
    assert table["text"].is_null().to_pylist() == [a == "gone" for a in table["answer"].to_pylist()]
    return table["key"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("spills", [False, True])
@pytest.mark.parametrize("rows_to_write", [1, 3, 5_000])
def test_rows_and_single_answers_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_to_write: int, spills: bool
) -> None:
    monkeypatch.setattr(lookups, "_SINGLES", rows_to_write)
    table = TableWriter(tmp_path / "lookups", LOOKUPS)
    if spills:
        table.spill()
    log = LookupLog(table)
    add_gone(log, 0)
    add_rows(log, 1, 2)
    add_gone(log, 3)
    add_gone(log, 4)
    add_rows(log, 5)
    add_rows(log, 6, 7)
    add_gone(log, 8)
    log.close()
    assert table.count == 9
    rows = table.close()
    assert (rows is None) == spills
    assert texts_of(pq.read_table(table.path) if rows is None else rows) == [
        f"idu={n}" for n in range(9)
    ]
