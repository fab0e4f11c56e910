"""Triggers of ``ddl`` never make a statement fail and never log a false value; ``check`` names old ones."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from publisher.cli.main import cli
from tests.fuzz.triggers import Session, try_tables

KINDS = ("sqlite", "postgresql", "mariadb")
TABLES = int(os.environ.get("TRIGGER_TABLES", "60"))


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Hr]]:
    """Makes an empty database of a kind."""
    made: list[Hr] = []

    def make(kind: str) -> Hr:
        url = f"sqlite:///{tmp_path / 'hr.db'}"
        if kind != "sqlite":
            server = request.getfixturevalue(
                {"postgresql": "postgres_url", "mariadb": "mariadb_url"}[kind]
            )
            _administer(server, "DROP DATABASE IF EXISTS xds_safety", "CREATE DATABASE xds_safety")
            url = (
                sa.make_url(server).set(database="xds_safety").render_as_string(hide_password=False)
            )
        made.append(Hr(kind, url, tmp_path))
        return made[-1]

    yield make
    for hr in made:
        hr.session.close()
        if hr.session.kind != "sqlite":
            _administer(hr.session.url, "DROP DATABASE xds_safety", database=hr.session.kind)


def _administer(url: str, *statements: str, database: str | None = None) -> None:
    place = sa.make_url(url)
    if database is not None:
        place = place.set(database={"postgresql": "postgres", "mariadb": "mysql"}[database])
    engine = sa.create_engine(place, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


class Hr:
    """A database with a log and a job that publishes it."""

    def __init__(self, kind: str, url: str, folder: Path) -> None:
        self.session = Session(kind, url)
        self.job = folder / "hr.toml"
        self.job.write_text(
            f'[[sources]]\nname = "log"\ntable = "event_log"\n[database]\nurl = "{url}"\n'
            f'[dispatch]\npath = "{folder}/out"\n[run]\nengine = "local"\n[ledger]\npath = "{folder}/j"\n'
        )

    def execute(self, *statements: str) -> None:
        """Runs statements that must not fail."""
        for statement in statements:
            state, *problem = self.session.run(statement)
            assert state == "done", (statement, problem)

    def ddl(
        self, *tables: str, style: str = "per-field", key_change: str = "delete-and-insert"
    ) -> str:
        words = [word for table in tables for word in ("--table", table)]
        words += ["--key-change", key_change]
        return self._run(
            "ddl", "--database", self.session.url, *words, "--style", style, "--apply"
        )[1]

    def check(self) -> tuple[bool, str]:
        """Whether the triggers are right, and what ``check`` says of them."""
        output = self._run("check", "-c", str(self.job))[1]
        (line,) = [line for line in output.splitlines() if "triggers of log" in line]
        return line.startswith("ok"), line

    def publish(self) -> tuple[int, str]:
        return self._run("publish", "-c", str(self.job))

    def _run(self, *words: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, words)
        assert words[0] != "ddl" or not result.exit_code, result.output
        return result.exit_code, result.output

    def events(self) -> list[tuple[Any, ...]]:
        """New events: type, table, key, column, old and new value."""
        found = self.session.rows(
            "SELECT event_type, table_name, table_key, column_name, old_value, new_value FROM event_log"
            " ORDER BY record_id"
        )
        self.execute("DELETE FROM event_log")
        return [(kind, name.removeprefix("public."), *rest) for kind, name, *rest in found]


USR = "CREATE TABLE usr (idu integer PRIMARY KEY, fname varchar(20), lname varchar(20))"


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # of types that it does not know
@pytest.mark.parametrize("kind", KINDS)
def test_statements_have_the_results_that_they_have_without_triggers(
    kind: str, request: pytest.FixtureRequest
) -> None:
    name = {"sqlite": None, "postgresql": "postgres_url", "mariadb": "mariadb_url"}[kind]
    url = request.getfixturevalue(name) if name is not None else None
    assert try_tables(kind, url, TABLES, seed="suite", statements=10) == []


@pytest.mark.parametrize("style", ["per-field", "per-row", "query-back"])
def test_a_row_with_null_in_its_key_is_rejected_and_not_refused(
    make: Callable[[str], Hr], style: str
) -> None:
    hr = make("sqlite")
    hr.execute("CREATE TABLE t (k text PRIMARY KEY, v)")
    hr.ddl("t", style=style)
    hr.execute("INSERT INTO t VALUES ('a', 1), (NULL, 2)", "UPDATE t SET k = NULL WHERE k = 'a'")
    code, output = hr.publish()
    assert code == 4
    assert "table-key" in output


def test_a_zero_timestamp_in_a_key_does_not_break_the_insert(make: Callable[[str], Hr]) -> None:
    hr = make("mariadb")
    hr.execute("CREATE TABLE k (ts timestamp, n integer, PRIMARY KEY (ts))")
    hr.ddl("k")
    hr.execute("SET sql_mode = ''", "INSERT INTO k VALUES (0, 1)", "DELETE FROM k")
    assert [kind for kind, *_ in hr.events()] == [1, 4]


def test_a_value_that_the_log_cannot_write_is_looked_up(make: Callable[[str], Hr]) -> None:
    hr = make("mariadb")
    hr.execute("CREATE TABLE usr (idu integer PRIMARY KEY, home point, photo longblob)")
    hr.ddl("usr")
    hr.execute(
        "INSERT INTO usr VALUES (1, point(1, 2), NULL)",
        "INSERT INTO usr VALUES (2, NULL, repeat('x', 13000000))",
        "UPDATE usr SET photo = 'a' WHERE idu = 2",
    )
    assert [event[:3] for event in hr.events()] == [
        (5, "usr", "idu=1"),
        (5, "usr", "idu=2"),
        (6, "usr", "idu=2"),
    ]


def test_rows_that_update_ignore_leaves_are_not_logged(make: Callable[[str], Hr]) -> None:
    hr = make("mariadb")
    hr.execute("CREATE TABLE usr (idu integer PRIMARY KEY, mail varchar(9) UNIQUE)")
    hr.ddl("usr")
    hr.execute("INSERT INTO usr VALUES (1, 'a'), (2, 'b')")
    hr.events()
    hr.execute("UPDATE IGNORE usr SET mail = 'a' WHERE idu = 2", "UPDATE IGNORE usr SET idu = 1")
    assert hr.events() == []


def test_a_child_that_precedes_its_parent_is_read_with_the_rights_of_the_log(
    make: Callable[[str], Hr],
) -> None:
    hr = make("postgresql")
    hr.execute(
        USR,
        "CREATE TABLE phone (idu integer REFERENCES usr DEFERRABLE INITIALLY DEFERRED, no text)",
    )
    hr.ddl("usr", style="query-back")
    hr.execute(
        "BEGIN", "INSERT INTO phone VALUES (1, '11')", "INSERT INTO usr VALUES (1)", "COMMIT"
    )
    assert (7, "phone", "idu=1", "no", None, None) in hr.events()


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
@pytest.mark.parametrize("key_change", ["delete-and-insert", "modify-association"])
def test_a_child_row_that_gets_its_first_parent_changes_the_parent(
    make: Callable[[str], Hr], kind: str, key_change: str
) -> None:
    hr = make(kind)
    hr.execute(
        USR,
        "CREATE TABLE phone (idu integer REFERENCES usr ON UPDATE CASCADE, no varchar(9))",
    )
    hr.ddl("usr", key_change=key_change)
    hr.execute("INSERT INTO usr VALUES (1, 'a', NULL)", "INSERT INTO phone VALUES (NULL, '11')")
    hr.events()
    hr.execute("UPDATE phone SET idu = 1")
    assert hr.events() == [(2, "phone", "idu=1", "no", None, "11")]


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_changed_columns_are_looked_up_until_ddl_runs_again(
    make: Callable[[str], Hr], kind: str
) -> None:
    hr = make(kind)
    hr.execute(USR)
    hr.ddl("usr")
    hr.execute("INSERT INTO usr VALUES (1, 'a', 'b')")
    hr.events()
    hr.execute("ALTER TABLE usr RENAME COLUMN lname TO surname", "UPDATE usr SET surname = 'c'")
    assert hr.events() == [(6, hr_name(kind), "idu=1", None, None, None)]
    is_right, line = hr.check()
    assert not is_right
    assert "surname" in line or kind == "sqlite"
    hr.ddl("usr")
    assert hr.check()[0]
    hr.execute("UPDATE usr SET surname = 'd'")
    assert hr.events() == [(2, "usr", "idu=1", "surname", "c", "d")]


def hr_name(kind: str) -> str:
    return '"usr"' if kind == "sqlite" else "usr"


@pytest.mark.parametrize("kind", KINDS)
def test_renamed_columns_and_new_ones_never_exchange_their_values(
    make: Callable[[str], Hr], kind: str
) -> None:
    hr = make(kind)
    hr.execute(USR)
    hr.ddl("usr")
    hr.execute("INSERT INTO usr VALUES (1, 'a', 'b')")
    hr.events()
    hr.execute(
        "ALTER TABLE usr RENAME COLUMN lname TO surname",
        "ALTER TABLE usr ADD COLUMN lname varchar(20)",
        "UPDATE usr SET surname = 'SURNAME', lname = 'LNAME'",
    )
    assert "SURNAME" not in repr(hr.events())
    is_right, line = hr.check()
    assert not is_right
    assert "xds_" in line


@pytest.mark.parametrize("kind", KINDS)
def test_a_renamed_table_is_logged_once_after_ddl(make: Callable[[str], Hr], kind: str) -> None:
    hr = make(kind)
    hr.execute(USR)
    hr.ddl("usr")
    hr.execute("ALTER TABLE usr RENAME TO member")
    assert not hr.check()[0]
    hr.execute(USR)
    note = hr.ddl("usr")
    assert "xds_usr_insert is on" in note or kind == "postgresql"
    hr.execute("INSERT INTO usr VALUES (1, 'a', NULL)")
    hr.events()
    hr.ddl("member")
    assert hr.check()[0]
    hr.execute("INSERT INTO member VALUES (2, 'b', NULL)", "INSERT INTO usr VALUES (3, 'c', NULL)")
    assert [event[:3] for event in hr.events()] == [(1, "member", "idu=2"), (1, "usr", "idu=3")]


def test_rows_of_a_renamed_table_never_become_those_of_the_table_that_took_its_name(
    make: Callable[[str], Hr],
) -> None:
    hr = make("postgresql")
    hr.execute(USR)
    hr.ddl("usr")
    hr.execute("ALTER TABLE usr RENAME TO member", USR)
    hr.ddl("usr")  # replaces the function that the triggers of member still call
    hr.execute("INSERT INTO member VALUES (2, 'b', NULL)", "TRUNCATE member")
    inserted, truncated = hr.events()
    assert inserted[:3] == (5, "member", "idu=2")
    assert truncated[:2] == (6, "member")
    assert not hr.check()[0]


@pytest.mark.parametrize("kind", KINDS)
def test_check_names_missing_triggers(make: Callable[[str], Hr], kind: str) -> None:
    hr = make(kind)
    hr.execute(USR, "CREATE TABLE dept (id integer PRIMARY KEY)")
    hr.ddl("usr")
    is_right, line = hr.check()
    assert is_right
    assert "without triggers: " in line
    assert "dept" in line
    name = "0_xds_log" if kind == "postgresql" else "xds_usr_delete"
    hr.execute(f'DROP TRIGGER "{name}" ON usr' if kind == "postgresql" else f"DROP TRIGGER {name}")
    is_right, line = hr.check()
    assert not is_right
    assert f"trigger {name}" in line
    assert "is missing" in line
    assert "--table" in line


def test_check_names_disabled_triggers(make: Callable[[str], Hr]) -> None:
    hr = make("postgresql")
    hr.execute(USR)
    hr.ddl("usr")
    hr.execute("ALTER TABLE usr DISABLE TRIGGER ALL")
    is_right, line = hr.check()
    assert not is_right
    assert "trigger 0_xds_log on public.usr is disabled" in line


def test_truncate_deletes_the_rows_of_its_own_table(make: Callable[[str], Hr]) -> None:
    hr = make("postgresql")
    hr.execute(
        "CREATE TABLE par (id integer PRIMARY KEY, v text)",
        "CREATE TABLE chi (extra text, PRIMARY KEY (id)) INHERITS (par)",
    )
    assert "public.chi, which inherit from public.par, are not logged" in hr.ddl("par")
    hr.execute(
        "INSERT INTO par VALUES (1, 'a')", "INSERT INTO chi VALUES (2, 'b')", "TRUNCATE ONLY par"
    )
    assert [event[:3] for event in hr.events()] == [(1, "par", "id=1"), (4, "par", "id=1")]


def test_changes_of_partitions_are_noted(make: Callable[[str], Hr]) -> None:
    hr = make("postgresql")
    hr.execute(
        "CREATE TABLE p (id integer PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    )
    assert "TRUNCATE, ATTACH and DETACH of a partition of public.p fire no trigger" in hr.ddl("p")
    hr.execute("INSERT INTO p VALUES (1, 'a')", "TRUNCATE p")
    assert [event[:3] for event in hr.events()] == [(1, "p", "id=1"), (4, "p", "id=1")]
    assert hr.check()[0]


def test_truncate_with_row_level_security_is_logged_as_a_change_that_is_rejected(
    make: Callable[[str], Hr],
) -> None:
    hr = make("postgresql")
    hr.execute(USR, "ALTER TABLE usr ENABLE ROW LEVEL SECURITY")
    hr.ddl("usr")
    hr.execute("INSERT INTO usr VALUES (1, 'a', NULL)", "TRUNCATE usr")
    code, output = hr.publish()
    assert code == 4
    assert "table-key" in output
    assert "run xds-publisher verify --repair" in hr.events()[-1][2]


def test_a_key_of_any_text_and_number_is_quoted(make: Callable[[str], Hr], tmp_path: Path) -> None:
    hr = make("postgresql")
    hr.execute("CREATE TABLE f (k float8 PRIMARY KEY)")
    hr.ddl("f")
    hr.execute("INSERT INTO f VALUES (1e300)")
    assert [event[2] for event in hr.events()] == ['k="1e+300"']
    with sqlite3.connect(tmp_path / "n.db") as connection:
        connection.execute("CREATE TABLE n (k INT PRIMARY KEY)")
    other = Hr("sqlite", f"sqlite:///{tmp_path / 'n.db'}", tmp_path)
    other.ddl("n")
    other.execute("INSERT INTO n VALUES ('1+j=2')")
    assert [event[2] for event in other.events()] == ['k="1+j=2"']
    other.session.close()
