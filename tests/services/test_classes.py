"""Classes found by the keys of each database, and their objects read whole."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.lookup import DatabaseLookup
from publisher.errors import TableRefusedError
from publisher.model.catalogue import (
    ChildTable,
    ColumnKind,
    JobCatalogue,
    LayeredCatalogue,
    Reference,
    Table,
)
from publisher.model.change import Object
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions
from publisher.planning.query_back import CurrentRow
from tests.services.databases import Place, statements
from tests.support.planning import answers_of

pytestmark = pytest.mark.usefixtures("reuse_connections")

GRP = "CREATE TABLE grp (idg INTEGER PRIMARY KEY)"
USR = """CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(64), manager INTEGER,
    FOREIGN KEY (manager) REFERENCES usr (idu))"""
PHONE = """CREATE TABLE usr_phone (idu INTEGER NOT NULL, phoneno VARCHAR(64),
    FOREIGN KEY (idu) REFERENCES usr (idu))"""
MEMBER = """CREATE TABLE usr_mbr_of (idu INTEGER NOT NULL, idg INTEGER NOT NULL,
    FOREIGN KEY (idg) REFERENCES grp (idg), FOREIGN KEY (idu) REFERENCES usr (idu))"""
TABLES = (
    *(GRP, USR, PHONE, MEMBER),
    "INSERT INTO grp (idg) VALUES (7), (9)",
    "INSERT INTO usr (idu, fname, manager) VALUES (2, 'Ann', NULL)",
    "INSERT INTO usr (idu, fname, manager) VALUES (1, 'John', 2)",
    "INSERT INTO usr_phone VALUES (1, '222'), (1, '111'), (1, '222'), (1, NULL), (1, 'é'), (1, 'Z')",
    "INSERT INTO usr_mbr_of VALUES (1, 9), (1, 7)",
)


def classes(database: Database, *declared: Table, **options: object) -> ClassCatalogue:
    tables = catalogue_of(database)
    layered = LayeredCatalogue(JobCatalogue(declared), tables)
    chosen = ClassOptions(**options)  # type: ignore[arg-type]
    return ClassCatalogue(layered, declared, chosen, tables.keys_of)


def read(
    database: Database, table: str, *keys: str, declared: Sequence[Table] = ()
) -> list[dict[str, object] | None]:
    """The rows of these objects with the attributes of their children."""
    objects = [Object(None, table, key) for key in keys]
    answers = answers_of(DatabaseLookup(database, classes(database, *declared)), objects)
    rows: list[dict[str, object] | None] = []
    for obj in objects:
        answer = answers[obj]
        assert answer is None or isinstance(answer, CurrentRow), answer
        rows.append(
            None if answer is None else dict(zip(answer.columns, answer.values, strict=True))
        )
    return rows


def test_keys_make_classes_with_children_and_references(place: Place) -> None:
    place.execute(*TABLES)
    usr = classes(place.database()).table(None, "usr")
    assert usr is not None
    assert list(usr.columns) == [
        *("idu", "fname", "manager"),
        *("usr_mbr_of.idg", "usr_phone.phoneno"),
    ]
    assert usr.references == {
        "manager": Reference("usr", usr.schema, "idu"),
        "usr_mbr_of.idg": Reference("grp", usr.schema, "idg"),
    }
    child = classes(place.database()).table(None, "usr_phone")
    assert child is not None
    assert child.parent == usr


def test_an_object_is_read_with_its_children(place: Place) -> None:
    place.execute(*TABLES)
    john, ann, gone = read(place.database(), "usr", "idu=1", "idu=2", "idu=3")
    assert john == {
        "idu": "1",
        "fname": "John",
        "manager": "2",
        "usr_mbr_of.idg": ("7", "9"),
        "usr_phone.phoneno": ("111", "222", "Z", "é"),
    }
    assert ann == {
        "idu": "2",
        "fname": "Ann",
        "manager": None,
        "usr_mbr_of.idg": (),
        "usr_phone.phoneno": (),
    }
    assert gone is None


def test_a_thousand_objects_take_one_statement_for_each_table(place: Place) -> None:
    place.execute(*TABLES)
    database = place.database()
    read(database, "usr", "idu=1")
    with statements(database) as executed:
        read(database, "usr", *(f"idu={number}" for number in range(1_000)))
    reads = [text for text in executed if "fname" in text or "usr_" in text]
    assert [sum(name in text for text in reads) for name in ("fname", "phoneno", "idg")] == [
        1,
        1,
        1,
    ]


def test_parent_and_children_are_read_at_one_moment(place: Place) -> None:
    place.execute(*TABLES)
    database = place.database()
    read(database, "usr", "idu=1")
    changed: list[int] = []

    def change(_number: int) -> None:
        if not changed and place.kind != "sqlite":  # SQLite has one writer or many readers
            changed.append(1)
            place.execute("DELETE FROM usr_phone", "UPDATE usr SET fname = 'Jack' WHERE idu = 1")

    with statements(database, change):
        (john,) = read(database, "usr", "idu=1")
    assert john is not None
    assert (john["fname"], john["usr_phone.phoneno"]) in [
        ("John", ("111", "222", "Z", "é")),
        ("Jack", ()),
    ]


def test_compound_keys_link_children_in_any_order_of_columns(place: Place) -> None:
    place.execute(
        "CREATE TABLE site (country VARCHAR(8), no INTEGER, PRIMARY KEY (country, no))",
        "CREATE TABLE site_tag (tag VARCHAR(8), n INTEGER NOT NULL, c VARCHAR(8) NOT NULL,"
        " FOREIGN KEY (c, n) REFERENCES site (country, no))",
        "INSERT INTO site (country, no) VALUES ('de', 1), ('de', 2), ('fr', 1)",
        "INSERT INTO site_tag (tag, n, c) VALUES ('a', 1, 'de'), ('b', 1, 'fr'), ('c', 1, 'de')",
    )
    rows = read(place.database(), "site", "country=de+no=1", "country=de+no=2", "country=fr+no=1")
    assert [row and row["site_tag.tag"] for row in rows] == [("a", "c"), (), ("b",)]


@pytest.mark.parametrize("kind", ["VARCHAR(8)", "INTEGER"])
def test_a_row_with_null_in_its_key_has_no_children(place: Place, kind: str) -> None:
    child = "'None'" if kind != "INTEGER" else "1"
    place.execute(
        f"CREATE TABLE site (country VARCHAR(8), no {kind}, name VARCHAR(8))",
        f"CREATE TABLE site_tag (country VARCHAR(8), no {kind}, tag VARCHAR(8))",
        f"INSERT INTO site (country, no, name) VALUES ('de', {child}, 'a'), ('fr', NULL, 'b')",
        f"INSERT INTO site_tag (country, no, tag) VALUES ('fr', {child}, 'x'), ('fr', NULL, 'y'),"
        f" ('de', {child}, 'z')",
    )
    tag = ChildTable({"tag": ColumnKind.STRING}, link=("country", "no"))
    site = Table(None, "site", ("country", "no"), children={"site_tag": tag})
    both = read(place.database(), "site", "country=de", "country=fr", declared=(site,))
    assert [row and row["site_tag.tag"] for row in both] == [("z",), ()]
    (alone,) = read(place.database(), "site", "country=fr", declared=(site,))
    assert alone is not None
    assert alone["site_tag.tag"] == ()


def test_names_with_dots_and_quotes_are_names_as_others(place: Place) -> None:
    quote = '"' if place.kind != "mariadb" else "`"

    def q(name: str) -> str:
        return f"{quote}{name.replace(quote, quote * 2)}{quote}"

    parent, child, value = q("a.b"), q('c"d.e'), q("x'.y")
    place.execute(
        f"CREATE TABLE {parent} (id INTEGER PRIMARY KEY)",
        f"CREATE TABLE {child} (id INTEGER NOT NULL, {value} VARCHAR(8),"
        f" FOREIGN KEY (id) REFERENCES {parent} (id))",
        f"INSERT INTO {parent} (id) VALUES (1)",
        f"INSERT INTO {child} VALUES (1, 'v')",
    )
    assert read(place.database(), "a.b", "id=1") == [{"id": "1", "c\"d.e.x'.y": ("v",)}]


def test_a_row_has_the_children_whose_key_the_database_takes_for_its_own(place: Place) -> None:
    collation = {"sqlite": " COLLATE NOCASE", "mariadb": "", "postgresql": ""}[place.kind]
    place.execute(
        f"CREATE TABLE grp (name VARCHAR(20){collation} PRIMARY KEY)",
        f"CREATE TABLE grp_alias (name VARCHAR(20){collation} NOT NULL, alias VARCHAR(20),"
        " FOREIGN KEY (name) REFERENCES grp (name))",
        "INSERT INTO grp (name) VALUES ('Sales'), ('Staff'), ('Board')",
        "INSERT INTO grp_alias (name, alias) VALUES ('Sales', 'one'), ('Staff', 'three')",
    )
    if place.kind == "postgresql":
        assert read(place.database(), "grp", "name=SALES") == [None]
        return
    place.execute("INSERT INTO grp_alias (name, alias) VALUES ('sALES', 'two')")
    rows = read(place.database(), "grp", "name=Sales", "name=Board", "name=Staff")
    assert [row and row["grp_alias.alias"] for row in rows] == [
        ("one", "two"),
        (),
        ("three",),
    ]


def test_a_child_with_several_columns_is_refused_or_gives_several_attributes(place: Place) -> None:
    place.execute(
        USR,
        "CREATE TABLE usr_card (idu INTEGER NOT NULL, no INTEGER, kind VARCHAR(9),"
        " FOREIGN KEY (idu) REFERENCES usr (idu))",
        "INSERT INTO usr (idu) VALUES (1)",
        "INSERT INTO usr_card VALUES (1, 10, 'x'), (1, 9, 'x')",
    )
    with pytest.raises(TableRefusedError, match="several columns of values, no, kind: set child_"):
        classes(place.database()).table(None, "usr_card")
    usr = classes(place.database()).table(None, "usr")
    assert usr is not None
    assert not usr.children
    each = classes(place.database(), child_columns="each").table(None, "usr")
    assert each is not None
    assert list(each.columns) == ["idu", "fname", "manager", "usr_card.kind", "usr_card.no"]


def test_tables_whose_keys_refer_in_a_circle_are_classes_of_their_own(place: Place) -> None:
    place.execute(
        "CREATE TABLE a (id INTEGER PRIMARY KEY, b INTEGER)",
        "CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER, FOREIGN KEY (a) REFERENCES a (id))",
    )
    if place.kind != "sqlite":
        place.execute("ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b (id)")
    catalogue = classes(place.database())
    found = [catalogue.table(None, name) for name in ("a", "b")]
    assert [table and {c: r.table for c, r in table.references.items()} for table in found] == [
        {} if place.kind == "sqlite" else {"b": "b"},
        {"a": "a"},
    ]


def test_a_child_with_a_key_is_a_class_unless_it_is_declared(place: Place) -> None:
    place.execute(
        USR,
        "CREATE TABLE usr_mail (no INTEGER PRIMARY KEY, idu INTEGER NOT NULL, mail VARCHAR(9),"
        " FOREIGN KEY (idu) REFERENCES usr (idu))",
    )
    mail = classes(place.database()).table(None, "usr_mail")
    assert mail is not None
    assert mail.parent is None
    assert set(mail.references) == {"idu"}
    declared = Table(None, "usr", children={"usr_mail": ChildTable()})
    tables = catalogue_of(place.database())
    layers = LayeredCatalogue(JobCatalogue([declared]), tables)
    usr = ClassCatalogue(layers, [declared], ClassOptions(), tables.keys_of).table(None, "usr")
    assert usr is not None
    assert usr.children["usr_mail"].link == ("idu",)
    assert list(usr.columns) == ["idu", "fname", "manager", "usr_mail.mail"]
