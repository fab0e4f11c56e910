"""Marks of live change tables are valid only for the table in which they were left."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.database.identity import difference
from publisher.errors import FatalError
from publisher.sources.change_table.backlog import ChangeTableBacklog
from publisher.sources.change_table.carry_over import Mark, MarkOrigin
from publisher.sources.change_table.origin import CurrentTable, span_at
from tests.support.change_table_files import options, seq
from tests.support.live_change_tables import ColumnedTable


@pytest.fixture
def table(tmp_path: Path) -> ColumnedTable:
    live = ColumnedTable(tmp_path)
    live.add((1, "I", 1), (2, "I", 2, "Bob"))
    assert len(live.run()) == 2
    return live


def replace_file(table: ColumnedTable, *statements: str) -> None:
    """Replaces the file of the table by a copy, as a restore does, and changes the copy by statements."""
    path = Path(str(table.options.url).removeprefix("sqlite:///"))
    copied = path.with_name("copied.db")
    shutil.copyfile(path, copied)
    with sqlite3.connect(copied) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    copied.rename(path)


def test_a_restored_copy_continues_above_the_mark(table: ColumnedTable) -> None:
    replace_file(table)
    table.add((3, "I", 3))
    assert [record["key"] for record in table.run()] == ["idu=3"]
    replace_file(table, "ALTER TABLE ct ADD COLUMN later VARCHAR(9)")
    assert table.run() == []


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM ct",
        "UPDATE ct SET fname = 'Tom' WHERE idu = 2",
        f"UPDATE ct SET header__change_seq = '{seq(1)}'",
    ],
)
def test_a_copy_without_the_rows_at_the_mark_is_another_table(
    table: ColumnedTable, statement: str
) -> None:
    replace_file(table, statement)
    state, mark = table.state, table.mark
    with pytest.raises(FatalError) as caught:
        table.run()
    assert f"up to change_seq {seq(2)}: it lacks a row" in caught.value.message
    assert "give the source another name" in caught.value.message
    assert state is not None
    assert not (state.parent / "state-2").exists()
    assert mark.origin.rows


def test_rows_at_the_mark_may_be_purged_from_the_same_table(table: ColumnedTable) -> None:
    table.remove(1, 2)
    assert table.run() == []
    replace_file(table)
    with pytest.raises(FatalError, match="a row that was read"):
        table.run()
    table.add((2, "I", 2, "Bob"))  # the mark still remembers its rows
    assert [record["key"] for record in table.run()] == ["idu=2"]  # the row is inserted again, late


def test_a_mark_without_rows_proves_nothing(table: ColumnedTable) -> None:
    now = CurrentTable("people", "ct", "SQLite ct.db", None)
    with pytest.raises(FatalError, match=r"source people: table ct .* no remembered row shows"):
        now.verify_rows(replace(table.mark, origin=MarkOrigin()), [], [])


def test_a_mark_that_skips_no_rows_fits_every_table(tmp_path: Path) -> None:
    live = ColumnedTable(tmp_path)
    assert live.run() == []
    replace_file(live)
    live.add((1, "I", 1))
    assert [record["key"] for record in live.run()] == ["idu=1"]


def test_rows_are_not_counted_by_the_mark_of_another_table(table: ColumnedTable) -> None:
    mark = Mark(seq(2), seq(2), origin=MarkOrigin("postgresql:7:5:9", "PostgreSQL hr"))
    waits = ChangeTableBacklog(options(), table.options, "ct")
    with pytest.raises(FatalError, match=r"is not the table of PostgreSQL hr .* another kind"):
        waits.count_after(mark)
    waits.close()


def test_a_difference_names_what_differs() -> None:
    before = "postgresql:7:5:9"
    assert difference(before, "postgresql:7:5:8") == "its table number is 8, not 9"
    assert difference(before, "postgresql:6:4:9") == (
        "its system identifier is 6, not 7, its database number is 4, not 5"
    )


def test_the_span_of_the_first_change_seq_has_no_lower_end() -> None:
    assert span_at("s", "0" * 35).after is None
    assert span_at("s", seq(2)).after == f"{int(seq(2)) - 1:035d}"
