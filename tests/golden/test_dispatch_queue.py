"""Rows typed by hand (``dispatch-queue/story.hex``) to documents (``story.xds``), through survey, lanes and
planner as in a run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from lxml import etree

from publisher.change import Outcome
from publisher.database import DatabaseOptions
from publisher.filters import FilterOptions
from publisher.keys import IdentifierCase
from publisher.sources.dispatch_queue import DispatchQueue, Options
from publisher.sources.dispatch_queue.options import QueueTable
from publisher.surveys import survey_splits, surveyed
from publisher.tasks import Rules, SourceWork, Work
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions
from tests.unit.task_runs import plan_all, read_all

HERE = Path(__file__).parent / "dispatch-queue"
USR = QueueTable(
    number=7,
    name="usr",
    schema="hr",
    columns=("idu INTEGER", "fname CHAR(6)", "pay DECIMAL(9,2)", "photo BLOB(4)"),
    key=("idu",),
)
SOURCE = DispatchQueue(
    Options(tables=(USR,), null_mode="byte_before", null_flag=1, image_charset="cp866")
)


def typed() -> bytes:
    rows = []
    for line in (HERE / "story.hex").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        head, names, data = line.split("|")
        texts = [*names.split(), "", "", ""]
        padded = [text.encode().ljust(size) for text, size in zip(texts, (8, 66, 66), strict=False)]
        row = bytes.fromhex(head) + b"".join(padded)
        assert len(row) == 196
        rows.append(row + bytes.fromhex(data).ljust(3400, b"\0"))
    return b"".join(rows)


def work_of(path: Path, splits: int, database: str) -> Work:
    source = SourceWork(
        name="queue",
        source=SOURCE,
        splits=tuple(SOURCE.splits([path], splits)),
        filters=FilterOptions(),
        polls=None,
        identifier_case=IdentifierCase.AS_WRITTEN,
    )
    rules = Rules(
        DocumentOptions(), EnvelopeOptions(), ValueOptions(), (), DatabaseOptions(url=database)
    )
    return surveyed(Work(sources=(source,), rules=rules, lanes=1, clock=0), survey_splits)


def operations(lines: list[str]) -> list[bytes]:
    elements = [etree.fromstring(line) for line in lines]
    return [
        etree.tostring(operation, method="c14n")
        for element in elements
        for operation in element.findall("input/*") or [element]
    ]


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
    path.write_bytes(typed())
    work = work_of(path, splits, database)
    assert len(work.splits()) == (1 if splits == 1 else 10)
    (result,) = plan_all(work, read_all(work), tmp_path)
    (part,) = (tmp_path / "documents").rglob("*.xds")
    expected = (HERE / "story.xds").read_text("utf-8").splitlines()
    assert operations(part.read_text("utf-8").splitlines()) == operations(expected)
    assert {(count.outcome, count.reason): count.records for count in result.counts} == {
        (Outcome.PUBLISHED, None): 5,
        (Outcome.IGNORED, "duplicate"): 1,
        (Outcome.IGNORED, "commit"): 2,
        (Outcome.IGNORED, "rollback"): 2,
        (Outcome.HELD, "open-transaction"): 1,
    }
    assert sum(framed for _, framed in result.tallies) == 11
