"""Rows of a parent and a child table in each format, against operations typed from the rules of classes.

The files in ``child_rows/`` hold the operations of transactions that touch both tables.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.runs.publish import publish
from publisher.runs.replay import replay
from tests.golden.stories import operations_in
from tests.golden.test_classes import operations_of
from tests.support.change_table_files import seq
from tests.support.child_rows import CHANGE_TABLE, CLASSES, RECORDERS, FormatName, story

pytestmark = pytest.mark.usefixtures("local_engine")

EXPECTED = Path(__file__).parent / "child_rows"


def replay_files(folder: Path, settings: str, paths: list[Path], lanes: int = 1) -> list[bytes]:
    """Replays files and returns the operations of the documents."""
    path = folder / "job.toml"
    path.write_text(f"{settings}{CLASSES}\n[run]\nlanes = {lanes}\n", "utf-8")
    replay(load(path), paths, str(folder / "documents"))
    return operations_of(folder / "documents")


@pytest.mark.parametrize("format_", RECORDERS)
def test_rows_of_child_tables_are_values_of_the_parents_object(
    tmp_path: Path, format_: FormatName
) -> None:
    recorder = RECORDERS[format_]
    (tmp_path / "in").mkdir()
    found = replay_files(tmp_path, recorder.settings, recorder.write(tmp_path / "in", story()))
    assert found == operations_in(EXPECTED / f"{format_}.xds")


def test_typed_change_tables_give_the_same_documents(tmp_path: Path) -> None:
    found = replay_files(tmp_path, CHANGE_TABLE, [EXPECTED / "change-table"])
    assert found == operations_in(EXPECTED / "change-table.xds")


LIVE = """
CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(64));
CREATE TABLE usr_phone (idu INTEGER NOT NULL REFERENCES usr, phoneno VARCHAR(64) NOT NULL);
INSERT INTO usr VALUES (1, 'John');
INSERT INTO usr_phone VALUES (1, '444-4444'), (1, '333-3333');
CREATE TABLE usr__ct (header__change_seq VARCHAR(35), header__change_oper VARCHAR(1),
  header__change_mask VARCHAR(8), idu INTEGER, fname VARCHAR(64));
CREATE TABLE usr_phone__ct (header__change_seq VARCHAR(35), header__change_oper VARCHAR(1),
  header__change_mask VARCHAR(8), idu INTEGER, phoneno VARCHAR(64));
"""
LIVE_JOB = """
[job]
name = "live"
[database]
url = "sqlite:///{path}"
schema = "indirect"
[classes]
sync_filter = "schema"
child_row_events = "read"
[dispatch]
path = "{out}"
[run]
lanes = 1
"""
LIVE_SOURCE = """
[[sources]]
name = "{name}"
format = "change-table"
table = "{name}__ct"
schema = "indirect"
mask_order = "msb"
key_from_deletes = false
"""


def test_live_change_tables_find_children_by_the_keys_of_the_database(tmp_path: Path) -> None:
    path, out = tmp_path / "hr.db", tmp_path / "out"
    records = [
        ("usr", 1, "I", "18", "John"),
        ("usr_phone", 2, "I", "18", "111-1111"),
        ("usr_phone", 3, "D", "08", "111-1111"),
        ("usr_phone", 4, "U", "10", "333-3333"),
    ]
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(LIVE)
        for table, number, oper, mask, text in records:
            row = (seq(number), oper, mask, 1, text)
            connection.execute(f"INSERT INTO {table}__ct VALUES (?, ?, ?, ?, ?)", row)
        connection.commit()
    job = tmp_path / "job.toml"
    sources = "".join(LIVE_SOURCE.format(name=name) for name in ("usr", "usr_phone"))
    job.write_text(LIVE_JOB.format(path=path, out=out) + sources, "utf-8")
    publish(load(job))
    assert operations_of(out) == operations_in(EXPECTED / "live.xds")
    publish(load(job))
    assert operations_of(out) == operations_in(EXPECTED / "live.xds")
