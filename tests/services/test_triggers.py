"""Triggers of the user's tables in real databases: what they log is what happened."""

from __future__ import annotations

import datetime as dt
import random
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from publisher.config.job_file import load
from publisher.database.catalogue import catalogue_of
from publisher.database.connection_cache import keep_connections
from publisher.errors import FatalError, UsageError
from publisher.formats.live.find_table import LiveTable
from publisher.formats.live.table_reader import moment, read
from publisher.model.keys import quote
from publisher.reports.check import check
from publisher.triggers import Refs, Statement, Style, TableRef, TriggerPlan, install, plan
from publisher.triggers.installed import unsafe_functions
from publisher.xds.values import text_of
from tests.services import servers
from tests.services.databases import BINARY, Place
from tests.services.logged_tables import TYPES, Logged, Model, read_log

STYLES = list(Style)
LOGGED_TYPES = {
    Style.PER_FIELD: {1, 2, 4},
    Style.PER_ROW: {4, 5, 6},
    Style.QUERY_BACK: {4, 7, 8},
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_model_that_follows_the_log_is_the_table(place: Place, style: Style, seed: int) -> None:
    rng = random.Random(f"{style} {seed}")
    logged = Logged(place, "usr", style, tuple(TYPES))
    model = Model(place.database())
    with keep_connections():
        for _ in range(25):  # often: what is looked up late heals a loss
            logged.work(rng, steps=rng.randrange(1, 6))
            model.follow()
            model.check(logged)
    assert set(model.types) == LOGGED_TYPES[style]


def changes(place: Place) -> list[tuple[Any, ...]]:
    """Type, key, column, old and new text of each event, as the program reads them."""
    return [
        (
            change.event_type,
            change.object.key,
            *change.columns,
            *(image[0] for image in (change.old, change.new) if image),
        )
        for change in read_log(place.database())
    ]


def make(place: Place, style: Style, *tables: TableRef, log: str = "event_log") -> TriggerPlan:
    database = place.database()
    planned = plan(database, Refs(tables, TableRef(None, log)), style)
    install(database, planned)
    return planned


USR = TableRef(None, "usr")


def usr(place: Place, columns: str = "fname VARCHAR(64), lname VARCHAR(64)") -> None:
    place.execute(f"CREATE TABLE usr (idu INTEGER PRIMARY KEY, {columns})")


def test_each_style_logs_its_types(place: Place) -> None:
    usr(place)
    for style in STYLES:
        make(place, style, USR)
        place.execute(
            "INSERT INTO usr VALUES (1, 'Jack', NULL)",
            "UPDATE usr SET fname = 'John', lname = 'Doe' WHERE idu = 1",
            "UPDATE usr SET idu = 2, lname = NULL WHERE idu = 1",
            "DELETE FROM usr",
        )
    assert changes(place) == [
        (1, "idu=1", "fname", "Jack"),
        (2, "idu=1", "fname", "Jack", "John"),
        (2, "idu=1", "lname", None, "Doe"),
        (4, "idu=1"),
        (1, "idu=2", "fname", "John"),
        (4, "idu=2"),
        *[(5, "idu=1"), (6, "idu=1"), (4, "idu=1"), (5, "idu=2"), (4, "idu=2")],
        *[(7, "idu=1", "fname"), (7, "idu=1", "lname")],
        *[(8, "idu=1", "fname"), (8, "idu=1", "lname")],
        (4, "idu=1"),
        *[(7, "idu=2", "fname"), (7, "idu=2", "lname")],
        (4, "idu=2"),
    ]


@pytest.mark.parametrize("style", STYLES)
def test_rows_without_values_are_not_lost(place: Place, style: Style) -> None:
    usr(place)
    place.execute("CREATE TABLE member (grp INTEGER, idu INTEGER, PRIMARY KEY (grp, idu))")
    make(place, style, USR, TableRef(None, "member"))
    place.execute(
        "INSERT INTO usr (idu) VALUES (1)",
        "INSERT INTO member VALUES (7, 1)",
        "UPDATE member SET grp = 8",
        "UPDATE member SET grp = 8",
    )
    expected: dict[Style, list[tuple[Any, ...]]] = {
        Style.PER_FIELD: [(1, "idu=1", "fname", None)],
        Style.PER_ROW: [(5, "idu=1")],
        Style.QUERY_BACK: [(7, "idu=1", "fname"), (7, "idu=1", "lname")],
    }
    assert changes(place) == [
        *expected[style],
        (1, "grp=7+idu=1", "grp", None),
        (4, "grp=7+idu=1"),
        (1, "grp=8+idu=1", "grp", None),
    ]


@pytest.mark.parametrize("style", STYLES)
def test_any_name_may_be_that_of_a_table_or_column(place: Place, style: Style) -> None:
    mark = "`" if place.kind == "mariadb" else '"'
    # SQLAlchemy reads what MariaDB says of a table line by line
    broken = "Straße mit Umbruch.\\" if place.kind == "mariadb" else "Straße mit\nUmbruch.\\"
    names = ["we%ird \"n`a'me; :x %(k0)s ?$xds$", broken, "SELECT", "old_key", "DELIMITER $$"]
    for name in names:
        quoted = mark + name.replace(mark, mark * 2) + mark
        other = mark + f"{name}2".replace(mark, mark * 2) + mark
        place.execute(f"CREATE TABLE {quoted} ({quoted} INTEGER PRIMARY KEY, {other} VARCHAR(20))")
        make(place, style, TableRef(None, name))
        place.execute(f"INSERT INTO {quoted} VALUES (1, 'x')", f"UPDATE {quoted} SET {other} = 'y'")
        last = read_log(place.database())[-1]
        assert last.object.table == name
        assert last.object.key == f"{quote(name)}=1"
        assert last.columns == (() if style is Style.PER_ROW else (f"{name}2",))


def test_any_name_may_be_that_of_the_log(place: Place) -> None:
    usr(place)
    name = "lo%g \"n`a'me; :x %(k0)s {} ?"
    make(place, Style.PER_FIELD, USR, log=name)
    make(place, Style.PER_FIELD, USR, log=name)
    place.execute("INSERT INTO usr (idu) VALUES (1)")
    table = LiveTable(name, order="record_id", where=("status", "N"))
    with moment(place.database(), table, 1) as (split,):
        (frame,) = read(place.database(), table, split, text_of)
    assert frame.batch.num_rows == 1


def test_long_names_are_told_apart(place: Place) -> None:
    names = ["ü" * 30 + end for end in ("a", "b")]
    for name in names:
        place.execute(f"CREATE TABLE {name} (idu INTEGER PRIMARY KEY)")
    make(place, Style.PER_FIELD, *(TableRef(None, name) for name in names))
    for name in names:
        place.execute(f"INSERT INTO {name} VALUES (1)")
    assert [change.object.table for change in read_log(place.database())] == names


def test_collations_do_not_hide_changes(place: Place) -> None:
    nocase = {"sqlite": "COLLATE NOCASE", "postgresql": "COLLATE loose", "mariadb": ""}[place.kind]
    if place.kind == "postgresql":
        place.execute(
            "DROP COLLATION IF EXISTS loose",
            "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
        )
    place.execute(f"CREATE TABLE usr (k VARCHAR(20) {nocase} PRIMARY KEY, v VARCHAR(20) {nocase})")
    make(place, Style.PER_FIELD, USR)
    place.execute(
        "INSERT INTO usr VALUES ('abc', 'x')",
        "UPDATE usr SET v = 'X'",
        "UPDATE usr SET v = 'X '",
        "UPDATE usr SET k = 'ABC'",
    )
    assert changes(place) == [
        (1, "k=abc", "v", "x"),
        (2, "k=abc", "v", "x", "X"),
        (2, "k=abc", "v", "X", "X "),
        (4, "k=abc"),
        (1, "k=ABC", "v", "X "),
    ]
    if place.kind == "postgresql":
        place.execute("DROP TABLE usr", "DROP COLLATION loose")


def test_what_cannot_be_logged_is_refused(place: Place) -> None:
    usr(place)
    place.execute(
        "CREATE TABLE bare (a INTEGER)",
        "CREATE VIEW view_usr AS SELECT idu AS pk_idu FROM usr",
    )
    for table, words in (
        ("bare", "bare has no primary key.*ADD PRIMARY KEY"),
        ("view_usr", "view_usr has no primary key.*name its underlying table"),
    ):
        with pytest.raises(UsageError, match=words):
            make(place, Style.PER_ROW, TableRef(None, table))
    with pytest.raises(FatalError, match="no table nothing: correct"):
        make(place, Style.PER_ROW, TableRef(None, "nothing"))
    with pytest.raises(
        UsageError, match=r"bare exists and is not an event log .it has no record_id"
    ):
        make(place, Style.PER_ROW, USR, log="bare")
    make(place, Style.PER_ROW, USR)
    with pytest.raises(UsageError, match="event_log is the event log itself"):
        make(place, Style.PER_ROW, TableRef(None, "event_log"))
    if place.kind != "mariadb":
        place.execute('CREATE TABLE t (a INTEGER PRIMARY KEY, " b" INTEGER)')
        with pytest.raises(UsageError, match=r"' b' of .*t begins or ends with blanks"):
            make(place, Style.QUERY_BACK, TableRef(None, "t"))
        make(place, Style.PER_ROW, TableRef(None, "t"))


def test_a_failure_in_the_middle_leaves_nothing_or_says_what(place: Place) -> None:
    usr(place)
    database = place.database()
    planned = plan(database, Refs((USR,), TableRef(None, "event_log")), Style.PER_FIELD)
    wrong = replace(
        planned, statements=(*planned.statements[:-1], Statement("trigger z", "CREATE z"))
    )
    kept = "MariaDB keeps the objects that were already created: event log event_log, role .*, "
    words = kept if place.kind == "mariadb" else "nothing was changed"
    with pytest.raises(FatalError, match=f"trigger z failed on .*; {words}.*start the same"):
        install(database, wrong)
    there = catalogue_of(place.database()).table(None, "event_log")
    assert (there is not None) == (place.kind == "mariadb")
    install(database, planned)
    place.execute("INSERT INTO usr (idu) VALUES (1)")
    assert changes(place) == [(1, "idu=1", "fname", None)]


def test_the_log_has_ids_times_and_users(place: Place) -> None:
    usr(place)
    make(place, Style.PER_ROW, USR)
    before = dt.datetime.now(dt.UTC)
    place.execute("INSERT INTO usr (idu) VALUES (1), (2)")
    after = dt.datetime.now(dt.UTC)
    first, second = read_log(place.database())
    assert 0 < first.position.high < second.position.high
    assert first.event_time is not None
    moment_ = dt.datetime.fromtimestamp(first.event_time / 1e6, dt.UTC)
    assert before - dt.timedelta(seconds=0.01) <= moment_ <= after
    user = {"sqlite": None, "postgresql": "tester", "mariadb": "root"}[place.kind]
    assert first.perpetrator == (sa.make_url(place.url).username if user else None)


def test_what_is_printed_can_be_run_by_the_database_s_own_client(place: Place) -> None:
    mark = "`" if place.kind == "mariadb" else '"'
    place.execute(
        f"CREATE TABLE {mark}a;'$$ b{mark} (k VARCHAR(20) PRIMARY KEY, v BLOB)".replace(
            "BLOB", BINARY[place.kind]
        )
    )
    refs = Refs((TableRef(None, "a;'$$ b"),), TableRef(None, "event_log"))
    planned = plan(place.database(), refs, Style.PER_FIELD)
    run_script(place, planned.script)
    run_script(place, planned.script)
    place.execute(f"INSERT INTO {mark}a;'$$ b{mark} VALUES ('x;\"', NULL)".replace("\\", ""))
    assert changes(place) == [(1, 'k="x;\\""', "v", None)]


def run_script(place: Place, script: str) -> None:
    url = sa.make_url(place.url)
    client = {
        "sqlite": ["sqlite3", "-bail", str(url.database)],
        "postgresql": ["psql", "-q", "-v", "ON_ERROR_STOP=1", "-h", str(url.host),
                       "-p", str(url.port), "-U", str(url.username), str(url.database)],
        "mariadb": ["mariadb", "--no-defaults", "-h", str(url.host), "-P", str(url.port),
                    "-u", str(url.username), str(url.database)],
    }[place.kind]  # fmt: skip
    if shutil.which(client[0]) is None:
        servers.skip_unproved(f"that {client[0]} runs what is printed (it is not installed)")
    done = subprocess.run(client, input=script.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_truncate_deletes_each_row(postgres: Place) -> None:
    usr(postgres)
    make(postgres, Style.PER_ROW, USR)
    postgres.execute("INSERT INTO usr (idu) VALUES (1), (2)", "TRUNCATE usr")
    assert changes(postgres)[2:] == [(4, "idu=1"), (4, "idu=2")]


def test_users_need_no_right_on_the_log(postgres: Place) -> None:
    usr(postgres)
    make(postgres, Style.PER_FIELD, USR)
    postgres.execute(
        "DROP ROLE IF EXISTS clerk",
        "CREATE ROLE clerk LOGIN",
        "GRANT SELECT, INSERT, UPDATE ON usr TO clerk",
    )
    url = sa.make_url(postgres.url).set(username="clerk").render_as_string(hide_password=False)
    Place("postgresql", url).execute("INSERT INTO usr VALUES (1, 'Jack', NULL)")
    (change,) = read_log(postgres.database())
    assert change.perpetrator == "clerk"
    postgres.execute("REVOKE ALL ON usr FROM clerk", "DROP ROLE clerk")


def test_schemas_of_tables_and_log(postgres: Place) -> None:
    postgres.execute(
        "DROP SCHEMA IF EXISTS indirect CASCADE",
        "CREATE SCHEMA indirect",
        "CREATE TABLE indirect.usr (idu INTEGER PRIMARY KEY)",
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY)",
    )
    database = postgres.database()
    refs = Refs((TableRef("indirect", "usr"), USR), TableRef("indirect", "indirect_process"))
    install(database, plan(database, refs, Style.PER_ROW))
    postgres.execute("INSERT INTO usr VALUES (1)", "INSERT INTO indirect.usr VALUES (1)")
    changes_ = read_log(postgres.database(), table="indirect.indirect_process")
    assert [change.object.schema for change in changes_] == ["public", "indirect"]
    postgres.execute("DROP SCHEMA indirect CASCADE")


def test_concurrent_writers_are_logged_in_the_order_of_their_commits(postgres: Place) -> None:
    usr(postgres)
    make(postgres, Style.PER_FIELD, USR)
    postgres.execute("INSERT INTO usr (idu, fname) VALUES (0, 'start'), (1, 'start')")

    def write(worker: int) -> None:
        engine = sa.create_engine(postgres.url)
        for step in range(40):
            with engine.begin() as connection:
                connection.exec_driver_sql(
                    f"UPDATE usr SET fname = '{worker}-{step}' WHERE idu = {step % 2}"
                )
        engine.dispose()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    model = Model(postgres.database())
    model.follow()  # fails where an old value is not the one before
    assert model.types.count(2) == 160


def test_a_cascade_is_logged_after_the_key_change(postgres: Place) -> None:
    usr(postgres, "chief INTEGER REFERENCES usr ON UPDATE CASCADE")
    make(postgres, Style.PER_FIELD, USR)
    postgres.execute(
        "INSERT INTO usr VALUES (1, 1), (2, 1)", "UPDATE usr SET idu = 9 WHERE idu = 1"
    )
    gone, new, *cascaded = changes(postgres)[2:]
    assert (gone, new) == ((4, "idu=1"), (1, "idu=9", "chief", "1"))
    assert set(cascaded) == {(2, "idu=9", "chief", "1", "9"), (2, "idu=2", "chief", "1", "9")}


def test_types_of_postgresql_without_comparison(postgres: Place) -> None:
    usr(postgres, "doc JSON, at POINT, days INTERVAL, many DATE[], id UUID, open BOOLEAN[]")
    for style in STYLES:
        make(postgres, style, USR)
        postgres.execute(
            "DELETE FROM usr",
            "INSERT INTO usr VALUES (1, '{\"a\": 1}', '(1,2)', '1 day 02:00', '{2020-02-29}',"
            " '6ecd8c99-4036-403d-bf84-cf8400f67836', '{t,f}')",
            "UPDATE usr SET doc = doc, at = at",
            "UPDATE usr SET doc = '{}', many = '{1066-10-14}'",
        )
    logged = changes(postgres)
    assert logged[2:5] == [
        (1, "idu=1", "days", "1 day 02:00:00"),
        (1, "idu=1", "many", "{2020-02-29}"),
        (1, "idu=1", "id", "6ecd8c99-4036-403d-bf84-cf8400f67836"),
    ]
    assert [change[0] for change in logged].count(6) == 1
    assert [change[2] for change in logged if change[0] == 8] == ["doc", "many"]


def test_a_deferrable_key_is_noted(postgres: Place) -> None:
    postgres.execute("CREATE TABLE usr (idu INTEGER, PRIMARY KEY (idu) DEFERRABLE)")
    (note,) = make(postgres, Style.PER_ROW, USR).notes
    assert "primary key of public.usr is deferrable" in note


def test_types_of_mariadb(mariadb: Place) -> None:
    usr(
        mariadb,
        "a BIT(1), b BIT(9), c TINYINT(1), d YEAR, e ENUM('x','y'), f SET('p','q'), g UUID,"
        " h VARCHAR(9) CHARACTER SET latin1, i TIMESTAMP(3) NULL, j INT(5) ZEROFILL, k JSON,"
        " l BINARY(3), m TIME(3)",
    )
    make(mariadb, Style.PER_FIELD, USR)
    mariadb.execute(
        "SET time_zone = '+05:00'",
        "INSERT INTO usr VALUES (1, b'1', b'100000001', 7, 1999, 'y', 'q,p',"
        " '6ecd8c99-4036-403d-bf84-cf8400f67836', 'Zoë', '2020-02-29 05:00:00.25', 42, '[1]',"
        " 'ab', '01:02:03.5')",
    )
    assert [change[3] for change in changes(mariadb)] == [
        "1", "257", "7", "1999", "y", "p,q", "6ecd8c99-4036-403d-bf84-cf8400f67836", "Zoë",
        "2020-02-29 00:00:00.250", "00042", "[1]", "YWIA", "01:02:03.500",
    ]  # fmt: skip


def test_changes_without_triggers_of_mariadb_are_noted(mariadb: Place) -> None:
    usr(mariadb)
    mariadb.execute(
        "CREATE TABLE badge (no INTEGER PRIMARY KEY, idu INTEGER, CONSTRAINT of_usr"
        " FOREIGN KEY (idu) REFERENCES usr (idu) ON DELETE SET NULL ON UPDATE CASCADE)"
    )
    truncate, cascade = make(mariadb, Style.PER_ROW, TableRef(None, "badge")).notes
    assert "TRUNCATE of badge" in truncate
    assert "of_usr of badge (ON DELETE SET NULL, ON UPDATE CASCADE)" in cascade
    assert cascade.endswith("not logged; log usr, too")
    notes = make(mariadb, Style.PER_ROW, USR, TableRef(None, "badge")).notes
    assert ["TRUNCATE" in note for note in notes] == [True, True]
    mariadb.execute(
        "INSERT INTO usr (idu) VALUES (1)",
        "INSERT INTO badge VALUES (7, 1)",
        "UPDATE usr SET idu = 2",
        "DELETE FROM usr",
    )
    assert changes(mariadb)[2:] == [
        *[(6, "no=7"), (4, "idu=1"), (5, "idu=2")],
        *[(6, "no=7"), (4, "idu=2")],
    ]
    mariadb.execute("DROP TABLE badge")


def test_log_and_table_in_two_databases_of_mariadb(mariadb: Place) -> None:
    mariadb.execute("DROP DATABASE IF EXISTS other", "CREATE DATABASE other")
    mariadb.execute("CREATE TABLE other.usr (idu INTEGER PRIMARY KEY)")
    make(mariadb, Style.PER_ROW, TableRef("other", "usr"))
    mariadb.execute("INSERT INTO other.usr VALUES (1)")
    (change,) = read_log(mariadb.database())
    assert change.object == ("other", "usr", "idu=1")
    mariadb.execute("DROP DATABASE other")


class Attacker:
    """A user of PostgreSQL with a schema of her own, who wants to run code as somebody else."""

    def __init__(self, postgres: Place) -> None:
        self.postgres = postgres
        postgres.execute(
            "DROP FUNCTION IF EXISTS xds_t_log() CASCADE",
            "DROP SCHEMA IF EXISTS hers CASCADE",
            "DROP ROLE IF EXISTS mallory",
            "CREATE ROLE mallory LOGIN",
            "CREATE SCHEMA hers AUTHORIZATION mallory",
        )
        url = sa.make_url(postgres.url).set(username="mallory")
        self.place = Place("postgresql", url.render_as_string(hide_password=False))
        self.place.execute(
            "CREATE TABLE hers.ran (who text)",
            "GRANT USAGE ON SCHEMA hers TO PUBLIC",
            "GRANT INSERT ON hers.ran TO PUBLIC",
            "CREATE TYPE hers.evil AS (x integer)",
            "CREATE FUNCTION hers.run(hers.evil) RETURNS text LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO hers.ran VALUES (current_user); RETURN 'x'; END $$",
            "CREATE FUNCTION hers.bytes(hers.evil) RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO hers.ran VALUES (current_user); RETURN 'x'; END $$",
            "CREATE FUNCTION hers.yes(hers.evil) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO hers.ran VALUES (current_user); RETURN true; END $$",
            "CREATE CAST (hers.evil AS text) WITH FUNCTION hers.run(hers.evil) AS IMPLICIT",
            "CREATE CAST (hers.evil AS bytea) WITH FUNCTION hers.bytes(hers.evil) AS IMPLICIT",
            "CREATE CAST (hers.evil AS boolean) WITH FUNCTION hers.yes(hers.evil) AS IMPLICIT",
        )

    def ran(self) -> list[str]:
        """Whose rights her code has had."""
        return [who for (who,) in self.postgres.query("SELECT who FROM hers.ran")]


@pytest.fixture
def attacker(postgres: Place) -> Iterator[Attacker]:
    attacker = Attacker(postgres)
    yield attacker
    attacker.place.disconnect()  # the next attacker is another role of the same name
    postgres.execute("DROP SCHEMA hers CASCADE", "DROP OWNED BY mallory", "DROP ROLE mallory")


def executors(place: Place) -> list[tuple[str, str, bool, bool]]:
    """Functions of triggers: name, owner, whether the owner is a superuser, whether PUBLIC may run it."""
    return place.query(
        "SELECT p.proname, r.rolname, r.rolsuper, has_function_privilege('mallory', p.oid, 'EXECUTE')"
        " FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner WHERE p.prosecdef"
        " AND p.proname = 'xds_t_log'"
    )


def test_a_function_cannot_be_attached_to_a_table_of_others(
    postgres: Place, attacker: Attacker
) -> None:
    postgres.execute("CREATE TABLE t (k integer PRIMARY KEY, v text)")
    make(postgres, Style.PER_FIELD, TableRef(None, "t"))
    assert executors(postgres) == [("xds_t_log", "xds_log_writer", False, False)]
    attacker.place.execute("CREATE TABLE hers.t (k hers.evil, v hers.evil)")
    with pytest.raises(
        sa.exc.ProgrammingError, match=r"permission denied for function public\.xds_t_log"
    ):
        attacker.place.execute(
            "CREATE TRIGGER mine AFTER INSERT ON hers.t FOR EACH ROW"
            " EXECUTE FUNCTION public.xds_t_log()"
        )


@pytest.mark.parametrize("style", STYLES)
def test_a_type_of_the_tables_owner_runs_no_code(
    postgres: Place, attacker: Attacker, style: Style
) -> None:
    attacker.place.execute(
        "CREATE TABLE hers.t (k integer PRIMARY KEY, v text, b bytea, yes boolean)"
    )
    make(postgres, style, TableRef("hers", "t"))
    for column in ("k", "v", "b", "yes"):
        attacker.place.execute(
            f"ALTER TABLE hers.t ALTER {column} TYPE hers.evil USING ROW(1)::hers.evil"
        )
    evil = "ROW(%s)::hers.evil"
    attacker.place.execute(
        f"INSERT INTO hers.t VALUES ({', '.join([evil % 1] * 4)})",
        f"UPDATE hers.t SET v = {evil % 2}, b = {evil % 2}, yes = {evil % 3}",
        f"UPDATE hers.t SET k = {evil % 5}",
        "DELETE FROM hers.t",
        f"INSERT INTO hers.t VALUES ({', '.join([evil % 7] * 4)})",
        "TRUNCATE hers.t",
    )
    assert attacker.ran() == []
    keys = postgres.query("SELECT DISTINCT table_key FROM event_log ORDER BY 1")
    assert keys == [("k=(1)",), ("k=(5)",), ("k=(7)",)]


def test_a_table_that_took_the_name_is_not_read(postgres: Place, attacker: Attacker) -> None:
    attacker.place.execute("CREATE TABLE hers.t (k integer PRIMARY KEY, v text)")
    make(postgres, Style.PER_FIELD, TableRef("hers", "t"))
    attacker.place.execute(
        "ALTER TABLE hers.t RENAME TO renamed",
        "CREATE FUNCTION hers.spy() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO hers.ran VALUES (current_user); RETURN 1; END $$",
        "CREATE VIEW hers.t AS SELECT hers.spy() AS k",
        "GRANT SELECT ON hers.t TO PUBLIC",
    )
    attacker.place.execute("TRUNCATE hers.renamed")
    assert attacker.ran() == []
    ((key, name),) = postgres.query("SELECT table_key, table_name FROM event_log")
    assert "changed after its triggers were made" in key
    assert name == "hers.renamed"


def test_a_function_of_another_owner_is_refused(postgres: Place, attacker: Attacker) -> None:
    attacker.place.execute(
        "CREATE TABLE hers.t (k integer PRIMARY KEY)",
        "CREATE FUNCTION hers.xds_t_log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RETURN NULL; END $$",
    )
    with pytest.raises(FatalError, match="belongs to another role: drop it"):
        make(postgres, Style.PER_FIELD, TableRef("hers", "t"))


def test_installing_again_revokes_what_an_older_installation_granted(
    postgres: Place, attacker: Attacker
) -> None:
    postgres.execute("CREATE TABLE t (k integer PRIMARY KEY, v text)")
    postgres.execute(
        "CREATE FUNCTION xds_t_log() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"
        " $$ BEGIN RETURN NULL; END $$"
    )
    ((_, _, is_super, may_run),) = executors(postgres)
    assert (is_super, may_run) == (True, True)
    (unsafe,) = [words for words in unsafe_functions(postgres.database()) if "xds_t_log" in words]
    assert unsafe == "PUBLIC may execute public.xds_t_log(), which has the rights of tester"
    make(postgres, Style.PER_FIELD, TableRef(None, "t"))
    assert not any("xds_t_log" in words for words in unsafe_functions(postgres.database()))
    make(postgres, Style.PER_ROW, TableRef(None, "t"))
    assert executors(postgres) == [("xds_t_log", "xds_log_writer", False, False)]
    postgres.execute("INSERT INTO t VALUES (1, 'a')")
    assert changes(postgres) == [(5, "k=1")]


def test_the_writer_may_write_the_log_and_see_keys_and_nothing_else(
    postgres: Place, attacker: Attacker
) -> None:
    postgres.execute("CREATE TABLE t (k integer PRIMARY KEY, secret text)")
    make(postgres, Style.PER_FIELD, TableRef(None, "t"))
    granted = postgres.query(
        "SELECT has_table_privilege('xds_log_writer', 'event_log', 'INSERT'),"
        " has_table_privilege('xds_log_writer', 'event_log', 'SELECT, UPDATE, DELETE'),"
        " has_column_privilege('xds_log_writer', 't', 'k', 'SELECT'),"
        " has_column_privilege('xds_log_writer', 't', 'secret', 'SELECT'),"
        " has_table_privilege('xds_log_writer', 't', 'INSERT, UPDATE, DELETE'),"
        " has_schema_privilege('xds_log_writer', 'public', 'CREATE')"
    )
    assert granted == [(True, False, True, False, False, False)]
    postgres.execute("ALTER ROLE xds_log_writer CREATEDB")
    with pytest.raises(FatalError, match="may do more than write event logs"):
        make(postgres, Style.PER_FIELD, TableRef(None, "t"))
    postgres.execute("ALTER ROLE xds_log_writer NOCREATEDB")


def test_a_log_with_a_sequence_is_written(postgres: Place) -> None:
    postgres.execute(
        "CREATE TABLE event_log (record_id BIGSERIAL PRIMARY KEY, table_key text, status char(1)"
        " DEFAULT 'N', event_type smallint, event_time timestamp DEFAULT now(), perpetrator text,"
        " table_name text, column_name text, old_value text, new_value text)",
        "CREATE TABLE t (k integer PRIMARY KEY, host inet, c char(5))",
    )
    make(postgres, Style.PER_FIELD, TableRef(None, "t"))
    postgres.execute(
        "INSERT INTO t VALUES (1, '10.0.0.1', 'ab'), (2, '::1', NULL), (3, '10.0.0.0/8', NULL)"
    )
    assert changes(postgres) == [
        (1, "k=1", "host", "10.0.0.1"),
        (1, "k=1", "c", "ab   "),
        (1, "k=2", "host", "::1"),
        (1, "k=3", "host", "10.0.0.0/8"),
    ]


class ReplacesLog:
    """A user of MariaDB who may drop the log and make views and functions in its place."""

    def __init__(self, mariadb: Place) -> None:
        self.mariadb = mariadb
        self.database = sa.make_url(mariadb.url).database
        self.drop()
        mariadb.execute(
            "CREATE DATABASE hidden",
            "CREATE TABLE hidden.secret (word VARCHAR(20))",
            "INSERT INTO hidden.secret VALUES ('xyzzy')",
            "CREATE USER mallory@'%'",
            "GRANT SELECT, INSERT, DROP, CREATE, CREATE VIEW, CREATE ROUTINE, EXECUTE"
            f" ON {self.database}.* TO mallory@'%'",
            "CREATE USER clerk@'%'",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {self.database}.usr TO clerk@'%'",
        )

    def drop(self) -> None:
        """Removes all of it."""
        self.mariadb.execute(
            "DROP USER IF EXISTS mallory@'%'",
            "DROP USER IF EXISTS clerk@'%'",
            "DROP DATABASE IF EXISTS hidden",
            "DROP VIEW IF EXISTS event_log",
            "DROP TABLE IF EXISTS hers, ran, event_log",
            "DROP FUNCTION IF EXISTS spy",
            f"DROP ROLE IF EXISTS `{self.role}`",
        )

    @property
    def role(self) -> str:
        """The role that the triggers run as."""
        return f"xds_{self.database}.event_log_writer"

    def place(self, user: str) -> Place:
        """The database as ``user`` has it."""
        url = sa.make_url(self.mariadb.url).set(username=user, password=None)
        return Place("mariadb", url.render_as_string(hide_password=False))

    def replace_log(self) -> None:
        """Puts a view in the log's place, whose check runs her function as whoever inserts."""
        self.place("mallory").execute(
            "DROP TABLE event_log",
            "CREATE TABLE ran (who VARCHAR(200), word VARCHAR(20))",
            "CREATE TABLE hers (table_key TEXT, event_type INTEGER, table_name TEXT,"
            " column_name TEXT, old_value TEXT, new_value TEXT)",
            "CREATE FUNCTION spy() RETURNS INTEGER MODIFIES SQL DATA SQL SECURITY INVOKER BEGIN"
            " INSERT INTO ran SELECT CURRENT_USER(), word FROM hidden.secret; RETURN 1; END",
            "CREATE SQL SECURITY INVOKER VIEW event_log AS SELECT * FROM hers WHERE spy() = 1"
            " WITH CHECK OPTION",
        )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        engine = sa.create_engine(self.mariadb.url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(sql)]


@pytest.fixture
def log_replacer(mariadb: Place) -> Iterator[ReplacesLog]:
    usr(mariadb)
    replacer = ReplacesLog(mariadb)
    yield replacer
    replacer.drop()


@pytest.mark.parametrize("style", STYLES)
def test_a_view_in_place_of_the_log_of_mariadb_runs_no_code_as_the_installer(
    mariadb: Place, log_replacer: ReplacesLog, style: Style
) -> None:
    make(mariadb, style, USR)
    log_replacer.replace_log()
    with pytest.raises(sa.exc.DBAPIError, match="lack rights to use them"):
        log_replacer.place("mallory").execute("INSERT INTO usr VALUES (1, 'Jack', NULL)")
    assert log_replacer.rows("SELECT * FROM ran") == []


def test_code_in_place_of_the_log_of_mariadb_has_the_rights_of_the_role_only(
    mariadb: Place, log_replacer: ReplacesLog
) -> None:
    make(mariadb, Style.PER_ROW, USR)
    log_replacer.replace_log()
    database, role = log_replacer.database, log_replacer.role
    # a user who may grant rights on this database could do this
    mariadb.execute(f"GRANT SELECT, INSERT, EXECUTE ON {database}.* TO `{role}`")
    with pytest.raises(sa.exc.DBAPIError, match=r"SELECT command denied .*`hidden`.`secret`"):
        log_replacer.place("mallory").execute("INSERT INTO usr VALUES (1, 'Jack', NULL)")
    mariadb.execute(f"GRANT SELECT ON hidden.secret TO `{role}`")
    log_replacer.place("mallory").execute("INSERT INTO usr VALUES (2, 'Jack', NULL)")
    ran = log_replacer.rows("SELECT DISTINCT * FROM ran")
    assert ran == [("@", "xyzzy")]  # the function ran as the role, which is not a user


def test_users_of_mariadb_need_no_right_on_the_log(
    mariadb: Place, log_replacer: ReplacesLog
) -> None:
    make(mariadb, Style.PER_FIELD, USR)
    log_replacer.place("clerk").execute(
        "INSERT INTO usr VALUES (1, 'Jack', NULL)",
        "UPDATE usr SET idu = 2",
        "DELETE FROM usr",
    )
    logged = read_log(mariadb.database())
    assert [change.event_type for change in logged] == [1, 4, 1, 4]
    assert {change.perpetrator for change in logged} == {"clerk"}


def test_the_role_of_mariadb_may_write_the_log_and_read_tables_and_nothing_else(
    mariadb: Place, log_replacer: ReplacesLog
) -> None:
    role, database = f"`{log_replacer.role}`", log_replacer.database
    make(mariadb, Style.PER_FIELD, USR)
    make(mariadb, Style.PER_ROW, USR)  # what it made itself is not refused
    granted = log_replacer.rows(f"SHOW GRANTS FOR {role}")
    assert sorted(row[0] for row in granted) == [
        f"GRANT INSERT ON `{database}`.`event_log` TO {role}",
        f"GRANT SELECT, TRIGGER ON `{database}`.`usr` TO {role}",
        f"GRANT USAGE ON *.* TO {role}",
    ]
    for right in (
        "SELECT ON *.*",
        "EXECUTE ON hidden.*",
        "INSERT ON hidden.secret",
        f"SELECT ON {database}.event_log",
        f"UPDATE (status) ON {database}.event_log",
        f"UPDATE (fname) ON {database}.usr",
    ):
        mariadb.execute(f"GRANT {right} TO {role}")
        with pytest.raises(FatalError, match=r"may do more than write it .*revoke these rights"):
            make(mariadb, Style.PER_ROW, USR)
        mariadb.execute(f"REVOKE {right} FROM {role}")
    make(mariadb, Style.PER_ROW, USR)
    mariadb.execute("CREATE ROLE IF NOT EXISTS strong", f"GRANT strong TO {role}")
    with pytest.raises(FatalError, match="may do more than write it"):
        make(mariadb, Style.PER_ROW, USR)
    mariadb.execute("DROP ROLE strong")


def test_triggers_of_mariadb_with_the_rights_of_a_user_are_reported_and_replaced(
    mariadb: Place, log_replacer: ReplacesLog, tmp_path: Path
) -> None:
    make(mariadb, Style.PER_ROW, USR)
    trigger = "xds_usr_insert AFTER INSERT ON usr FOR EACH ROW SET @a = 1"
    mariadb.execute(f"CREATE OR REPLACE TRIGGER {trigger}")
    (unsafe,) = unsafe_functions(mariadb.database())
    words = f"trigger {log_replacer.database}.xds_usr_insert has the rights of root@"
    assert unsafe.startswith(words)
    assert words in check_triggers(mariadb, tmp_path)[1]
    make(mariadb, Style.PER_ROW, USR)
    assert unsafe_functions(mariadb.database()) == []
    assert check_triggers(mariadb, tmp_path)[0]


def check_triggers(place: Place, folder: Path) -> tuple[bool, str]:
    """Checks a job with the event log, and returns the finding about its triggers."""
    job = folder / "hr.toml"
    job.write_text(
        f'[[sources]]\nname = "hr"\ntable = "event_log"\n[database]\nurl = "{place.url}"\n'
        '[dispatch]\npath = "out"\n'
    )
    (finding,) = [finding for finding in check(load(job)) if finding.what == "triggers of hr"]
    return finding.ok, finding.detail


def test_an_installer_of_mariadb_without_super_needs_the_rights_of_the_readme(
    mariadb: Place, log_replacer: ReplacesLog
) -> None:
    mariadb.execute(
        "DROP USER IF EXISTS installer@'%'",
        "CREATE USER installer@'%'",
        "GRANT CREATE USER, SET USER ON *.* TO installer@'%'",
        "GRANT SELECT ON mysql.* TO installer@'%'",
        "GRANT SELECT, INSERT, CREATE, TRIGGER"
        f" ON {log_replacer.database}.* TO installer@'%' WITH GRANT OPTION",
    )
    make(log_replacer.place("installer"), Style.PER_ROW, USR)
    make(log_replacer.place("installer"), Style.PER_FIELD, USR)
    log_replacer.place("clerk").execute("INSERT INTO usr VALUES (1, 'Jack', NULL)")
    assert changes(mariadb) == [(1, "idu=1", "fname", "Jack")]
    mariadb.execute("DROP USER installer@'%'")
