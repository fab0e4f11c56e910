"""Answers of a database from the journal of a run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.engine.recorded_database import RecordedRows, write_lookups
from publisher.errors import UsageError
from publisher.journal.decisions import DECISION_SCHEMA
from publisher.journal.lane_result import LaneNames, LaneResult
from publisher.journal.lookups import LookupAnswer, LookupLog
from publisher.model.change import Object
from publisher.model.change_batches import batch_of_objects
from publisher.planning.query_back import Answer, CurrentRow
from publisher.planning.row_readers import RowQuestion
from tests.support.planning import USR, USR_2

USR_9 = USR._replace(key="idu=9")


def row(key: str, value: str | None) -> CurrentRow:
    return CurrentRow(("idu", "a"), (key, value))


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[RecordedRows]:
    """Rows of polls of ten ranks; the key of USR becomes that of USR_9."""
    names = LaneNames(0)
    log = LookupLog(tmp_path / names.lookups)
    objects = batch_of_objects([USR, USR_2])
    values = [pa.array(["1", "2"]), pa.nulls(2, pa.string())]
    log.add_rows(0, objects, np.array([2, 2]), ("idu", "a"), values)
    log.add(0, USR, 3, LookupAnswer.GONE, None)
    log.add(0, USR, 5, LookupAnswer.ROW, '{"idu": "9", "a": "x"}', USR_9.key)
    log.add(0, USR_9, 5, LookupAnswer.ROW, '{"idu": "9", "a": "y"}')
    log.close()
    pq.write_table(DECISION_SCHEMA.empty_table(), tmp_path / names.decisions)
    result = LaneResult(0, "", 0, 0, (), (), (), "", lookups=log.count)
    write_lookups(tmp_path, [result], tmp_path / "lookups.db")
    with closing(RecordedRows(tmp_path / "lookups.db", 0, 10, None)) as opened:
        yield opened


def test_rows_are_read_by_their_polls_in_any_thread(rows: RecordedRows) -> None:
    objects, ranks = batch_of_objects([USR, USR_2, USR, USR]), np.array([21, 99, 31, 30])
    with ThreadPoolExecutor(1) as thread:
        read = thread.submit(rows.read, objects, ranks).result()
    assert [answer for part in read.rows for answer in part.answers()] == [
        (0, row("1", None)), (1, row("2", None)), (3, row("1", None)),
    ]  # fmt: skip
    assert read.others == {2: None}


@pytest.mark.parametrize(
    ("obj", "found", "rank", "answer"),
    [
        (USR, USR, 1, row("1", None)),  # the first one, if there is none before
        (USR, USR, 41, None),  # the last one before, if there is none for the poll
        (USR, USR_9, 60, row("9", "x")),
        (USR_9, USR_9, 60, row("9", "y")),
        (USR_2, USR_9, 1, row("9", "x")),
    ],
)
def test_an_answer_is_of_the_row_and_the_poll(
    rows: RecordedRows, obj: Object, found: Object, rank: int, answer: Answer
) -> None:
    assert rows.answers([RowQuestion(obj, rank, found, None)]) == [answer]


def test_another_row_is_refused(rows: RecordedRows) -> None:
    with pytest.raises(UsageError, match=r"does not have the row of idu=9 of indirect\.dept"):
        rows.answers([RowQuestion(USR, 21, USR_9._replace(table="dept"), None)])
