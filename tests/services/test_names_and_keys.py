"""Two things that differ are never one, and one thing is never two: names and keys of real databases.

Everything goes through the command line.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.services.databases import Place
from tests.support.command_line import Ended, run_program

JOB = """
[[sources]]
name = "hr"
{source}
[database]
url = "{url}"
[dispatch]
path = "out"
[run]
engine = "local"
"""
LOG = 'table = "event_log"'
SPELLED_KEYS = {
    "mariadb": ("VARCHAR(20) COLLATE utf8mb4_general_ci", ("anna", '"Anna "', "ANNA", "Änna")),
    "postgresql": ("CHAR(6)", ('"Anna "',)),
    "sqlite": ("TEXT COLLATE NOCASE", ("anna", "ANNA")),
}
"""Type of a key for each database, and spellings that this database takes for the key Anna."""


def write_job(folder: Path, place: Place, source: str = LOG, more: str = "") -> Path:
    """Writes the job file of a folder."""
    path = folder / "job.toml"
    path.write_text(JOB.format(source=source, url=place.url) + more)
    return path


def make_log(place: Place, folder: Path) -> None:
    """Creates the event log by the program, with triggers on a table of no interest."""
    place.execute("CREATE TABLE other (id INTEGER PRIMARY KEY, v INTEGER)")
    run_ok("ddl", "--database", place.url, "--table", "other", "--style", "per-field", "--apply")


def run_ok(*words: str | Path) -> Ended:
    ended = run_program(*words)
    assert ended.code == 0, ended.text
    return ended


def log(place: Place, *rows: str) -> None:
    """Logs rows ``key, type, table, column, new value``, written in SQL."""
    place.execute(
        "INSERT INTO event_log (table_key, event_type, table_name, column_name, new_value) VALUES "
        + ", ".join(f"({row})" for row in rows)
    )


def associations(folder: Path) -> list[str]:
    """The associations of all documents, in order of their run."""
    parts = sorted((folder / "out" / "runs").glob("*/part-*.xds"))
    text = "".join(part.read_text() for part in parts)
    return re.findall(r"<association>(.*?)</association>", text)


def rejects(folder: Path) -> list[dict[str, Any]]:
    """The rejected records of the last run that has any, in their order."""
    path = max((folder / "out" / "runs").glob("*/rejects.jsonl"))
    lines = map(json.loads, path.read_text().splitlines())
    return sorted(lines, key=lambda line: int(line["position"].rpartition(":")[2]))


@pytest.mark.parametrize("event", [6, 8])
def test_a_row_is_one_object_whatever_the_spelling_of_its_key(
    place: Place, tmp_path: Path, event: int
) -> None:
    """A query-back whose key is another text than the key of the row is rejected with both."""
    type_, spellings = SPELLED_KEYS[place.kind]
    make_log(place, tmp_path)
    place.execute(
        f"CREATE TABLE acc (name {type_} PRIMARY KEY, v INTEGER)",
        "INSERT INTO acc VALUES ('Anna', 1)",
    )
    column = "'v'" if event == 8 else "NULL"
    keys = ["Anna", *spellings]
    log(place, *(f"'name={key}', {event}, 'acc', {column}, NULL" for key in keys))
    job = write_job(tmp_path, place)
    ended = run_program("publish", "-c", job)
    assert ended.code == 4, ended.text
    assert len(associations(tmp_path)) == 1
    assert associations(tmp_path)[0].startswith("name=Anna,table=acc")
    statuses = place.query("SELECT status FROM event_log ORDER BY record_id")
    assert "".join(status for (status,) in statuses) == "S" + "E" * len(spellings)
    for key, reject in zip(spellings, rejects(tmp_path), strict=True):
        assert reject["reason"] == "table-key"
        assert f"by name={key}, but the row's own key is name=Anna:" in reject["detail"]


KEY_TYPES = {
    "postgresql": {
        "INTEGER": "7", "NUMERIC(6,2)": "1.50", "VARCHAR(9)": "'a b '", "CHAR(6)": "'ab'",
        "BOOLEAN": "true", "DATE": "'2026-02-03'", "TIME": "'04:05:06.500'",
        "TIMESTAMP": "'2026-02-03 04:05:06.120'", "TIMESTAMPTZ": "'2026-02-03 04:05:06+02'",
        "UUID": "'0B5E6F1E-0000-4000-8000-0000000000AA'", "BYTEA": "'\\x0102'",
        "DOUBLE PRECISION": "1e9", "INTERVAL": "'1 day 2:00'", "INET": "'10.0.0.1/32'",
    },
    "mariadb": {
        "INTEGER": "7", "DECIMAL(6,2)": "1.50", "VARCHAR(9)": "'a b '", "CHAR(6)": "'ab'",
        "BOOLEAN": "true", "DATE": "'2026-02-03'", "TIME(3)": "'04:05:06.500'",
        "DATETIME(6)": "'2026-02-03 04:05:06.120'", "DATETIME": "'2026-02-03 04:05:06'",
        "TIMESTAMP(6)": "'2026-02-03 04:05:06'", "UUID": "'0B5E6F1E-0000-4000-8000-0000000000AA'",
        "VARBINARY(9)": "X'0102'", "DOUBLE": "1e20", "YEAR": "2026", "ENUM('a','B')": "'b'",
    },
    "sqlite": {
        "INTEGER": "7", "NUMERIC": "1.50", "TEXT": "'a b '", "CHAR(6)": "'ab'", "BOOLEAN": "1",
        "DATE": "'2026-02-03'", "TIMESTAMP": "'2026-02-03 04:05:06.120'", "BLOB": "X'0102'",
        "REAL": "1.5", "": "'x'",
    },
}  # fmt: skip


def test_keys_that_the_triggers_write_are_the_rows_own(place: Place, tmp_path: Path) -> None:
    """A query-back finds each row by the key that the program's own triggers log."""
    types = KEY_TYPES[place.kind]
    tables = [f"k{number}" for number in range(len(types))]
    for table, type_ in zip(tables, types, strict=True):
        place.execute(f"CREATE TABLE {table} (k {type_} PRIMARY KEY, v INTEGER)")
    words = [word for table in tables for word in ("--table", table)]
    run_ok("ddl", "--database", place.url, *words, "--style", "query-back", "--apply")
    for table, value in zip(tables, types.values(), strict=True):
        place.execute(f"INSERT INTO {table} VALUES ({value}, 1)")
    ended = run_program("publish", "-c", write_job(tmp_path, place))
    assert ended.code == 0, ended.text + run_program("rejects", "-c", tmp_path / "job.toml").text
    assert len(associations(tmp_path)) == len(types)
