"""Two things that differ are never one, and one thing is never two: names and keys of real databases.

Everything goes through the command line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lxml import etree

from tests.services.conftest import empty_place
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


TWO_TABLES = (
    "CREATE TABLE usr (id INTEGER PRIMARY KEY, name TEXT)",
    "CREATE TABLE {Usr} (id INTEGER PRIMARY KEY, name TEXT)",
    "INSERT INTO usr VALUES (1, 'a')",
    "INSERT INTO {Usr} VALUES (1, 'c')",
)
LOWER = '\nidentifier_case = "lower"'


@pytest.fixture(params=["postgresql", "mariadb"])
def two_tables(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A database with two tables whose names differ in case only, and an event log."""
    for place in empty_place(request, request.param):
        other = "`Usr`" if place.kind == "mariadb" else '"Usr"'
        place.execute(*(statement.format(Usr=other) for statement in TWO_TABLES))
        yield place


def test_two_tables_are_compared_as_two(two_tables: Place, tmp_path: Path) -> None:
    source = 'format = "triggerless"\ntables = ["usr", "Usr"]'
    run_ok("publish", "-c", write_job(tmp_path, two_tables, source))
    found = {text.partition(",schema")[0] for text in associations(tmp_path)}
    assert found == {"id=1,table=usr", "id=1,table=Usr"}


@pytest.mark.parametrize("tables", ['["usr", "Usr"]', '["usr"]'])
def test_a_case_that_would_join_two_compared_tables_is_refused(
    two_tables: Place, tmp_path: Path, tables: str
) -> None:
    source = f'format = "triggerless"\ntables = {tables}{LOWER}'
    ended = run_program("publish", "-c", write_job(tmp_path, two_tables, source))
    assert ended.code == 1, ended.text
    assert "'usr' and 'Usr' are two tables" in ended.text
    assert associations(tmp_path) == []


def test_a_case_that_would_join_two_logged_tables_rejects_their_records(
    two_tables: Place, tmp_path: Path
) -> None:
    make_log(two_tables, tmp_path)
    log(two_tables, "'id=1', 6, 'usr', NULL, NULL", "'id=1', 6, 'Usr', NULL, NULL")
    two_tables.execute("INSERT INTO other VALUES (1, 1)")
    ended = run_program("publish", "-c", write_job(tmp_path, two_tables, LOG + LOWER))
    assert ended.code == 4, ended.text
    assert [text.partition(",schema")[0] for text in associations(tmp_path)] == ["id=1,table=other"]
    assert {reject["reason"] for reject in rejects(tmp_path)} == {"table-name"}
    assert "'usr' and 'Usr' are two tables" in rejects(tmp_path)[0]["detail"]


def test_a_name_that_may_be_two_tables_is_rejected_with_both(
    two_tables: Place, tmp_path: Path
) -> None:
    make_log(two_tables, tmp_path)
    rows = (f"'id=1', 6, '{name}', NULL, NULL" for name in ("usr", "Usr", "USR"))
    log(two_tables, *rows)
    ended = run_program("publish", "-c", write_job(tmp_path, two_tables))
    assert ended.code == 4, ended.text
    assert len(set(associations(tmp_path))) == 2
    (reject,) = rejects(tmp_path)
    assert reject["reason"] == "table-name"
    if two_tables.kind == "postgresql":  # MariaDB here tells names by their case
        assert "'USR' may be 'Usr' or 'usr'" in reject["detail"]


def test_a_case_that_would_join_two_columns_is_refused(postgres: Place, tmp_path: Path) -> None:
    postgres.execute('CREATE TABLE usr (id INTEGER PRIMARY KEY, name TEXT, "Name" TEXT)')
    source = 'format = "triggerless"\ntables = ["usr"]\nidentifier_case = "upper"'
    ended = run_program("publish", "-c", write_job(tmp_path, postgres, source))
    assert ended.code == 1, ended.text
    assert "'name' and 'Name' are two columns of usr" in ended.text


EDGES = (" e ", "e", "\te", "e ")


def test_names_with_blanks_at_their_edge_are_names_of_their_own(
    place: Place, tmp_path: Path
) -> None:
    """In the log, by query-back and by comparison; only final blanks of no column are padding."""
    if place.kind == "mariadb":  # which has no names that end with a blank
        names: tuple[str, ...] = (" e", "e", "\te")
    else:
        names = EDGES
    mark = "`" if place.kind == "mariadb" else '"'
    columns = ", ".join(f"{mark}{name}{mark} VARCHAR(9)" for name in names)
    place.execute(f"CREATE TABLE edge (id INTEGER PRIMARY KEY, {columns})")
    values = ", ".join(f"'v{number}'" for number in range(len(names)))
    place.execute(f"INSERT INTO edge VALUES (1, {values})")
    make_log(place, tmp_path)
    log(place, "'id=1', 6, 'edge', NULL, NULL", "'id=1', 4, 'edge', NULL, NULL")
    log(place, *(f"'id=1', 1, 'edge', '{name}', 'v{n}'" for n, name in enumerate(names)))
    log(place, "'id=1', 1, 'edge', '  e', 'x'", "'id=1', 1, 'edge', 'e\t', 'x'")
    log(place, "'id=1', 1, 'edge', 'id      ', '1'")
    ended = run_program("publish", "-c", write_job(tmp_path, place))
    assert [reject["reason"] for reject in rejects(tmp_path)] == ["column-name"] * 2, ended.text
    compared = tmp_path / "compared"
    compared.mkdir()
    source = 'format = "triggerless"\ntables = ["edge"]'
    run_ok("publish", "-c", write_job(compared, place, source))
    for folder in (tmp_path, compared):
        found = attributes(folder)
        assert found == {name: f"v{number}" for number, name in enumerate(names)}


def attributes(folder: Path) -> dict[str, str]:
    """The last value of each attribute, without that of the key."""
    found = {}
    for part in sorted((folder / "out" / "runs").glob("*/part-*.xds")):
        for line in part.read_bytes().splitlines():
            for attribute in etree.fromstring(line).iter("add-attr", "modify-attr"):
                (value,) = attribute.iter("value")
                found[attribute.get("attr-name", "")] = value.text or ""
    found.pop("id", None)
    return found


def test_values_in_names_of_folders_are_not_left_out(tmp_path: Path) -> None:
    """A table that Hive or Spark has written by partitions is refused, with and without ``tables``."""
    folder = tmp_path / "in" / "usr.parquet" / "region=007"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), folder / "part-0.parquet")
    for tables in ('tables = ["usr"]', "", 'tables = ["usr", "other"]'):
        job = tmp_path / "job.toml"
        job.write_text(
            f'[[sources]]\nname = "hr"\nformat = "triggerless"\nsnapshots = ["in"]\n{tables}\n'
            '[tables.usr]\nkey = ["id"]\n[dispatch]\npath = "out"\n[run]\nengine = "local"\n'
        )
        for command in ("check", "publish"):
            ended = run_program(command, "-c", job)
            assert ended.code != 0
            assert "region=007 holds a value of the column region" in ended.text, tables
    (folder.parent / "part-0.parquet").write_bytes((folder / "part-0.parquet").read_bytes())
    (folder / "part-0.parquet").unlink()
    folder.rmdir()
    run_ok("publish", "-c", job)
    assert associations(tmp_path) == ["id=1,table=usr"]
