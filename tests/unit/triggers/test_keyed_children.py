"""Tables that would be child tables if they had no primary key: commands say how they become some."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.support.command_line import run_program

TABLES = {
    "phones (user_id REFERENCES users, number, PRIMARY KEY (user_id, number))": True,
    "mails (user_id REFERENCES users, mail, UNIQUE (user_id, mail))": False,
    "details (user_id PRIMARY KEY REFERENCES users, size)": False,
    "members (group_id REFERENCES teams, user_id REFERENCES users, PRIMARY KEY (group_id, user_id))": False,
    "cards (id INTEGER PRIMARY KEY, user_id REFERENCES users)": False,
}


@pytest.mark.parametrize(("table", "is_noted"), TABLES.items())
def test_a_table_that_its_primary_key_makes_a_class_is_noted(
    tmp_path: Path, table: str, is_noted: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'hr.db'}"
    with sqlite3.connect(tmp_path / "hr.db") as connection:
        for definition in (
            "users (id INTEGER PRIMARY KEY, name)",
            "teams (id INTEGER PRIMARY KEY)",
            table,
        ):
            connection.execute(f"CREATE TABLE {definition}")
    job = tmp_path / "hr.toml"
    for words in (
        ("ddl", "--database", url, "--table", "users", "--apply"),
        ("init", "--database", url, "-o", job, "--to", tmp_path / "documents"),
        ("check", "-c", job),
    ):
        ended = run_program(*words)
        assert ended.code == 0, ended.text
        noted = "note: phones refers to users but has a primary key" in ended.errors
        assert noted == is_noted, ended.text
