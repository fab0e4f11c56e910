"""Triggers for an ordinary role of PostgreSQL, which may not create the role that writes the log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.services import servers
from tests.services.databases import Place, another_database
from tests.support.command_line import Ended, run_program

TABLES = (
    "CREATE SCHEMA own",
    "CREATE TABLE own.users (id INTEGER PRIMARY KEY, name TEXT)",
    "CREATE TABLE own.phones (id INTEGER REFERENCES own.users, number TEXT, UNIQUE (id, number))",
)
GRANT = "GRANT xds_log_writer TO hr"
CURE = f"CREATE ROLE xds_log_writer NOLOGIN; {GRANT}"


@pytest.fixture(scope="module")
def server() -> Iterator[Place]:
    """A server without the role."""
    try:
        with servers.postgresql() as started:
            place = Place("postgresql", started.url)
            place.execute("CREATE ROLE hr LOGIN")
            yield place
            place.disconnect()
    except servers.MissingServerError as missing:
        servers.skip_unproved(f"rights of triggers in PostgreSQL ({missing})")


@pytest.fixture
def admin(server: Place) -> Iterator[Place]:
    """A database in which hr may create schemas, as its superuser sees it."""
    with another_database(server, "hr") as admin:
        admin.execute("GRANT CREATE ON DATABASE hr TO hr")
        yield admin
        admin.execute("DROP OWNED BY hr CASCADE")
    server.execute("DROP ROLE IF EXISTS xds_log_writer")


@pytest.fixture
def user(admin: Place) -> Iterator[Place]:
    url = sa.make_url(admin.url).set(username="hr").render_as_string(hide_password=False)
    place = Place("postgresql", url)
    place.execute(*TABLES)
    yield place
    place.disconnect()


def ddl(place: Place, *options: str) -> Ended:
    tables = ("--table", "own.users", "--log-table", "own.event_log")
    return run_program("ddl", "--database", place.url, *tables, "--apply", *options)


def owners(place: Place) -> set[str]:
    """The roles whose rights the functions have."""
    query = (
        "SELECT r.rolname FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner WHERE p.prosecdef"
    )
    return {owner for (owner,) in place.query(query)}


def write_and_read(admin: Place) -> list[tuple[object, ...]]:
    """Events that an application logs, which has no right on the log."""
    admin.execute(
        "DROP ROLE IF EXISTS app",
        "CREATE ROLE app",
        "GRANT USAGE ON SCHEMA own TO app",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON own.users, own.phones TO app",
        "SET SESSION AUTHORIZATION app",
        "INSERT INTO own.users VALUES (1, 'Ann')",
        "INSERT INTO own.phones VALUES (1, '555')",
        "DELETE FROM own.phones",
        "RESET SESSION AUTHORIZATION",
        "DROP OWNED BY app",
        "DROP ROLE app",
    )
    columns = "table_key, event_type, column_name, old_value, new_value"
    return admin.query(f"SELECT {columns} FROM own.event_log ORDER BY record_id")


EVENTS = [
    ("id=1", 1, "name", None, "Ann"),
    ("id=1", 2, "number", None, "555"),
    ("id=1", 2, "number", "555", None),
]


@pytest.mark.parametrize("exists", [False, True])
def test_triggers_of_a_user_without_the_role_work_until_it_is_granted(
    admin: Place, user: Place, exists: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if exists:
        admin.execute("CREATE ROLE xds_log_writer NOLOGIN")
    ended = ddl(user)
    assert ended.code == 0, ended.text
    assert f"let a superuser run: {GRANT if exists else CURE}; then run ddl again" in ended.errors
    assert owners(admin) == {"hr"}
    assert write_and_read(admin) == EVENTS
    folder = tmp_path_factory.mktemp("job")
    job = folder / "job.toml"
    job.write_text(
        f'[[sources]]\nname = "hr"\ntable = "own.event_log"\n[database]\nurl = "{user.url}"\n'
        '[dispatch]\npath = "out"\n'
    )
    checked = run_program("check", "-c", job)
    assert checked.code == 0, checked.text
    assert "triggers have the rights of hr" in checked.output
    admin.execute(*(GRANT if exists else CURE).split("; "))
    again = ddl(user)
    assert again.code == 0, again.text
    assert "superuser" not in again.text
    assert owners(admin) == {"xds_log_writer"}
    assert "rights of hr" not in run_program("check", "-c", job).output


def test_a_user_who_may_create_roles_needs_no_help(admin: Place, user: Place) -> None:
    admin.execute("ALTER ROLE hr CREATEROLE")
    try:
        ended = ddl(user)
    finally:
        admin.execute("ALTER ROLE hr NOCREATEROLE")
    assert ended.code == 0, ended.text
    assert owners(admin) == {"xds_log_writer"}
    assert write_and_read(admin) == EVENTS


def test_a_schema_of_another_role_needs_the_role(admin: Place, user: Place) -> None:
    admin.execute("ALTER SCHEMA own OWNER TO tester", "GRANT USAGE, CREATE ON SCHEMA own TO hr")
    ended = ddl(user)
    assert ended.code != 0
    assert "schema own belongs to another role" in ended.errors
    assert CURE in ended.errors
    assert owners(admin) == set()


def test_printed_sql_names_the_statements(admin: Place, user: Place) -> None:
    printed = run_program("ddl", "--database", user.url, "--table", "own.users")
    assert "CREATE ROLE xds_log_writer NOLOGIN" in printed.output
    assert "GRANT xds_log_writer TO CURRENT_USER" in printed.output
