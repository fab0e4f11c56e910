"""Marks of live change tables are valid only for the table in which they were left."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from publisher.database.identity import TableOrigin
from publisher.errors import FatalError
from publisher.formats.change_table.backlog import ChangeTableBacklog
from publisher.formats.change_table.carry_over import Mark
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


def test_an_accepted_copy_continues_above_the_mark(table: ColumnedTable) -> None:
    replace_file(table)
    table.add((3, "I", 3))
    state = table.state
    with pytest.raises(FatalError) as caught:
        table.run()
    assert "it is in another file. Nothing was published" in caught.value.message
    assert "publish --accept-database once; or give the source another name" in caught.value.message
    assert state is not None
    assert not (state.parent / "state-2").exists()
    assert [record["key"] for record in table.run(accepts_database=True)] == ["idu=3"]
    assert table.run() == []


def test_a_mark_that_skips_no_rows_fits_every_table(tmp_path: Path) -> None:
    live = ColumnedTable(tmp_path)
    assert live.run() == []
    replace_file(live)
    live.add((1, "I", 1))
    assert [record["key"] for record in live.run()] == ["idu=1"]


def test_rows_are_not_counted_by_the_mark_of_another_table(table: ColumnedTable) -> None:
    mark = Mark(seq(2), seq(2), origin=TableOrigin("postgresql:7:5:9", "PostgreSQL hr"))
    waits = ChangeTableBacklog(options(), table.options, "ct")
    with pytest.raises(FatalError, match=r"is not the table of PostgreSQL hr .* another kind"):
        waits.count_after(mark)
    waits.close()
