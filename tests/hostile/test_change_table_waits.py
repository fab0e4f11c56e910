"""Pairs of a change table that do not fit, and pairs that wait by a clock; through the command line."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Ended, run_program

COLUMNS = "header__change_seq,header__change_oper,idu,fname"
SOURCE = """
[[sources]]
name = "ct"
format = "change-table"
key = ["idu"]
images = "full"
pair_wait = {wait}
{place}
[dispatch]
path = "out"
[run]
engine = "local"
"""
FILES = 'snapshots = ["hr.people__ct"]'
LIVE = 'table = "people__ct"\nsource_table = "people"'
DATABASE = '[database]\nurl = "sqlite:///{folder}/ct.db"\n'
PAIR = "B,1,old", "B,1,other", "U,1,new"


class ChangeTableJob:
    """A job and its change table: a folder of files, or a table of SQLite."""

    def __init__(self, folder: Path, wait: float, *, live: bool) -> None:
        self.folder, self.live = folder, live
        text = SOURCE.format(wait=wait, place=LIVE if live else FILES)
        (folder / "job.toml").write_text(text + (DATABASE.format(folder=folder) if live else ""))
        (folder / "hr.people__ct").mkdir()
        with sqlite3.connect(folder / "ct.db") as connection:
            connection.execute(f"CREATE TABLE people__ct ({COLUMNS})")
            connection.execute("CREATE TABLE people (idu INTEGER PRIMARY KEY, fname TEXT)")

    def add(self, name: str, *rows: str, seq: int = 1) -> None:
        lines = [f"2026030110000000{seq:019d},{row}" for row in rows]
        if self.live:
            with sqlite3.connect(self.folder / "ct.db") as connection:
                values = [line.split(",") for line in lines]
                connection.executemany("INSERT INTO people__ct VALUES (?, ?, ?, ?)", values)
        else:
            text = "\n".join([COLUMNS, *lines, ""])
            (self.folder / "hr.people__ct" / name).write_text(text)

    def publish(self, *words: str) -> Ended:
        return run_program("publish", "-c", self.folder / "job.toml", *words)

    def documents(self) -> str:
        parts = sorted((self.folder / "out" / "runs").rglob("part-*.xds"))
        return "".join(part.read_text() for part in parts)

    def rejects(self) -> list[dict[str, Any]]:
        paths = sorted((self.folder / "out" / "runs").rglob("rejects.jsonl"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.mark.parametrize("rows", [PAIR, PAIR[::-1], (PAIR[0], PAIR[2], PAIR[1])])
@pytest.mark.parametrize("live", [False, True])
def test_two_before_images_of_one_update_are_rejected_with_it(
    tmp_path: Path, live: bool, rows: tuple[str, ...]
) -> None:
    job = ChangeTableJob(tmp_path, 0, live=live)
    job.add("1.csv", *rows)
    job.add("2.csv", "B,2,a", "U,2,b", seq=2)
    ended = job.publish()
    assert ended.code == 4, ended.text
    assert [reject["reason"] for reject in job.rejects()] == ["double-record"] * 3
    for reject in job.rejects():
        places = re.findall(r"record (\d+)", reject["detail"])
        assert len(places) == 2
        if not live:
            assert reject["detail"].count("1.csv") == 2
    assert re.findall(r"<value type=\"string\">(\w+)</value>", job.documents()) == ["a", "b"]


def test_two_before_images_in_two_files_are_named_with_their_files(tmp_path: Path) -> None:
    job = ChangeTableJob(tmp_path, 0, live=False)
    job.add("1.csv", PAIR[0], PAIR[2])
    job.add("2.csv", PAIR[1])
    assert job.publish().code == 4
    assert {reject["reason"] for reject in job.rejects()} == {"double-record"}
    for reject in job.rejects():
        assert "1.csv, record 2, and 2.csv, record 2, are different" in reject["detail"]
    assert job.documents() == ""


def test_a_repeated_before_image_is_still_a_copy(tmp_path: Path) -> None:
    job = ChangeTableJob(tmp_path, 0, live=False)
    job.add("1.csv", PAIR[0], PAIR[0], PAIR[2])
    ended = job.publish()
    assert ended.code == 0, ended.text
    assert "old" in job.documents()


@pytest.mark.parametrize("live", [False, True])
def test_a_record_does_not_wait_for_a_clock_that_was_wrong(tmp_path: Path, live: bool) -> None:
    """The run that began the wait ran two hours ahead; the wait begins again with the right clock."""
    job = ChangeTableJob(tmp_path, 3, live=live)
    job.add("1.csv", "B,2,a", "U,2,b", seq=1)
    job.add("2.csv", "U,1,new", seq=2)
    held = job.publish("--now", "2026-03-01T14:00:00Z")
    assert "new" not in job.documents(), held.text
    job.publish("--now", "2026-03-01T12:00:00Z")
    assert "new" not in job.documents()
    ended = job.publish("--now", "2026-03-01T12:00:04Z")
    assert "new" in job.documents(), ended.text
