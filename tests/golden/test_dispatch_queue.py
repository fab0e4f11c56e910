"""Rows typed by hand (``dispatch-queue/story.hex``) to documents (``story.xds``), through survey, lanes and
planner as in a run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from publisher.formats.dispatch_queue import DispatchQueue, DispatchQueueOptions
from publisher.formats.dispatch_queue.options import QueueTable
from publisher.model.change import Outcome
from tests.golden.stories import count_outcomes, operations_in, plan_story, typed_lines, work_of

HERE = Path(__file__).parent / "dispatch-queue"
USR = QueueTable(
    number=7,
    name="usr",
    schema="hr",
    columns=("idu INTEGER", "fname CHAR(6)", "pay DECIMAL(9,2)", "photo BLOB(4)"),
    key=("idu",),
)
SOURCE = DispatchQueue(
    DispatchQueueOptions(tables=(USR,), null_mode="byte_before", null_flag=1, image_charset="cp866")
)


def typed_queue() -> bytes:
    rows = []
    for line in typed_lines(HERE / "story.hex"):
        head, names, data = line.split("|")
        texts = [*names.split(), "", "", ""]
        padded = [text.encode().ljust(size) for text, size in zip(texts, (8, 66, 66), strict=False)]
        row = bytes.fromhex(head) + b"".join(padded)
        assert len(row) == 196
        rows.append(row + bytes.fromhex(data).ljust(3400, b"\0"))
    return b"".join(rows)


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The table as it was when the BLOB was asked for."""
    with sqlite3.connect(tmp_path / "hr.db") as connection:
        connection.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname, pay, photo BLOB)")
        connection.execute("INSERT INTO usr VALUES (3, 'Joe', NULL, X'FFD8')")
    connection.close()
    return f"sqlite:///{tmp_path / 'hr.db'}"


@pytest.mark.parametrize("splits", [1, 100])
def test_the_story_gives_its_documents(splits: int, database: str, tmp_path: Path) -> None:
    path = tmp_path / "queue.dat"
    path.write_bytes(typed_queue())
    work = work_of(SOURCE, path, splits, database)
    assert len(work.splits()) == (1 if splits == 1 else 10)
    result, published = plan_story(work, tmp_path)
    assert published == operations_in(HERE / "story.xds")
    assert count_outcomes(result) == {
        (Outcome.PUBLISHED, None): 5,
        (Outcome.IGNORED, "duplicate"): 1,
        (Outcome.IGNORED, "commit"): 2,
        (Outcome.IGNORED, "rollback"): 2,
        (Outcome.HELD, "open-transaction"): 1,
    }
    assert sum(framed for _, framed in result.tallies) == 11
