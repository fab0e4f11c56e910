"""Views as classes in each database: described by their columns, read whole, compared whole."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.lookup import DatabaseLookup
from publisher.ledger.conservation import RunReport
from publisher.model.catalogue import Reference, Table
from publisher.model.change import Object, Reason
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions
from publisher.planning.query_back import Answer, CurrentRow, RefusedLookup
from publisher.runs.publish import publish as publish_job
from tests.golden.stories import operations
from tests.golden.test_classes import EXPECTED, replay_events
from tests.golden.test_classes import operations_of as operations_in_parts
from tests.services.databases import Place
from tests.support.compared_jobs import key_of, operations_of
from tests.support.planning import answers_of

pytestmark = pytest.mark.usefixtures("reuse_connections", "local_engine")

TABLES = (
    "CREATE TABLE person (id INTEGER NOT NULL, fname VARCHAR(64), boss INTEGER)",
    "CREATE TABLE phone (id INTEGER NOT NULL, phoneno VARCHAR(64))",
    "CREATE TABLE member (id INTEGER NOT NULL, grp INTEGER NOT NULL)",
    "CREATE TABLE grp (idg INTEGER PRIMARY KEY)",
    "INSERT INTO person VALUES (1, 'John', 2), (2, 'Ann', NULL)",
    "INSERT INTO phone VALUES (1, '222'), (1, '111'), (1, NULL), (1, 'é'), (1, 'Z')",
    "INSERT INTO member VALUES (1, 9), (1, 7)",
    "INSERT INTO grp VALUES (7), (9)",
)
VIEW = """CREATE VIEW view_usr (pk_idu, sv_fname, mv_phoneno, fk__idu__manager, fk_mv__idg__mbr_of) AS
    SELECT person.id, fname, phoneno, boss, grp FROM person
    LEFT JOIN phone ON phone.id = person.id LEFT JOIN member ON member.id = person.id"""


def classes(database: Database, *declared: Table, **options: object) -> ClassCatalogue:
    tables = catalogue_of(database)
    chosen = ClassOptions(**options)  # type: ignore[arg-type]
    return ClassCatalogue(tables, declared, chosen, tables.keys_of, tables.key_columns_of)


def answers(place: Place, view: str, keys: Sequence[str]) -> list[Answer]:
    """The objects of these keys, looked up together."""
    objects = [Object(None, view, key) for key in keys]
    with place.database() as database:
        found = answers_of(DatabaseLookup(database, classes(database)), objects)
    return [found[obj] for obj in objects]


def read(place: Place, view: str, *keys: str) -> list[dict[str, object] | None]:
    """The attributes of these objects."""
    rows: list[dict[str, object] | None] = []
    for answer in answers(place, view, keys):
        assert answer is None or isinstance(answer, CurrentRow), answer
        rows.append(
            None if answer is None else dict(zip(answer.columns, answer.values, strict=True))
        )
    return rows


def test_columns_of_a_view_make_a_class(place: Place) -> None:
    place.execute(*TABLES, VIEW)
    view = classes(place.database()).table(None, "view_usr")
    assert view is not None
    assert view.key == ("pk_idu",)
    assert list(view.columns) == ["pk_idu", "fname", "phoneno", "fk_manager", "fk_mbr_of"]
    assert [view.is_multiple(column) for column in view.columns] == [
        False,
        False,
        True,
        False,
        True,
    ]
    assert view.references == {
        "fk_manager": Reference("view_usr", view.schema, "pk_idu"),
        "fk_mbr_of": Reference("grp", view.schema, "idg"),
    }


def test_the_rows_of_a_key_are_one_object(place: Place) -> None:
    place.execute(*TABLES, VIEW)
    john, gone, ann = read(place, "view_usr", "pk_idu=1", "pk_idu=3", "idu=2")
    assert john == {
        "pk_idu": "1",
        "fname": "John",
        "phoneno": ("111", "222", "Z", "é"),
        "fk_manager": "2",
        "fk_mbr_of": ("7", "9"),
    }
    assert gone is None
    assert ann is not None
    assert [*ann.values()] == ["2", "Ann", (), None, ()]


def test_objects_are_read_alike_in_batches_of_any_size(place: Place) -> None:
    source = random.Random(15)
    rows = [(source.randrange(200), source.choice("abcd")) for _ in range(600)]
    place.execute(
        "CREATE TABLE t (id INTEGER, tag CHAR(3))",
        f"INSERT INTO t VALUES {', '.join(f'({key}, {tag!r})' for key, tag in rows)}",
        "CREATE VIEW view_t (pk_id, mv_tag, name) AS SELECT id, tag, id FROM t",
    )
    keys = [f"id={number}" for number in range(210)]
    expected = [
        tuple(sorted({tag for key, tag in rows if key == number})) or None for number in range(210)
    ]
    for size in (1, 7, 210):
        parts = [keys[start : start + size] for start in range(0, 210, size)]
        found = [row for part in parts for row in read(place, "view_t", *part)]
        tags = [row and tuple(str(tag).strip() for tag in row["tag"]) for row in found]  # type: ignore[attr-defined]
        assert tags == expected


def test_two_values_of_a_single_valued_column_are_refused_for_this_object_alone(
    place: Place,
) -> None:
    place.execute(*TABLES, VIEW, "INSERT INTO person VALUES (1, 'Jack', 2), (2, NULL, NULL)")
    john, ann = answers(place, "view_usr", ["pk_idu=1", "pk_idu=2"])
    assert isinstance(john, RefusedLookup)
    assert "2 values of fname, which is single-valued: name the column mv_fname" in john.detail
    assert isinstance(ann, CurrentRow)
    assert ann.values[1] == "Ann"


def test_keys_in_another_case_are_refused(place: Place) -> None:
    collation = " COLLATE NOCASE" if place.kind == "sqlite" else ""
    place.execute(
        f"CREATE TABLE t (name VARCHAR(20){collation}, alias VARCHAR(20))",
        "INSERT INTO t VALUES ('Sales', 'one'), ('Sales', 'two'), ('Staff', 'three'), ('a=b', 'x')",
        "CREATE VIEW view_t (pk_name, mv_alias) AS SELECT name, alias FROM t",
    )
    found = [row and row["alias"] for row in read(place, "view_t", "name=Sales", 'name="a=b"')]
    assert found == [("one", "two"), ("x",)]
    others = [*answers(place, "view_t", ("name=SALES", "name=sALES"))]
    refused = None if place.kind == "postgresql" else Reason.TABLE_KEY
    assert [getattr(answer, "reason", None) for answer in others] == [refused, refused]


def test_columns_and_keys_may_have_any_names(place: Place) -> None:
    mark = "`" if place.kind == "mariadb" else '"'

    def quote(name: str) -> str:
        return mark + name.replace(mark, mark * 2) + mark

    columns = ("PK_sv_1__i.d__i.d", "Mv_a'b\"c.d", "FK__i.d__to.x")
    place.execute(
        f"CREATE VIEW {quote('my.view')} ({', '.join(map(quote, columns))})"
        " AS SELECT 1, 'x%s', 2 UNION SELECT 1, 'y', 2"
    )
    assert read(place, "my.view", "PK_i.d=1") == [
        {"PK_i.d": "1", "a'b\"c.d": ("x%s", "y"), "FK_to.x": "2"}
    ]


def test_a_view_that_fails_disturbs_no_other(place: Place) -> None:
    place.execute(*TABLES, VIEW, "CREATE TABLE lost (pk_x INTEGER)")
    place.execute("CREATE VIEW broken (pk_lost) AS SELECT pk_x FROM lost")
    if place.kind != "postgresql":  # which drops no table of a view
        place.execute("DROP TABLE lost")
    (john,) = read(place, "view_usr", "idu=1")
    assert john is not None


def test_without_meta_identifiers_a_view_is_a_table(place: Place) -> None:
    place.execute(*TABLES, VIEW)
    view = classes(place.database(), enable_meta_identifiers=False).table(None, "view_usr")
    assert view is not None
    assert view.key == ()
    assert "mv_phoneno" in view.columns
    assert not view.references


def test_views_and_the_tables_below_may_have_the_same_keys_in_two_schemas(
    postgres: Place, tmp_path: Path
) -> None:
    postgres.execute(
        "DROP SCHEMA IF EXISTS direct CASCADE",
        "CREATE SCHEMA direct",
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, manager INTEGER REFERENCES usr)",
        "CREATE TABLE usr_phone (idu INTEGER REFERENCES usr, phoneno TEXT)",
        "INSERT INTO usr VALUES (2, 'Ann', NULL), (1, 'John', 2)",
        "INSERT INTO usr_phone VALUES (1, '222-2222'), (1, '111-1111')",
        "CREATE VIEW direct.view_usr (pk_idu, sv_fname, mv_phoneno, fk__idu__manager) AS"
        " SELECT idu, fname, phoneno, manager FROM usr LEFT JOIN usr_phone USING (idu)",
    )
    job = f'[source]\nschema = "direct"\n[database]\nurl = "{postgres.url}"\nschema = "direct"\n'
    documents = replay_events(tmp_path, ["6|view_usr|idu=1"], job=job)
    postgres.execute("DROP SCHEMA direct CASCADE")
    expected = (EXPECTED / "E6.xml").read_text("utf-8").splitlines()
    assert operations_in_parts(documents) == operations(expected)


JOB = """
[[sources]]
name = "hr"
format = "triggerless"
tables = ["view_usr"]
state = "values"
buckets = 2
[database]
url = "{url}"
[classes]
sync_filter = "schema"
[run]
lanes = 2
[dispatch]
path = "out"
"""


def publish(base: Path, place: Place) -> RunReport:
    (base / "job.toml").write_text(JOB.format(url=place.url))
    return publish_job(load(base / "job.toml"))


def test_the_objects_of_a_view_are_compared_as_sets_of_values(place: Place, tmp_path: Path) -> None:
    place.execute(*TABLES, VIEW)
    first = publish(tmp_path, place)
    assert first.operations == {"add": 2}
    (john,) = [op for op in operations_of(first, tmp_path) if key_of(op) == "1"]
    values = {
        str(attribute.attrib["attr-name"]): [value.text for value in attribute.iter("value")]
        for attribute in john.iter("add-attr")
    }
    assert list(values) == ["fname", "phoneno", "fk_manager", "fk_mbr_of"]
    assert values["phoneno"] == ["111", "222", "Z", "é"]
    assert publish(tmp_path, place).documents == 0
    place.execute("DELETE FROM phone WHERE phoneno = '222'", "INSERT INTO member VALUES (2, 9)")
    second = publish(tmp_path, place)
    assert second.operations == {"modify": 2}
    changed = {
        key_of(op): [
            (str(part.tag), value.text)
            for part in op.iter("remove-value", "add-value")
            for value in part
        ]
        for op in operations_of(second, tmp_path)
    }
    group = "idg=9,table=grp" + (",schema=public" if place.kind == "postgresql" else "")
    assert changed == {"1": [("remove-value", "222")], "2": [("add-value", group)]}
    place.execute("INSERT INTO person VALUES (2, 'Eve', NULL)")
    third = publish(tmp_path, place)
    assert third.rejected == 2  # rows of one object with two values of fname
    assert third.documents == 0
