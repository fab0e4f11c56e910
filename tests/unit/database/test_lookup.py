"""The database by SQLite alone: settings, secrets, files, keys."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, types
from sqlalchemy.dialects import mysql, postgresql

from publisher.database import lookup as lookup_module
from publisher.database.catalogue import catalogue_of
from publisher.database.column_kinds import kind_of
from publisher.database.connection import Database
from publisher.database.key_values import KeyValueError, key_column
from publisher.database.lookup import DatabaseLookup
from publisher.database.lost_error import LostError
from publisher.database.numbered_rows import Keys
from publisher.database.options import DatabaseOptions
from publisher.database.statements import InListQuery
from publisher.errors import FatalError, SettingsError
from publisher.model.catalogue import Catalogue, ColumnKind
from publisher.model.change import Object, Reason
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions
from publisher.planning.query_back import (
    Answer,
    Answers,
    CurrentRow,
    Lookup,
    NoDatabase,
    RefusedLookup,
)
from tests.support.planning import answers_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "snap?shot #1.db"


def make_database(path: Path, *statements: str) -> Database:
    connection = sqlite3.connect(path)
    connection.executescript(";".join(statements))
    connection.close()
    database = Database(DatabaseOptions(url="sqlite:///FILE", backoff=0, retries=1))
    database.url = database.url.set(database=str(path))
    return database


def ask(database: Database, table: str, *keys: str) -> list[Answer]:
    objects = [Object(None, table, key) for key in keys]
    answers = answers_of(DatabaseLookup(database), objects)
    return [answers[object_] for object_ in objects]


def firsts(answers: list[Answer]) -> Iterator[str | None]:
    for answer in answers:
        assert not isinstance(answer, RefusedLookup), answer
        value = None if answer is None else answer.values[-1]
        assert not isinstance(value, tuple)
        yield value


def test_statements_of_one_lookup_share_a_connection_and_continue_on_another(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ", ".join(f"({n}, 'n{n}')" for n in range(5))
    database = make_database(
        path, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", f"INSERT INTO t VALUES {rows}"
    )
    monkeypatch.setattr(lookup_module, "_KEYS", 2)
    asked: list[list[int]] = []
    read = InListQuery.rows

    def lose_second(query: InListQuery, connection: Connection, keys: Keys) -> Answers:
        asked.append([*keys[0]])
        if len(asked) == 2:
            raise LostError("gone")
        return read(query, connection, keys)

    lookup = DatabaseLookup(database)
    objects = [Object(None, "t", f"id={n}") for n in range(5)]
    answers_of(lookup, objects[:1])  # reads what the table is like
    connected: list[object] = []
    event.listen(database.engine, "checkout", lambda *_: connected.append(None))
    monkeypatch.setattr(InListQuery, "rows", lose_second)
    answers = answers_of(lookup, objects)
    assert [*firsts([answers[obj] for obj in objects])] == [f"n{n}" for n in range(5)]
    assert asked == [[0, 1], [2, 3], [2, 3], [4]]
    assert len(connected) == 2


def test_passwords_are_shown_nowhere() -> None:
    options = DatabaseOptions(url="postgresql://me:s3cret@h.example:5433/idm")
    database = Database(options)
    shown = f"{options} {options!r} {database} {database!r} {database.name}"
    assert "s3cret" not in shown
    assert database.name == "postgresql database idm on h.example:5433"


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://h/d", "postgresql+psycopg"),
        ("postgres://h/d", "postgresql+psycopg"),
        ("postgresql+psycopg://h/d", "postgresql+psycopg"),
        ("mysql://h/d", "mysql+pymysql"),
        ("mariadb://h/d", "mariadb+pymysql"),
        ("sqlite:///d.db", "sqlite"),
    ],
)
def test_url_without_a_driver_gets_one(url: str, driver: str) -> None:
    assert Database(DatabaseOptions(url=url)).url.drivername == driver


def test_url_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDM_DATABASE", "postgresql://me:s3cret@h/d")
    database = Database(DatabaseOptions(url_env="IDM_DATABASE"))
    assert database.url.password == "s3cret"
    monkeypatch.delenv("IDM_DATABASE")
    assert pickle.loads(pickle.dumps(database)).url.password == "s3cret"
    with pytest.raises(SettingsError, match="IDM_DATABASE is not set"):
        Database(DatabaseOptions(url_env="IDM_DATABASE"))


@pytest.mark.parametrize(
    "url", [None, "s3cret", "sqlite://", "sqlite:///:memory:", "s3cret://h:x/d"]
)
def test_unusable_urls_are_settings_errors_that_do_not_show_them(url: str | None) -> None:
    with pytest.raises(SettingsError) as caught:
        Database(DatabaseOptions(url=url))
    assert "s3cret" not in str(caught.value)


def test_url_of_an_unknown_database_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match="nosuch is not a known kind of database"):
        Database(DatabaseOptions(url="nosuch://h/d")).check_reachable()


def test_url_with_another_driver_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match=r"names another driver: write postgresql, without"):
        Database(DatabaseOptions(url="postgresql+psycopg2://h/d"))


def test_a_missing_file_is_named_at_once_and_not_made(path: Path) -> None:
    database = make_database(path)
    path.unlink()
    with pytest.raises(FatalError, match=r"SQLite file .* does not exist: check the path"):
        database.check_reachable()
    assert not path.exists()


def test_files_are_only_read(path: Path) -> None:
    database = make_database(path, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    with pytest.raises(Exception, match="readonly"):
        database.run(lambda connection: connection.exec_driver_sql("INSERT INTO t VALUES (1)"))


def test_file_that_is_no_database_is_an_error_of_the_run(path: Path) -> None:
    path.write_bytes(b"something else, longer than a header" * 100)
    database = Database(DatabaseOptions(url=f"sqlite:///{path.with_name('x')}"))
    database.url = database.url.set(database=str(path))
    with pytest.raises(FatalError, match="file is not a database"):
        catalogue_of(database).table(None, "t")
    with pytest.raises(FatalError, match="file is not a database"):
        database.check_reachable()


def test_parts_fit_the_protocols(path: Path) -> None:
    database = make_database(path, "CREATE TABLE t (k INTEGER PRIMARY KEY)")
    catalogue: Catalogue = catalogue_of(database)
    lookup: Lookup = DatabaseLookup(database)
    assert catalogue.closed
    assert catalogue.table(None, "none") is None
    assert answers_of(lookup, []) == {}


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        (types.SMALLINT(), ColumnKind.INT),
        (types.NUMERIC(10, 0), ColumnKind.INT),
        (types.NUMERIC(10, 2), ColumnKind.DECIMAL),
        (types.NUMERIC(), ColumnKind.DECIMAL),
        (types.REAL(), ColumnKind.DECIMAL),
        (types.DOUBLE_PRECISION(), ColumnKind.DECIMAL),
        (mysql.DOUBLE(), ColumnKind.DECIMAL),
        (mysql.TINYINT(display_width=1), ColumnKind.INT),
        (mysql.TINYINT(display_width=4), ColumnKind.INT),
        (mysql.BIT(1), ColumnKind.STATE),
        (mysql.BIT(8), ColumnKind.INT),
        (mysql.YEAR(), ColumnKind.INT),
        (mysql.TINYBLOB(), ColumnKind.OCTET),
        (mysql.LONGBLOB(), ColumnKind.OCTET),
        (mysql.ENUM("a"), ColumnKind.STRING),
        (mysql.DATETIME(fsp=6), ColumnKind.TIMESTAMP),
        (postgresql.BIT(1), ColumnKind.STRING),
        (postgresql.BYTEA(), ColumnKind.OCTET),
        (postgresql.UUID(), ColumnKind.STRING),
        (postgresql.INTERVAL(), ColumnKind.STRING),
        (postgresql.TIMESTAMP(timezone=True), ColumnKind.TIMESTAMP),
        (postgresql.ARRAY(types.INTEGER()), ColumnKind.STRING),
        (types.NullType(), ColumnKind.STRING),
    ],
)
def test_kind_follows_the_sql_type(type_: types.TypeEngine[object], kind: ColumnKind) -> None:
    assert kind_of(type_) is kind


def test_schema_of_sqlite_is_a_name_for_associations_only(path: Path) -> None:
    catalogue = catalogue_of(make_database(path, "CREATE TABLE usr (idu INTEGER PRIMARY KEY)"))
    with_schema, without = catalogue.table("indirect", "usr"), catalogue.table(None, "usr")
    assert with_schema is not None
    assert without is not None
    assert (with_schema.schema, without.schema) == ("indirect", None)


def test_schema_of_sqlite_is_spelled_as_in_the_settings(path: Path) -> None:
    url = str(make_database(path, "CREATE TABLE usr (idu INTEGER PRIMARY KEY)").url)
    catalogue = catalogue_of(Database(DatabaseOptions(url=url, schema="indirect")))
    for written, spelled in (("INDIRECT", "indirect"), ("Direct", "Direct"), (None, "indirect")):
        table = catalogue.table(written, "USR")
        assert table is not None
        assert (table.schema, table.name) == (spelled, "usr")


def test_columns_that_collate_without_case_decide_themselves(path: Path) -> None:
    database = make_database(
        path,
        "CREATE TABLE t (k TEXT COLLATE NOCASE PRIMARY KEY, v INTEGER)",
        "INSERT INTO t VALUES ('abc', 1), ('def', 2)",
    )
    answers = ask(database, "t", "k=ABC", "k=abc", "k=gone", "k=def", "k=DEF")
    assert list(firsts(answers[1:4])) == ["1", None, "2"]
    for other in (answers[0], answers[4], *ask(database, "t", "k=ABC")):
        assert isinstance(other, RefusedLookup)
        assert other.reason is Reason.TABLE_KEY


def test_columns_of_no_type_are_compared_as_text(path: Path) -> None:
    database = make_database(
        path, "CREATE TABLE t (k PRIMARY KEY, v)", "INSERT INTO t VALUES (1, 'one'), ('2', 'two')"
    )
    assert list(firsts(ask(database, "t", "k=1", "k=2", "k=3"))) == ["one", "two", None]


def test_key_texts_and_stored_values_of_sqlite(path: Path) -> None:
    database = make_database(
        path,
        "CREATE TABLE d (k DECIMAL(8,2) PRIMARY KEY, v TEXT)",
        "CREATE TABLE t (k TIMESTAMP PRIMARY KEY, v TEXT)",
        "CREATE TABLE b (k BLOB, w BOOLEAN, v TEXT, PRIMARY KEY (k, w))",
        "CREATE TABLE c (k CHAR(5) PRIMARY KEY, v TEXT)",
        "INSERT INTO d VALUES (1.5, 'a'), ('0.1', 'b'), (7, 'c')",
        "INSERT INTO t VALUES ('2020-01-01 00:00:00', 'a')",
        "INSERT INTO b VALUES (x'BBBB', 1, 'a')",
        "INSERT INTO c VALUES ('ab', 'a')",
    )
    assert list(firsts(ask(database, "d", "k=1.50", "k=0.10", "k=7.0", "k=8"))) == [*"abc", None]
    assert list(firsts(ask(database, "t", "k=2020-01-01 00:00:00"))) == ["a"]
    assert list(firsts(ask(database, "b", 'k="u7s="+w=1', 'k="u7s="+w=0'))) == ["a", None]
    assert list(firsts(ask(database, "c", "k=ab"))) == ["a"]


@pytest.mark.parametrize("key", [f"k={2**63}", "k=1.5", "k=x", "k=-1" + "0" * 5000])
def test_what_is_no_integer_of_the_column_is_refused(path: Path, key: str) -> None:
    database = make_database(
        path, "CREATE TABLE t (k INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)"
    )
    bad, good = ask(database, "t", key, "k=1")
    assert isinstance(bad, RefusedLookup)
    assert bad.reason is Reason.DATABASE_REFUSED
    assert isinstance(good, CurrentRow)


def test_broken_text_is_a_character_that_no_document_may_have(path: Path) -> None:
    database = make_database(
        path,
        "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)",
        "INSERT INTO t VALUES (1, 'a'), (2, CAST(x'FF' AS TEXT)), (3, 'c')",
    )
    rows = ask(database, "t", "k=1", "k=2", "k=3")
    assert [row.values[1] for row in rows if isinstance(row, CurrentRow)] == ["a", "\uffff", "c"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ColumnKind.INT, "1.5"),
        (ColumnKind.DECIMAL, "1,5"),
        (ColumnKind.STATE, "maybe"),
        (ColumnKind.OCTET, "a"),
        (ColumnKind.OCTET, "é"),
        (ColumnKind.DATE, "now"),
        (ColumnKind.DATE, "2020-13-01"),
        (ColumnKind.TIME, "25:00:00"),
        (ColumnKind.TIMESTAMP, "yesterday"),
    ],
)
def test_texts_that_are_no_values_of_the_type_say_so(kind: ColumnKind, text: str) -> None:
    with pytest.raises(KeyValueError, match=f"{text!r} is n"):
        key_column(kind, padded=False, sqlite=False).read(text)


def test_without_a_database_every_row_is_refused() -> None:
    object_ = Object(None, "usr", "idu=1")
    answer = answers_of(NoDatabase(), [object_])[object_]
    assert isinstance(answer, RefusedLookup)
    assert answer.reason is Reason.NO_DATABASE


@pytest.mark.parametrize(
    ("columns", "tables", "attributes"),
    [
        (None, {"usr", "phone", "fax"}, {"phone.no", "fax.no"}),
        ({"name"}, {"usr"}, set()),
        ({"PHONE.no", "name"}, {"usr", "phone"}, {"phone.no"}),
        ({"phone.no", "fax.no"}, {"usr", "phone", "fax"}, {"phone.no", "fax.no"}),
    ],
)
def test_only_the_child_tables_of_the_named_columns_are_read(
    columns: set[str] | None, tables: set[str], attributes: set[str], path: Path
) -> None:
    database = make_database(
        path,
        "create table usr (id integer primary key, name text)",
        "create table phone (id integer references usr, no text)",
        "create table fax (id integer references usr, no text)",
        "insert into usr values (1, 'Ann'); insert into phone values (1, '5')",
    )
    catalogue = catalogue_of(database)
    classes = ClassCatalogue(catalogue, [], ClassOptions(), catalogue.keys_of)
    lookup, usr = DatabaseLookup(database, classes), Object(None, "usr", "id=1")
    answers_of(lookup, [usr])  # reads the catalogue
    executed: list[str] = []
    event.listen(
        database.engine, "after_cursor_execute", lambda *call: executed.append(str(call[2]))
    )
    answer = answers_of(lookup, [usr], {} if columns is None else {usr: columns})[usr]
    assert isinstance(answer, CurrentRow)
    assert {name for name in answer.columns if "." in name} == attributes
    read = {name for name in ("usr", "phone", "fax") for text in executed if f'"{name}"' in text}
    assert read == tables
