"""Triggers by SQLite alone: keys of any text, values, names, the command."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from publisher.cli.main import cli
from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from publisher.formats.columns.object_names import split_name
from publisher.model.keys import KeyProblem, format_key, parse
from publisher.triggers import Refs, Style, TableRef, install, plan
from publisher.triggers.model import literal, object_name, written_name

SPECIAL = st.text(st.sampled_from(""",;'+"=\\<> \t\r\n\0ab[]*?é""")) | st.text(
    st.characters(exclude_categories=["Cs"])
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """A database with log_of tables; what a test does is taken back by the next one."""
    path = tmp_path_factory.mktemp("triggers") / "test.db"
    with_tables(
        path, "usr (a TEXT, b TEXT, v, PRIMARY KEY (a, b))", "img (k INTEGER PRIMARY KEY, p BLOB)"
    )
    install_triggers(path, Style.PER_FIELD, "usr", "img")
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def with_tables(path: Path, *tables: str) -> None:
    connection = sqlite3.connect(path)
    for table in tables:
        connection.execute(f"CREATE TABLE {table}")
    connection.close()


def install_triggers(path: Path, style: Style, *tables: str) -> None:
    with Database(DatabaseOptions(url=f"sqlite:///{path}")) as database:
        refs = Refs(tuple(TableRef(None, table) for table in tables), TableRef(None, "event_log"))
        install(database, plan(database, refs, style))


def log_of(log: sqlite3.Connection, sql: str, *values: object) -> list[tuple[str, str | None]]:
    """Key and new value of what a statement logs; nothing of it stays."""
    try:
        log.execute(sql, values)
        found: list[tuple[str, str | None]] = log.execute(
            "SELECT table_key, new_value FROM event_log ORDER BY record_id"
        ).fetchall()
    finally:
        log.rollback()
    return found


@given(SPECIAL, SPECIAL)
@example(""", ; ' + " = \\ < >""", "")
@example(" a", "a\n")
@example("\0,", ",\0")
def test_a_key_of_any_text_is_written_by_the_grammar(
    log: sqlite3.Connection, a: str, b: str
) -> None:
    ((key, value),) = log_of(log, "INSERT INTO usr VALUES (?, ?, 'v')", a, b)
    if "\0" not in a + b:  # in quotes for SQLite's sake; there it changes nothing
        assert key == format_key([("a", a), ("b", b)])
    assert [part[:2] for part in parse(key)] == [("a", a), ("b", b)]
    assert value == "v"


@given(st.binary(max_size=200))
@example(b"")
def test_binary_values_are_base64(log: sqlite3.Connection, value: bytes) -> None:
    expected = base64.b64encode(value).decode()
    assert log_of(log, "INSERT INTO img VALUES (1, ?)", value) == [("k=1", expected)]
    # of a column without a type, too
    key = format_key([("a", "x"), ("b", "y")])
    assert log_of(log, "INSERT INTO usr VALUES ('x', 'y', ?)", value) == [(key, expected)]


@given(st.floats(-1e300, 1e300, allow_subnormal=False).filter(lambda x: abs(x) > 1e-290 or x == 0))
@example(0.1 + 0.2)
def test_fractions_lose_no_digit(log: sqlite3.Connection, number: float) -> None:
    ((_, value),) = log_of(log, "INSERT INTO usr VALUES ('x', 'y', ?)", number)
    assert value is not None
    assert float(value) == pytest.approx(number, rel=1e-15)


def test_a_row_whose_key_holds_null_is_logged_with_a_key_that_is_rejected(
    log: sqlite3.Connection,
) -> None:
    ((key, _),) = log_of(log, "INSERT INTO usr (a) VALUES ('x')")
    with pytest.raises(KeyProblem, match="a value is missing"):
        parse(key)


def test_replaced_rows_are_deleted_with_recursive_triggers(log: sqlite3.Connection) -> None:
    log.execute("INSERT INTO img VALUES (1, NULL)")
    log.commit()
    log.execute("PRAGMA recursive_triggers = ON")
    log.execute("INSERT OR REPLACE INTO img VALUES (1, x'00')")
    types = log.execute("SELECT event_type FROM event_log ORDER BY record_id").fetchall()
    log.rollback()
    log.execute("PRAGMA recursive_triggers = OFF")
    log.execute("DELETE FROM img")
    log.execute("DELETE FROM event_log")
    log.commit()
    assert types == [(1,), (4,), (1,)]


def test_new_rows_are_found_by_the_index(log: sqlite3.Connection) -> None:
    question = "SELECT * FROM event_log WHERE status = ? ORDER BY record_id"
    ((*_, plan_),) = log.execute(f"EXPLAIN QUERY PLAN {question}", ("N",)).fetchall()
    assert "USING INDEX xds_event_log_status (status=?)" in plan_


def test_names_of_any_text_are_quoted(tmp_path: Path) -> None:
    table, key, column = (f"{letter}\"`'\n\n  ;{{{{ x }}}} %s $$--" for letter in "tkc")
    quoted = ['"' + name.replace('"', '""') + '"' for name in (table, key, column)]
    with_tables(tmp_path / "hr.db", f"{quoted[0]} ({quoted[1]} TEXT PRIMARY KEY, {quoted[2]} TEXT)")
    install_triggers(tmp_path / "hr.db", Style.PER_FIELD, table)
    with sqlite3.connect(tmp_path / "hr.db") as connection:
        connection.execute(f"INSERT INTO {quoted[0]} VALUES ('1', 'x')")
        rows = connection.execute("SELECT table_name, table_key, column_name FROM event_log")
        assert rows.fetchall() == [(written_name(None, table), format_key([(key, "1")]), column)]


@given(st.none() | st.text(min_size=1), st.text(min_size=1))
def test_written_names_are_read_back(schema: str | None, name: str) -> None:
    assert split_name(written_name(schema, name)) == (schema, name)


@given(st.text(min_size=1), st.sampled_from([63, 64, 200]))
def test_names_of_triggers_are_short_and_differ(table: str, most: int) -> None:
    name = object_name(table, "insert", most)
    assert len(name.encode(errors="surrogatepass")) <= most
    assert name != object_name(f"{table}x", "insert", most)


def test_literals_double_the_quote_and_nothing_else() -> None:
    assert literal("it's \\n") == "'it''s \\n'"


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["ddl", *arguments])
    return done.exit_code, done.output if done.exit_code else done.stdout


def test_the_command_prints_or_applies(tmp_path: Path) -> None:
    path = tmp_path / "hr.db"
    with_tables(path, "usr (idu INTEGER PRIMARY KEY, fname TEXT)", '"a.b" (k INTEGER PRIMARY KEY)')
    both = ["--table", "usr", "--table", '"a.b"', "--style", "per-row", "--log-table", "log"]
    code, script = run("--database", f"sqlite:///{path}", *both)
    assert code == 0
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'log'").fetchall() == []
    code, message = run("--database", f"sqlite:///{path}", *both, "--apply")
    assert code == 0
    assert "trigger xds_a.b_insert" in message
    made_ = connection.execute("SELECT sql FROM sqlite_master").fetchall()
    connection.executescript(script)  # what is printed is what is applied
    assert connection.execute("SELECT sql FROM sqlite_master").fetchall() == made_
    connection.execute("INSERT INTO usr VALUES (7, 'Jack')")
    assert connection.execute("SELECT table_key, event_type FROM log").fetchall() == [("idu=7", 5)]
    connection.close()


@pytest.mark.parametrize(
    ("table", "code", "words"),
    [
        ("bare", 2, "has no primary key"),
        ("nothing", 1, "has no table nothing"),
        ("a.", 2, "write it as table, schema.table"),
    ],
)
def test_the_command_says_what_to_mend(tmp_path: Path, table: str, code: int, words: str) -> None:
    path = tmp_path / "hr.db"
    with_tables(path, "bare (a INTEGER)")
    url = f"sqlite:///{path}"
    got, message = run("--database", url, "--table", table, "--style", "per-row", "--apply")
    assert (got, words in message) == (code, True), message
