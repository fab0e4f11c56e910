"""Answers of a database from the journal of a run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.engine.recorded_database import RecordedLookup, write_lookups
from publisher.journal.decisions import DECISION_SCHEMA
from publisher.journal.lane_writer import LaneNames, LaneResult
from publisher.journal.lookups import LookupAnswer, LookupLog
from publisher.planning.query_back import CurrentRow
from tests.support.planning import USR, USR_2


def test_rows_are_read_in_the_order_of_their_look_ups_in_any_thread(tmp_path: Path) -> None:
    names = LaneNames(0)
    log = LookupLog(tmp_path / names.lookups)
    objects = pa.RecordBatch.from_pylist([USR._asdict(), USR_2._asdict()])
    log.add_rows(
        0, objects, np.array([0, 0]), ("idu", "a"), [pa.array(["1", "2"]), pa.nulls(2, pa.string())]
    )
    log.add(0, USR, 3, LookupAnswer.GONE, None)
    log.close()
    pq.write_table(DECISION_SCHEMA.empty_table(), tmp_path / names.decisions)
    result = LaneResult(0, "", 0, 0, (), (), (), "", lookups=log.count)
    write_lookups(tmp_path, [result], tmp_path / "lookups.db")
    lookup = RecordedLookup(tmp_path / "lookups.db", 0, None)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(lookup.read, [USR, USR_2]).result()
        second = thread.submit(lookup.answers, [USR]).result()
    lookup.close()
    assert [answer for rows in first.rows for answer in rows.answers()] == [
        (0, CurrentRow(("idu", "a"), ("1", None))), (1, CurrentRow(("idu", "a"), ("2", None))),
    ]  # fmt: skip
    assert second == {USR: None}
