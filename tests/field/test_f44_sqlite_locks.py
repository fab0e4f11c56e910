"""A lock of SQLite is waited for, and a read-only place is named.

``database is locked`` came at once under a concurrent writer; a WAL database in a read-only directory
could not be opened, with a misleading message.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.field.kafka_jobs import LOG, USR, log_values, make_log
from tests.services.databases import sqlite_place
from tests.support.workbench import Workbench

NOBODY = 65534
COMPARED = """
[[sources]]
name = "cmp"
format = "triggerless"
tables = ["usr"]
[database]
url = "sqlite:///shared/app.db"
[dispatch]
path = "out"
"""
JOB = """
[[sources]]
name = "log"
table = "log"
[database]
url = "sqlite:///app.db"
[dispatch]
path = "out"
[run]
engine = "local"
"""


def test_a_locked_database_is_waited_for(bench: Workbench) -> None:
    place = make_log(bench.folder)
    log_values(place, dict.fromkeys(range(20), "a"))
    bench.write("job.toml", JOB)
    with closing(sqlite3.connect(bench.folder / "app.db", check_same_thread=False)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(3, writer.rollback)
        timer.start()
        done = bench.run("publish", "-c", "job.toml", codes=[0, 5])
        timer.join()
    if done.code:
        assert "locked" in done.err
        bench.publish()
    assert place.query("SELECT DISTINCT status FROM log") == [("S",)]
    assert len(bench.lines()) == 20


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_rows_of_a_busy_writer_are_all_published(bench: Workbench, mode: str) -> None:
    place = sqlite_place(bench.folder / "app.db")
    place.execute(f"PRAGMA journal_mode = {mode}", LOG, USR)
    bench.write("job.toml", JOB)

    def write() -> None:
        with closing(sqlite3.connect(bench.folder / "app.db", timeout=30)) as connection:
            for number in range(1, 101):
                with connection:
                    connection.execute(
                        "INSERT INTO log (record_id, table_key, event_type, table_name,"
                        " column_name, new_value) VALUES (?, ?, 3, 'usr', 'fname', 'x')",
                        (number, f"idu={number}"),
                    )

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        bench.publish(codes=[0, 5])
    writer.join()
    bench.publish()
    assert len(bench.objects()) == len(bench.lines()) == 100
    assert place.query("SELECT DISTINCT status FROM log") == [("S",)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be without rights")
def test_a_log_in_a_read_only_directory_is_read_or_named() -> None:
    with tempfile.TemporaryDirectory() as name:
        bench = Workbench(Path(name))
        folder = bench.folder / "shared"
        folder.mkdir()
        with closing(sqlite3.connect(folder / "app.db")) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE usr (idu integer PRIMARY KEY, v text)")
            connection.execute("INSERT INTO usr VALUES (1, 'a')")
            connection.commit()
        bench.write("job.toml", COMPARED)
        for path in (bench.folder, folder, folder / "app.db"):
            os.chown(path, NOBODY, NOBODY)
        folder.chmod(0o555)
        prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        done = bench.run("publish", "-c", "job.toml", prefix=prefix, codes=None)
        if done.code:
            assert "WAL" in done.err
            assert str(folder) in done.err
        else:
            assert list(bench.objects().values()) == [{"v": ("a",)}]
