"""Marks of change tables on disk, and the rows behind a mark."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.database.connection import Database
from publisher.database.identity import TableOrigin
from publisher.database.options import DatabaseOptions
from publisher.database.ordered_ranges import Span, TableExtent
from publisher.errors import FatalError
from publisher.formats.change_table.backlog import ChangeTableBacklog
from publisher.formats.change_table.carry_over import (
    FORM,
    KnownMasks,
    Mark,
    PairWait,
    WindowEntry,
    read_marks,
    write_marks,
)
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.live import table_reader
from publisher.formats.live.find_table import LiveTable
from publisher.formats.live.table_split import TableSplit
from publisher.xds.values import text_of
from tests.support.change_table_files import seq
from tests.support.live_change_tables import ColumnedTable

MARKS = {
    "hr.usr__ct": Mark(
        seq(5),
        seq(2),
        7,
        (WindowEntry(seq(3), 1, 1), WindowEntry(seq(5), 2, 2)),
        1,
        PairWait(seq(9), 12, 3),
        KnownMasks(("a", "b"), {"key": ["a"]}, "msb", 7, ("a",)),
        TableOrigin("sqlite:1", "SQLite ct.db"),
    ),
    "dept__ct": Mark(),
}


def test_marks_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_marks(None) == read_marks(tmp_path) == {}
    write_marks(tmp_path / "state", MARKS)
    assert read_marks(tmp_path / "state") == MARKS


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"version": 3, "tables": {"t": {}}}', '{"version": 3, "tables": {"t": {"x": 1}}}'],
)
def test_damaged_marks_are_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "marks.json").write_text(content)
    with pytest.raises(FatalError, match="publishes all rows of the change tables again"):
        read_marks(tmp_path)


@pytest.mark.parametrize(
    "content", ['{"version": 3, "tables": {}}', '{"version": 5, "tables": {}}']
)
def test_marks_of_another_version_are_refused_with_the_way_out(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "marks.json").write_text(content)
    with pytest.raises(
        FatalError, match="this program reads version 4: use the version that wrote it"
    ):
        read_marks(tmp_path)


VALUES = [
    seq(3),
    seq(1),
    seq(2),
    seq(2),
    seq(4) + "  ",
    None,
    "",
    "abc",
    "9",
    " " + seq(9),
    "x" * 35,
]


@pytest.fixture(params=["VARCHAR(40)", "BLOB"])
def database(tmp_path: Path, request: pytest.FixtureRequest) -> Database:
    with sqlite3.connect(tmp_path / "ct.db") as connection:
        connection.execute(f"CREATE TABLE ct (header__change_seq {request.param}, n INTEGER)")
        connection.executemany(
            "INSERT INTO ct VALUES (?, ?)", [(value, n) for n, value in enumerate(VALUES)]
        )
    return Database(DatabaseOptions(url=f"sqlite:///{tmp_path / 'ct.db'}"))


LIVE = LiveTable("ct", sorted_by="header__change_seq")


@pytest.mark.parametrize(
    ("after", "upto", "others", "rows"),
    [
        (None, seq(9), False, [0, 1, 2, 3, 4]),
        (None, seq(2), False, [1, 2, 3]),
        (seq(1), seq(3), False, [0, 2, 3]),
        (seq(2), seq(2), False, []),
        (None, "", False, []),
        (seq(3), seq(9), True, [4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_a_span_is_read_from_behind_its_mark(
    database: Database, after: str | None, upto: str, others: bool, rows: list[int]
) -> None:
    split: TableSplit[None] = TableSplit(
        0, span=Span("header__change_seq", FORM, after, upto, others)
    )
    frames = table_reader.read(database, LIVE, split, text_of)
    found = [int(n) for frame in frames for n in frame.batch.column("n").to_pylist()]
    assert sorted(found) == rows


def test_what_a_table_has_is_seen(database: Database) -> None:
    split: TableSplit[None] = TableSplit(0)
    assert table_reader.measure_extent(database, LIVE, split, FORM, None) == TableExtent(
        seq(4), 5, 5, 6
    )
    assert table_reader.measure_extent(database, LIVE, split, FORM, seq(2)) == TableExtent(
        seq(4), 5, 3, 6
    )


def test_rows_wait_behind_the_mark(tmp_path: Path) -> None:
    table = ColumnedTable(tmp_path)
    table.add((1, "I", 1), (2, "I", 2), (3, "U", 2))
    waits = ChangeTableBacklog(ChangeTableOptions(), table.options, "ct")
    assert waits.count_after(Mark()).rows == 3
    assert table.run() != []
    mark = table.mark
    table.add((4, "I", 4))
    waiting = waits.count_after(mark)
    assert waiting.rows == 1
    assert (waiting.oldest or 0) > 0
    assert waits.count_after(replace(mark, change_seq=seq(8), floor=seq(8))).oldest is None
    waits.close()
