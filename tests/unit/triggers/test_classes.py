"""Triggers of classes by SQLite alone: events of child rows, changed keys, notes, settings."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from publisher.triggers import Refs, Style, TableRef, TriggerPlan, install, plan

TABLES = """
CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT);
CREATE TABLE grp (idg INTEGER PRIMARY KEY);
CREATE TABLE usr_phone (
  idu INTEGER REFERENCES usr ON UPDATE CASCADE ON DELETE CASCADE, phoneno TEXT);
CREATE INDEX phones ON usr_phone (idu);
CREATE TABLE usr_mbr_of (idu INTEGER REFERENCES usr, idg INTEGER REFERENCES grp, UNIQUE (idu, idg));
"""
START = "INSERT INTO usr VALUES (1, 'John'), (2, 'Ann');"


def planned(
    path: Path, style: Style, *tables: str, joins_keys: bool = False, more: str = ""
) -> TriggerPlan:
    connection = sqlite3.connect(path)
    connection.executescript(TABLES + more)
    connection.close()
    with Database(DatabaseOptions(url=f"sqlite:///{path}")) as database:
        refs = Refs(tuple(TableRef(None, table) for table in tables), TableRef(None, "event_log"))
        found = plan(database, refs, style, joins_keys=joins_keys)
        install(database, found)
    return found


def logged(path: Path, *statements: str) -> list[str]:
    """The events that statements log, as ``type|table|key|column|old|new`` without empty ends."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.executescript(START + "DELETE FROM event_log;" + ";".join(statements))
    rows = connection.execute(
        "SELECT event_type, table_name, table_key, column_name, old_value, new_value FROM event_log"
        " ORDER BY record_id"
    ).fetchall()
    connection.close()
    return [
        "|".join("" if value is None else str(value) for value in row).rstrip("|") for row in rows
    ]


CASES: dict[str, tuple[Sequence[str], dict[Style, list[str]]]] = {
    "values are added and removed": (
        (
            "INSERT INTO usr_phone VALUES (1, '111')",
            "UPDATE usr_phone SET phoneno = '222'",
            "DELETE FROM usr_phone",
        ),
        {
            Style.PER_FIELD: [
                "2|usr_phone|idu=1|phoneno||111",
                "2|usr_phone|idu=1|phoneno|111",
                "2|usr_phone|idu=1|phoneno||222",
                "2|usr_phone|idu=1|phoneno|222",
            ],
            Style.PER_ROW: ["6|usr|idu=1"] * 3,
            Style.QUERY_BACK: ["8|usr_phone|idu=1|phoneno"] * 3,
        },
    ),
    "a row gets another parent": (
        ("INSERT INTO usr_phone VALUES (1, '111')", "UPDATE usr_phone SET idu = 2"),
        {
            Style.PER_FIELD: [
                "2|usr_phone|idu=1|phoneno||111",
                "2|usr_phone|idu=1|phoneno|111",
                "2|usr_phone|idu=2|phoneno||111",
            ],
            Style.PER_ROW: ["6|usr|idu=1", "6|usr|idu=1", "6|usr|idu=2"],
            Style.QUERY_BACK: [f"8|usr_phone|idu={idu}|phoneno" for idu in (1, 1, 2)],
        },
    ),
    "a value stays while another row has it": (
        (
            "INSERT INTO usr_phone VALUES (1, '111'), (1, '111'), (1, NULL)",
            "DELETE FROM usr_phone WHERE rowid = 1",
            "DELETE FROM usr_phone",
        ),
        {
            Style.PER_FIELD: [
                "2|usr_phone|idu=1|phoneno||111",
                "2|usr_phone|idu=1|phoneno||111",
                "2|usr_phone|idu=1|phoneno|111",
            ]
        },
    ),
    "a delete takes the values with it": (
        ("INSERT INTO usr_phone VALUES (1, '111')", "DELETE FROM usr WHERE idu = 1"),
        {
            Style.PER_FIELD: ["2|usr_phone|idu=1|phoneno||111", "4|usr|idu=1"],
            Style.PER_ROW: ["6|usr|idu=1", "4|usr|idu=1"],
            Style.QUERY_BACK: ["8|usr_phone|idu=1|phoneno", "4|usr|idu=1"],
        },
    ),
    "values follow the key": (
        ("INSERT INTO usr_phone VALUES (1, '111')", "UPDATE usr SET idu = 5 WHERE idu = 1"),
        {
            Style.PER_FIELD: [
                "2|usr_phone|idu=1|phoneno||111",
                "4|usr|idu=1",
                "1|usr|idu=5|fname||John",
                "1|usr_phone|idu=5|phoneno||111",
            ],
            Style.QUERY_BACK: [
                "8|usr_phone|idu=1|phoneno",
                "4|usr|idu=1",
                "7|usr|idu=5|fname",
                "7|usr_phone|idu=5|phoneno",
            ],
        },
    ),
}


@pytest.mark.parametrize(
    ("case", "style"), [(case, style) for case, (_, styles) in CASES.items() for style in styles]
)
def test_child_rows_are_logged_with_the_key_of_their_parent(
    tmp_path: Path, case: str, style: Style
) -> None:
    statements, expected = CASES[case]
    planned(tmp_path / "hr.db", style, "usr_phone")
    assert logged(tmp_path / "hr.db", *statements) == expected[style]


def test_a_change_of_the_key_keeps_the_object(tmp_path: Path) -> None:
    planned(tmp_path / "hr.db", Style.PER_FIELD, "usr", joins_keys=True)
    assert logged(tmp_path / "hr.db", "UPDATE usr SET idu = 5, fname = 'Jack' WHERE idu = 1") == [
        "2|usr|idu=1|idu|1|5",
        "2|usr|idu=5|fname|John|Jack",
    ]


def test_query_backs_are_repeated_under_the_new_key(tmp_path: Path) -> None:
    planned(tmp_path / "hr.db", Style.PER_ROW, "usr", joins_keys=True)
    assert logged(tmp_path / "hr.db", "UPDATE usr SET idu = 5 WHERE idu = 1") == [
        "2|usr|idu=1|idu|1|5",
        "6|usr|idu=5",
    ]


def test_notes_name_the_tables_that_are_left_out(tmp_path: Path) -> None:
    card = "CREATE TABLE usr_card (idu INTEGER REFERENCES usr, no INTEGER, kind TEXT);"
    notes = planned(tmp_path / "hr.db", Style.PER_FIELD, "usr", "usr_phone", more=card).notes
    assert [note.split(":")[0] for note in notes] == [
        "usr_card is not logged",
        "usr_phone may hold equal rows",
    ]


@pytest.mark.parametrize(
    ("style", "key_change", "settings"),
    [
        ("per-field", "delete-and-insert", ()),
        ("per-row", "delete-and-insert", ('insert_query_back = "add"',)),
        (
            "query-back",
            "modify-association",
            ('key_change = "modify-association"', 'insert_query_back = "add"'),
        ),
    ],
)
def test_the_command_shows_the_settings_of_a_job(
    tmp_path: Path, style: str, key_change: str, settings: tuple[str, ...]
) -> None:
    sqlite3.connect(tmp_path / "hr.db").executescript(TABLES)
    words = ["--database", f"sqlite:///{tmp_path}/hr.db", "--table", "usr", "--style", style]
    done = CliRunner().invoke(cli, ["ddl", *words, "--key-change", key_change])
    assert done.exit_code == 0, done.output
    shown = [line.strip() for line in done.stderr.splitlines()]
    assert ('table = "event_log"' in shown) == bool(settings)
    assert tuple(line for line in shown if line.startswith(("key_", "insert_"))) == settings
