"""What people read when a value, a name or a server does not fit; through the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.services.databases import Place
from tests.services.servers import skip_unproved
from tests.support.command_line import open_folders, run_program
from tests.support.programs import ROOT

JOB = """
[[sources]]
name = "hr"
{source}
[database]
url = "{url}"
{database}
[dispatch]
path = "out"
[run]
engine = "local"
"""
COMPARISON = 'format = "triggerless"\ntables = ["card"]'
LOG = 'table = "event_log"'


def write_job(folder: Path, url: str, source: str, database: str = "") -> Path:
    path = folder / "job.toml"
    path.write_text(JOB.format(source=source, url=url, database=database))
    return path


def details(folder: Path) -> list[str]:
    path = max((folder / "out" / "runs").glob("*/rejects.jsonl"))
    return [json.loads(line)["detail"] for line in path.read_text().splitlines()]


VALUES = {
    "valid DATE": "'0000-00-00'",
    "starts TIME": "'24:00:00'",
    "seen TIMESTAMP": "'2026-02-30 00:00:00'",
    "size INTEGER": "'many'",
}


@pytest.mark.parametrize(("column", "value"), VALUES.items(), ids=VALUES)
@pytest.mark.parametrize("way", ["comparison", "row query-back", "field query-back", "field"])
def test_a_reject_names_its_column_and_the_value_as_it_is(
    tmp_path: Path, column: str, value: str, way: str
) -> None:
    database = tmp_path / "test.db"
    name = column.split(maxsplit=1)[0]
    events = {
        "row query-back": (6, None, None),
        "field query-back": (8, name, None),
        "field": (1, name, value[1:-1]),
    }
    with sqlite3.connect(database) as connection:
        connection.execute(f"CREATE TABLE card (id INTEGER PRIMARY KEY, {column}, other TEXT)")
        connection.execute(f"INSERT INTO card VALUES (1, {value}, 'x')")
    url = f"sqlite:///{database}"
    if way != "comparison":
        words = ("ddl", "--database", url, "--table", "card", "--style", "per-field", "--apply")
        assert run_program(*words).code == 0
        with sqlite3.connect(database) as connection:
            connection.execute(
                "INSERT INTO event_log (table_key, event_type, table_name, column_name, new_value)"
                " VALUES ('id=1', ?, 'card', ?, ?)",
                events[way],
            )
    job = write_job(tmp_path, url, COMPARISON if way == "comparison" else LOG)
    ended = run_program("publish", "-c", job)
    assert ended.code == 4, ended.text
    (detail,) = details(tmp_path)
    assert f"column {name}: {value} is not " in detail


def test_a_key_may_hold_the_words_of_an_association(tmp_path: Path) -> None:
    """In ``explain`` and ``history``, as a key and as an association."""
    key = 'dept=",table=usr"'
    log = tmp_path / "log.csv"
    quoted = '"' + key.replace('"', '""') + '"'
    log.write_text(f"1,{quoted},N,1,2026-01-01 00:00:00,hr,usr,fname,,Jack\n")
    assert run_program("replay", log, "--to", tmp_path / "out").code == 0
    for text in (key, f"{key},table=usr"):
        explained = run_program("explain", tmp_path / "out", text)
        assert explained.code == 0, explained.text
        assert "published" in explained.text
        history = run_program("history", text, tmp_path / "out")
        assert history.code == 0, history.text
    assert run_program("explain", tmp_path / "out", "dept=,table=usr").code == 2


def test_a_lock_is_called_a_lock(tmp_path: Path) -> None:
    database = tmp_path / "test.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE card (id INTEGER PRIMARY KEY)")
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    brief = "retries = 0\nconnect_timeout = 1"
    ended = run_program(
        "publish", "-c", write_job(tmp_path, f"sqlite:///{database}", COMPARISON, brief)
    )
    other.execute("ROLLBACK")
    other.close()
    assert ended.code == 5, ended.text
    assert "is locked (database is locked): another session holds a lock" in ended.errors
    assert "cannot be reached" not in ended.errors


def test_a_lock_of_mariadb_is_called_a_lock(mariadb: Place, tmp_path: Path) -> None:
    mariadb.execute("CREATE TABLE card (id INTEGER PRIMARY KEY)")
    words = ("ddl", "--database", mariadb.url, "--table", "card", "--style", "per-field", "--apply")
    assert run_program(*words).code == 0
    mariadb.execute("INSERT INTO card VALUES (1)", "SET GLOBAL innodb_lock_wait_timeout = 1")
    job = write_job(tmp_path, mariadb.url, LOG, "retries = 0")
    with mariadb.engine.connect() as connection:
        connection.exec_driver_sql("SELECT * FROM event_log FOR UPDATE")
        ended = run_program("publish", "-c", job)
    mariadb.execute("SET GLOBAL innodb_lock_wait_timeout = 50")
    assert ended.code == 5, ended.text
    assert "another session holds a lock" in ended.errors
    assert "cannot be reached" not in ended.errors
    assert run_program("publish", "-c", job).code == 0


@pytest.mark.parametrize("has_log", [True, False])
def test_a_write_ahead_log_in_a_place_without_write_right_is_named(
    tmp_path: Path, has_log: bool
) -> None:
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip_unproved("a directory without write right (needs root and setpriv)")
    folder = tmp_path / "read-only"
    folder.mkdir()
    database = folder / "test.db"
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE card (id INTEGER PRIMARY KEY)")
    if has_log:
        shutil.copy(f"{database}-wal", tmp_path / "wal")
    writer.close()
    if has_log:
        shutil.copy(tmp_path / "wal", f"{database}-wal")
    folder.chmod(0o555)
    open_folders(tmp_path)
    job = write_job(tmp_path, f"sqlite:///{database}", COMPARISON)
    caps = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *caps]
    command += [sys.executable, "-m", "publisher.cli", "publish", "-c", str(job)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert re.search(
        rf"WAL mode .* write into the directory {re.escape(str(folder))}", ended.stderr
    )


TIMES = {
    "2026-05-01 13:45:10": True, "2026-05-01t13:45:10z": True, "2026-05-01T13:45:10 +0200": True,
    " 2026-05-01 13:45 ": True, "2026-05-01": True, "\u00a02026-05-01 13:45:10": False,
    "2026-05-01-13.45.10.000000": False, "2026-05-01 13:45:60": False, "2026-5-1 9:5:1": False,
}  # fmt: skip


def test_a_log_takes_the_documented_forms_of_times_in_events_and_values(tmp_path: Path) -> None:
    """A job file may begin with a byte order mark."""
    (tmp_path / "in").mkdir()
    rows = [f"{n},idu={n},N,1,{time},hr,usr,seen,,{time}" for n, time in enumerate(TIMES, 1)]
    rows += [f"{n},idu={n},N,1,2026-05-01,hr,usr,seen,,{time}" for n, time in enumerate(TIMES, 101)]
    (tmp_path / "in" / "log.csv").write_text("\n".join(rows) + "\n", "utf-8")
    (tmp_path / "job.toml").write_text(
        '\ufeff[[sources]]\nname = "hr"\nsnapshots = ["in"]\n[tables.usr]\n'
        'columns = {seen = "timestamp"}\n[dispatch]\npath = "out"\n[run]\nengine = "local"\n',
        "utf-8",
    )
    assert run_program("publish", "-c", tmp_path / "job.toml").code == 4
    path = max((tmp_path / "out" / "runs").glob("*/rejects.jsonl"))
    reasons = [json.loads(line)["reason"] for line in path.read_text("utf-8").splitlines()]
    wrong = list(TIMES.values()).count(False)
    assert sorted(reasons) == ["event-time"] * wrong + ["value"] * wrong


def test_a_binary_change_seq_is_called_binary(tmp_path: Path) -> None:
    table = pa.table(
        {
            "header__change_seq": pa.array([b"20260301100000000000000000000000001"], pa.binary()),
            "header__change_oper": ["I"],
            "idu": ["1"],
        }
    )
    folder = tmp_path / "hr.people__ct"
    folder.mkdir()
    pq.write_table(table, folder / "1.parquet")
    job = tmp_path / "job.toml"
    job.write_text('[[sources]]\nformat = "change-table"\nkey = ["idu"]\n')
    words = ("replay", folder, "--to", tmp_path / "out", "-c", job)
    run_program(*words)
    text = (tmp_path / "out" / "rejects.jsonl").read_text()
    assert "header__change_seq" in json.loads(text)["detail"]
    assert "the column is binary" in json.loads(text)["detail"]
