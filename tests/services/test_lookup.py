"""Rows by keys: the same answers from each database."""

from __future__ import annotations

import pickle
from functools import partial
from typing import cast

import pytest
import sqlalchemy as sa

from publisher.database import lookup as lookup_module
from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.join_query import JoinQuery
from publisher.database.lookup import DatabaseLookup
from publisher.formats.columns.object_names import Names, RecordFault
from publisher.model.catalogue import ColumnKind
from publisher.model.change import Object, Reason
from publisher.model.keys import IdentifierCase, quote
from publisher.planning.query_back import Answer, CurrentRow, RefusedLookup
from publisher.xds.values import text_of
from tests.services.databases import BINARY, Place, statements
from tests.support.planning import answers_of

pytestmark = pytest.mark.usefixtures("reuse_connections")


def usr(place: Place) -> None:
    place.execute(
        f"CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(64), photo {BINARY[place.kind]},"
        " pay NUMERIC(8,2), born DATE, seen TIMESTAMP NULL, active BOOLEAN)",
        "INSERT INTO usr (idu, fname) VALUES (1, 'Jack'), (2, ''), (3, 'Zoë 😀')",
        "UPDATE usr SET pay = 1234.50, born = '1999-12-31', seen = '2001-02-03 04:05:06',"
        " active = TRUE WHERE idu = 1",
        "CREATE VIEW view_usr AS SELECT idu AS pk_idu, fname FROM usr",
    )
    literal = "'\\xBBBB'" if place.kind == "postgresql" else "x'BBBB'"
    place.execute(f"UPDATE usr SET photo = {literal} WHERE idu = 1")


def ask(database: Database, table: str, *keys: str) -> list[Answer]:
    objects = [Object(None, table, key) for key in keys]
    answers = answers_of(DatabaseLookup(database), objects)
    assert set(answers) == set(objects)
    return [answers[object_] for object_ in objects]


def values(answer: Answer) -> tuple[str | None, ...]:
    assert isinstance(answer, CurrentRow), answer
    return cast("tuple[str | None, ...]", answer.values)


def test_rows_come_in_the_text_form_of_the_log(place: Place) -> None:
    usr(place)
    full, empty, text, gone = ask(place.database(), "usr", "idu=1", "idu=2", "idu=3", "idu=4")
    assert isinstance(full, CurrentRow)
    assert full.columns == ("idu", "fname", "photo", "pay", "born", "seen", "active")
    pay = "1234.5" if place.kind == "sqlite" else "1234.50"
    active = "true" if place.kind == "postgresql" else "1"
    assert full.values == (
        "1", "Jack", "u7s=", pay, "1999-12-31", "2001-02-03 04:05:06", active,
    )  # fmt: skip
    assert values(empty) == ("2", "", None, None, None, None, None)
    assert values(text)[1] == "Zoë 😀"
    assert gone is None


def test_keys_are_compared_by_the_type_of_the_column(place: Place) -> None:
    usr(place)
    answers = ask(place.database(), "usr", "idu= 1", "idu=01", "idu=1", 'idu="+1"', "idu=1.0")
    assert [values(answer)[0] for answer in answers] == ["1"] * 5


def test_key_that_is_no_value_of_the_type_is_refused_alone(place: Place) -> None:
    usr(place)
    bad, good = ask(place.database(), "usr", "idu=abc", "idu=2")
    assert isinstance(bad, RefusedLookup)
    assert bad.reason is Reason.DATABASE_REFUSED
    assert "'abc' is not an integer" in bad.detail
    assert values(good)[0] == "2"


def test_key_beyond_the_type_is_refused_alone_or_found_absent(place: Place) -> None:
    usr(place)
    huge, good = ask(place.database(), "usr", f"idu={10**30}", "idu=2")
    # MariaDB compares any numbers, the others have no such integer
    assert huge is None if place.kind == "mariadb" else isinstance(huge, RefusedLookup)
    assert values(good)[0] == "2"


def test_views_are_read_by_the_columns_that_the_key_names(place: Place) -> None:
    usr(place)
    database = place.database()
    view = catalogue_of(database).table(None, "view_usr")
    assert view is not None
    assert view.key == ()
    assert list(view.columns) == ["pk_idu", "fname"]
    (answer,) = ask(database, "view_usr", "pk_idu=1")
    assert values(answer) == ("1", "Jack")


def test_several_rows_of_a_key_are_refused(place: Place) -> None:
    usr(place)
    place.execute("CREATE VIEW view_twice AS SELECT 7 AS a, idu FROM usr")
    several, one = ask(place.database(), "view_twice", "a=7", "a=7+idu=1")
    assert isinstance(several, RefusedLookup)
    assert "several rows" in several.detail
    assert values(one) == ("7", "1")


def test_catalogue_tells_kinds_and_key(place: Place) -> None:
    usr(place)
    table = catalogue_of(place.database()).table(None, "usr")
    assert table is not None
    assert table.key == ("idu",)
    assert table.complete
    assert table.schema == ("public" if place.kind == "postgresql" else None)
    state = "int" if place.kind == "mariadb" else "state"
    names = ("int", "string", "octet", "decimal", "date", "timestamp", state)
    assert list(table.columns.values()) == [ColumnKind(name) for name in names]


def test_unknown_tables_and_columns_are_refused(place: Place) -> None:
    usr(place)
    database = place.database()
    assert catalogue_of(database).table(None, "nothing") is None
    (no_table,) = ask(database, "nothing", "idu=1")
    no_column, no_key = ask(database, "usr", "idx=1", "idu")
    assert isinstance(no_table, RefusedLookup)
    assert isinstance(no_column, RefusedLookup)
    assert isinstance(no_key, RefusedLookup)
    assert "no table or view 'nothing'" in no_table.detail
    assert "no column 'idx'" in no_column.detail


def test_names_are_found_in_any_case_where_the_database_folds_them(place: Place) -> None:
    usr(place)
    table = catalogue_of(place.database()).table(None, "USR")
    if place.kind == "mariadb":
        assert table is None
    else:
        assert table is not None
        assert table.name == "usr"
        assert values(ask(place.database(), "Usr", "IDU=1")[0])[1] == "Jack"


def test_compound_keys_in_any_order(place: Place) -> None:
    place.execute(
        "CREATE TABLE part (a INTEGER, b VARCHAR(20), v VARCHAR(20), PRIMARY KEY (a, b))",
        "INSERT INTO part VALUES (1, 'x', 'one'), (1, 'y', 'two'), (2, 'x', 'three')",
    )
    database = place.database()
    table = catalogue_of(database).table(None, "part")
    assert table is not None
    assert table.key == ("a", "b")
    answers = ask(database, "part", "a=1+b=y", "b=x+a=02", "a=2+b=y", "a=1+b=x")
    assert [answer and values(answer)[2] for answer in answers] == ["two", "three", None, "one"]


HOSTILE = """, ; ' + " = \\ < > %s %(a)s :b ? é 😀"""


def test_any_text_may_be_a_key(place: Place) -> None:
    place.execute(
        "CREATE TABLE t (name VARCHAR(80) PRIMARY KEY, v INTEGER)", "INSERT INTO t VALUES ('', 0)"
    )
    engine = sa.create_engine(place.url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        names = sa.table("t", sa.column("name"), sa.column("v"))
        connection.execute(names.insert(), [{"name": HOSTILE, "v": 1}, {"name": "a b", "v": 2}])
    texts = [HOSTILE, "", "a b", HOSTILE + "x"]
    answers = ask(place.database(), "t", *[f"name={quote(text)}" for text in texts])
    assert [answer and values(answer)[1] for answer in answers] == ["1", "0", "2", None]


def test_any_name_may_be_that_of_a_table_or_column(place: Place) -> None:
    mark = "`" if place.kind == "mariadb" else '"'
    name = "we%ird \"n`a'me; :x %(k0)s ?"
    quoted = mark + name.replace(mark, mark * 2) + mark
    place.execute(
        f"CREATE TABLE {quoted} ({quoted} INTEGER PRIMARY KEY, v INTEGER)",
        f"INSERT INTO {quoted} VALUES (1, 2)",
    )
    (answer,) = ask(place.database(), name, f"{quote(name)}=1")
    assert isinstance(answer, CurrentRow)
    assert answer.columns == (name, "v")
    assert answer.values == ("1", "2")


def test_one_statement_for_each_table_and_lot(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    usr(place)
    rows = ", ".join(f"({n}, 'n{n}')" for n in range(10, 35))
    place.execute(f"INSERT INTO usr (idu, fname) VALUES {rows}")
    monkeypatch.setattr(lookup_module, "_KEYS", 10)
    database = place.database()
    lookup = DatabaseLookup(database)
    first = [Object(None, "usr", "idu=1"), Object(None, "view_usr", "pk_idu=1")]
    answers_of(lookup, first)  # reads what the tables are like
    with statements(database) as asked:
        answers_of(lookup, first)
        assert len(asked) == 2
        del asked[:]
        answers_of(lookup, [Object(None, "usr", f"idu={n}") for n in range(10, 35)])
    assert len(asked) == 3


def test_tables_are_described_once(place: Place) -> None:
    usr(place)
    database = place.database()
    catalogue = catalogue_of(database)
    first = catalogue.table(None, "usr")
    place.execute("DROP VIEW view_usr", "DROP TABLE usr")
    assert catalogue.table(None, "usr") is first


def test_database_can_be_sent_to_a_task(place: Place) -> None:
    usr(place)
    database = place.database()
    database.check_reachable()
    sent = pickle.loads(pickle.dumps(database))
    assert values(ask(sent, "usr", "idu=1")[0])[1] == "Jack"


def test_data_error_refuses_the_rows_concerned_only(postgres: Place) -> None:
    postgres.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, d INTEGER)",
        "INSERT INTO t SELECT i, CASE WHEN i IN (13, 77) THEN 0 ELSE i END"
        " FROM generate_series(1, 100) i",
        "CREATE VIEW view_t AS SELECT id AS pk_id, 100 / d AS v FROM t",
    )
    answers = ask(postgres.database(), "view_t", *[f"pk_id={n}" for n in range(1, 101)])
    refused = {
        n: answer for n, answer in enumerate(answers, 1) if isinstance(answer, RefusedLookup)
    }
    assert list(refused) == [13, 77]
    assert "division by zero" in refused[13].detail
    assert values(answers[11]) == ("12", "8")


@pytest.mark.parametrize(
    ("sql_type", "stored", "key"),
    [
        ("SMALLINT", "7", "7"),
        ("BIGINT", "9007199254740993", "9007199254740993"),
        ("NUMERIC(10,2)", "1.50", "1.5"),
        ("NUMERIC", "'NaN'", "NaN"),
        ("DOUBLE PRECISION", "0.1", "0.1"),
        ("UUID", "'6ECD8C99-4036-403D-BF84-CF8400F67836'", "6ecd8c99-4036-403d-bf84-cf8400f67836"),
        ("DATE", "'2020-02-29'", "2020-02-29"),
        ("TIMESTAMP", "'2020-02-29 01:02:03.5'", "2020-02-29 01:02:03.500"),
        ("TIMESTAMPTZ", "'2020-02-29 01:02:03+02'", '"2020-02-28 23:02:03+00"'),
        ("TIMESTAMP", "'infinity'", "infinity"),
        ("TIME", "'01:02:03'", "01:02:03"),
        ("BYTEA", "'\\xBBBB'", '"u7s="'),
        ("BOOLEAN", "TRUE", "true"),
        ("CHAR(5)", "'ab'", "ab"),
        ("VARCHAR(5)", "'ab'", "ab"),
        ("INET", "'10.0.0.1'", "10.0.0.1"),
    ],
)
def test_keys_of_any_type_in_postgresql(
    postgres: Place, sql_type: str, stored: str, key: str
) -> None:
    postgres.execute(
        f"CREATE TABLE t (k {sql_type} PRIMARY KEY, v INTEGER)",
        f"INSERT INTO t VALUES ({stored}, 1)",
    )
    (answer,) = ask(postgres.database(), "t", f"k={key}")
    assert values(answer)[1] == "1"


@pytest.mark.parametrize(
    ("sql_type", "stored", "key"),
    [("NUMERIC(5,0)", "1", "1.4"), ("VARCHAR(3)", "'abc'", "abcd"), ("CHAR(3)", "'abc'", "abcd")],
)
def test_keys_are_neither_rounded_nor_cut_to_the_column(
    postgres: Place, sql_type: str, stored: str, key: str
) -> None:
    postgres.execute(
        f"CREATE TABLE t (k {sql_type} PRIMARY KEY)", f"INSERT INTO t VALUES ({stored})"
    )
    (answer,) = ask(postgres.database(), "t", f"k={key}")
    assert not isinstance(answer, CurrentRow)


def test_words_for_the_current_time_are_no_keys(postgres: Place) -> None:
    postgres.execute("CREATE TABLE t (k DATE PRIMARY KEY)", "INSERT INTO t VALUES (CURRENT_DATE)")
    (answer,) = ask(postgres.database(), "t", "k=today")
    assert isinstance(answer, RefusedLookup)


def test_domains_and_padding_of_postgresql(postgres: Place) -> None:
    postgres.execute(
        "DROP DOMAIN IF EXISTS short",
        "CREATE DOMAIN short AS CHAR(4)",
        "CREATE TABLE t (k short PRIMARY KEY, c CHAR(3), n INTEGER[])",
        "INSERT INTO t VALUES ('ab', 'x', '{1,2}')",
    )
    database = postgres.database()
    table = catalogue_of(database).table(None, "t")
    assert table is not None
    assert table.padded == {"k", "c"}
    assert values(ask(database, "t", "k=ab")[0]) == ("ab  ", "x  ", "{1,2}")
    postgres.execute("DROP TABLE t", "DROP DOMAIN short")


def test_schemas_of_postgresql(postgres: Place) -> None:
    postgres.execute(
        "DROP SCHEMA IF EXISTS indirect CASCADE",
        "CREATE SCHEMA indirect",
        "CREATE TABLE indirect.usr (idu INTEGER PRIMARY KEY)",
        "INSERT INTO indirect.usr VALUES (1)",
    )
    database = postgres.database(schema="indirect")
    for catalogue, schema in (
        (catalogue_of(database), None),
        (catalogue_of(postgres.database()), "INDIRECT"),
    ):
        table = catalogue.table(schema, "usr")
        assert table is not None
        assert table.schema == "indirect"
    assert catalogue_of(postgres.database()).table(None, "usr") is None
    assert values(ask(database, "usr", "idu=1")[0]) == ("1",)
    postgres.execute("DROP SCHEMA indirect CASCADE")


def test_table_without_the_right_to_select_refuses_its_own_rows(postgres: Place) -> None:
    postgres.execute(
        "DROP ROLE IF EXISTS poor",
        "CREATE ROLE poor LOGIN",
        "CREATE TABLE t (k INTEGER PRIMARY KEY)",
        "CREATE TABLE mine (k INTEGER PRIMARY KEY)",
        "INSERT INTO mine VALUES (1)",
        "GRANT SELECT ON mine TO poor",
    )
    url = sa.make_url(postgres.url).set(username="poor").render_as_string(hide_password=False)
    database = Place("postgresql", url).database()
    (refused,) = ask(database, "t", "k=1")
    assert isinstance(refused, RefusedLookup)
    assert refused.reason is Reason.DATABASE_REFUSED
    assert "permission denied for table t" in refused.detail
    assert "grant the user SELECT on it" in refused.detail
    assert values(ask(database, "mine", "k=1")[0]) == ("1",)
    postgres.execute("DROP OWNED BY poor", "DROP ROLE poor")


def test_table_that_cannot_be_described_refuses_its_own_rows(mariadb: Place) -> None:
    mariadb.execute(
        "DROP USER IF EXISTS poor@'%'",
        "CREATE USER poor@'%'",
        "CREATE TABLE u (k INTEGER PRIMARY KEY)",
        "CREATE VIEW broken AS SELECT k FROM u",
        "DROP TABLE u",
        "CREATE TABLE mine (k INTEGER PRIMARY KEY)",
        "INSERT INTO mine VALUES (1)",
        "GRANT SELECT ON mysql.global_priv TO poor@'%'",
        "GRANT INSERT ON mysql.user TO poor@'%'",
        "GRANT SELECT ON test.* TO poor@'%'",
    )
    url = sa.make_url(mariadb.url).set(username="poor").render_as_string(hide_password=False)
    database = Place("mariadb", url).database()
    names = Names(catalogue_of(database), None, IdentifierCase.AS_WRITTEN, 8)
    for table in ("mysql.user", "broken"):
        fault = names.target(table)
        assert isinstance(fault, RecordFault)
        assert fault.reason is Reason.DATABASE_REFUSED
        assert "exclude the table" in fault.detail
    (refused,) = ask(database, "broken", "k=1")
    assert isinstance(refused, RefusedLookup)
    assert values(ask(database, "mine", "k=1")[0]) == ("1",)
    mariadb.execute("DROP VIEW broken", "DROP USER poor@'%'")


@pytest.mark.parametrize("keys", [("abc", "ABC"), ("ABC", "abc"), ("ABC",), ("abc",)])
def test_collation_of_the_column_decides_whatever_the_lot(
    mariadb: Place, keys: tuple[str, ...]
) -> None:
    mariadb.execute(
        "CREATE TABLE t (k VARCHAR(20) PRIMARY KEY, v INTEGER)",
        "INSERT INTO t VALUES ('abc', 1), ('zz ', 2), ('Straße', 3)",
    )
    answers = ask(mariadb.database(), "t", *[f"k={key}" for key in keys], "k=other", "k=zz")
    for key, answer in zip(keys, answers, strict=False):
        assert isinstance(answer, CurrentRow if key == "abc" else RefusedLookup)
    assert answers[-2] is None
    assert isinstance(answers[-1], RefusedLookup)  # the key of the row ends with a blank


def test_text_keys_are_not_compared_as_numbers(mariadb: Place) -> None:
    mariadb.execute("CREATE TABLE t (k VARCHAR(20) PRIMARY KEY)", "INSERT INTO t VALUES ('1abc')")
    assert ask(mariadb.database(), "t", "k=1") == [None]


@pytest.mark.parametrize(
    ("sql_type", "stored", "key"),
    [
        ("BIGINT UNSIGNED", "18446744073709551615", "18446744073709551615"),
        ("DECIMAL(10,2)", "1.50", "1.5"),
        ("DATE", "'2020-02-29'", "2020-02-29"),
        ("DATETIME(6)", "'2020-02-29 01:02:03.5'", "2020-02-29 01:02:03.500"),
        ("TIME", "'01:02:03'", "01:02:03"),
        ("VARBINARY(10)", "x'BBBB'", '"u7s="'),
        ("BOOLEAN", "1", "1"),
        ("CHAR(5)", "'ab'", "ab"),
        ("UUID", "'6ECD8C99-4036-403D-BF84-CF8400F67836'", "6ecd8c99-4036-403d-bf84-cf8400f67836"),
        ("ENUM('a','b')", "'b'", "b"),
    ],
)
def test_keys_of_any_type_in_mariadb(mariadb: Place, sql_type: str, stored: str, key: str) -> None:
    mariadb.execute(
        f"CREATE TABLE t (k {sql_type} PRIMARY KEY, v INTEGER)",
        f"INSERT INTO t VALUES ({stored}, 1)",
    )
    (answer,) = ask(mariadb.database(), "t", f"k={key}")
    assert values(answer)[1] == "1"


def test_server_made_text_is_that_of_the_values_of_the_driver(postgres: Place) -> None:
    postgres.execute(
        "CREATE TABLE t (i BIGINT, s VARCHAR(9), c CHAR(4), n NUMERIC(9,3), b BOOLEAN, d DATE,"
        " t TIME, ts TIMESTAMP, x BYTEA, u UUID, PRIMARY KEY (i, s))",
        "INSERT INTO t VALUES (1, 'a', 'x', 1.250, TRUE, '2020-02-29', '01:02:03',"
        " '2020-02-29 01:02:03', decode(repeat('00FF', 99), 'hex'), '6ecd8c99-4036-403d-bf84-cf8400f67836'),"
        " (2, '', '', 0, FALSE, '1066-10-14', '23:59:59', '1066-10-14 00:00:00', '', NULL),"
        " (3, 'b', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    database = postgres.database()
    relation = catalogue_of(database).relation(None, "t")
    assert relation is not None
    plain = {i: tuple(map(text_of, (i, *row))) for i, *row in postgres.query("SELECT * FROM t")}
    texts = [["3", "b"], ["1", "a"], ["2", ""], ["9", "b"]]
    for columns in [("i",), ("i", "s")]:
        query = JoinQuery(relation, columns)
        keys = query.keys([*zip(*texts, strict=True)][: len(columns)])
        answer = database.run(partial(query.rows, keys=keys))
        found = {place: values(row) for place, row in answer.rows[0].answers()}
        assert found == {0: plain[3], 1: plain[1], 2: plain[2]}
        assert answer.others == {3: None}


TYPES = {
    "s": ("VARCHAR(9)", "CASE WHEN i % 3 > 0 THEN 'é😀' || i END"),
    "empty": ("TEXT", "''"),
    "none": ("TEXT", "NULL"),
    "padded": ("CHAR(6)", "'x' || i"),
    "name": ("NAME", "'n' || i"),
    "letter": ('"char"', "'q'"),
    "number": ("NUMERIC", "i * 1.250"),
    "fraction": ("DOUBLE PRECISION", "i / 7.0"),
    "flag": ("BOOLEAN", "i % 2 = 0"),
    "day": ("DATE", "DATE '2020-02-29' + i"),
    "moment": ("TIMESTAMPTZ", "TIMESTAMPTZ '2020-02-29 01:02:03.5+02'"),
    "span": ("INTERVAL", "INTERVAL '1 month 2 days'"),
    "x": ("BYTEA", "decode(repeat('00FF', 99), 'hex')"),
    "list": ("TEXT[]", "ARRAY['a,b', NULL, i::text]"),
    "tree": ("JSONB", "jsonb_build_object('i', i)"),
    "mood": ("mood", "CASE WHEN i % 2 = 0 THEN 'sad'::mood END"),
    "short": ("short", "'ab'"),
}


EXPECTED = (
    *("é😀2", "", None, "x2    ", "n2", "q", "2.500", "0.2857142857142857", "true", "2020-03-02"),
    *(
        "2020-02-28 23:02:03.5+00",
        "1 mon 2 days",
        "AP8A/wD/" * 33,
        '{"a,b",NULL,2}',
    ),
    *('{"i": 2}', "sad", "ab  "),
)
"""The values of the second row."""


def test_rows_have_the_text_that_their_types_write(postgres: Place) -> None:
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _) in TYPES.items())
    values_ = ", ".join(value for _, value in TYPES.values())
    postgres.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE DOMAIN short AS CHAR(4)",
        f"CREATE TABLE t (i BIGINT, {columns})",
        f"INSERT INTO t SELECT i, {values_} FROM generate_series(1, 300) i",
        "INSERT INTO t (i) VALUES (5)",
    )
    database = postgres.database()
    relation = catalogue_of(database).relation(None, "t")
    assert relation is not None
    query = JoinQuery(relation, ("i",))
    keys = query.keys([[str(n) for n in range(301, 0, -1)]])
    answers = database.run(partial(query.rows, keys=keys))
    for column in answers.rows[0].values:
        column.validate(full=True)
    found = {301 - place: values(row)[1:] for place, row in answers.rows[0].answers()}
    assert len(found) == 299
    assert found[2] == EXPECTED
    assert answers.others.keys() == {0, 296}
    absent = database.run(partial(query.rows, keys=query.keys([["999"] * 100])))
    assert absent == ([], dict.fromkeys(range(100)))


def test_data_error_in_columns_refuses_the_rows_concerned_only(postgres: Place) -> None:
    postgres.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, d INTEGER)",
        "INSERT INTO t SELECT i, CASE WHEN i IN (213, 277) THEN 0 ELSE i END"
        " FROM generate_series(1, 500) i",
        "CREATE VIEW view_t AS SELECT id AS pk_id, 1000 / d AS v FROM t",
    )
    lookup = DatabaseLookup(postgres.database())
    for first in (1, 201, 301):
        objects = [Object(None, "view_t", f"pk_id={n}") for n in range(first, first + 200)]
        answers = answers_of(lookup, objects)
        refused = [n for n, obj in enumerate(objects) if isinstance(answers[obj], RefusedLookup)]
        assert refused == ([12, 76] if first == 201 else [])
        assert values(answers[objects[-1]]) == (str(first + 199), str(1000 // (first + 199)))


def test_moments_of_mariadb_do_not_depend_on_the_zone_of_the_server(mariadb: Place) -> None:
    mariadb.execute(
        "CREATE TABLE t (k INTEGER PRIMARY KEY, seen TIMESTAMP)",
        "SET time_zone = '+05:00'",
        "INSERT INTO t VALUES (1, '2026-01-01 12:00:00')",
        "SET GLOBAL time_zone = '+05:00'",
    )
    try:
        (answer,) = ask(mariadb.database(), "t", "k=1")
    finally:
        mariadb.execute("SET GLOBAL time_zone = 'SYSTEM'")
    assert values(answer)[1] == "2026-01-01 07:00:00"
