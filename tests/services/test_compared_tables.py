"""Tables of real servers compared with what was known of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from lxml import etree

from publisher.config.job_file import load
from publisher.errors import FatalError
from publisher.formats.live import table_reader
from publisher.formats.live.find_table import LiveTable
from publisher.formats.live.table_split import TableSplit
from publisher.formats.migration import Migration
from publisher.ledger.conservation import RunReport
from publisher.reports.check import check
from publisher.runs import migrate
from publisher.runs.publish import publish as publish_job
from publisher.xds.values import text_of
from tests.services.databases import BINARY, Place, another_database, sqlite_place
from tests.support.compared_jobs import key_of, kinds_and_keys, operations_of
from tests.support.local_engine import EngineSwitch

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[[sources]]
name = "hr"
format = "triggerless"
tables = ["usr", "dep"]
state = "values"
buckets = 2
[database]
url = "{url}"
[run]
lanes = 2
[dispatch]
path = "out"
"""


def publish(base: Path, place: Place, *, accepts_database: bool = False) -> RunReport:
    (base / "job.toml").write_text(JOB.format(url=place.url))
    return publish_job(load(base / "job.toml"), accepts_database=accepts_database)


def values(report: RunReport, base: Path, key: str) -> dict[str, str | None]:
    (found,) = [op for op in operations_of(report, base) if op.findtext("association", "") == key]
    return {str(a.attrib["attr-name"]): a.findtext("value") for a in found.iterfind("add-attr")}


def test_differences_of_tables(place: Place, tmp_path: Path) -> None:
    place.execute(
        f"CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(40), photo {BINARY[place.kind]},"
        " pay DECIMAL(9, 2), hired DATE, code CHAR(6))",
        "CREATE TABLE dep (site VARCHAR(20), name CHAR(10), chief INTEGER, PRIMARY KEY (site, name))",
        *(
            f"INSERT INTO usr VALUES ({n}, 'Ann {n}', NULL, {n}.50, '2024-05-06', 'a')"
            for n in range(1, 31)
        ),
        "INSERT INTO dep VALUES ('Köln', 'IT', 1), ('Köln', 'a=b', 2)",
    )
    first = publish(tmp_path, place)
    assert first.operations == {"add": 32}
    schema = "" if place.kind != "postgresql" else ",schema=public"
    ann = values(first, tmp_path, f"idu=7,table=usr{schema}")
    assert (ann["fname"], ann["pay"], ann["code"]) == (
        "Ann 7",
        "7.50" if place.kind != "sqlite" else "7.5",
        "a",
    )
    assert publish(tmp_path, place).documents == 0
    place.execute(
        "UPDATE usr SET fname = NULL WHERE idu = 5",
        "DELETE FROM usr WHERE idu = 30",
        "INSERT INTO usr (idu, fname) VALUES (-3, 'Cy')",
        "UPDATE dep SET chief = 9 WHERE name = 'a=b'",
    )
    second = publish(tmp_path, place)
    assert kinds_and_keys(second, tmp_path) == [
        ("add", "-3"),
        ("delete", "30"),
        ("modify", "5"),
        ("modify", 'Köln+name="a=b"'),
    ]
    assert second.outcomes["ignored"] == 29
    settings = load(tmp_path / "job.toml")
    report = migrate.migrate(settings, Migration(("usr",), (("idu", "7"),)))
    assert kinds_and_keys(report, tmp_path) == [("add", "7")]


def test_check_shows_a_sample_of_each_table(place: Place, tmp_path: Path) -> None:
    place.execute(
        f"CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(40), photo {BINARY[place.kind]})",
        *(f"INSERT INTO usr VALUES ({n}, 'Ann', NULL)" for n in range(2, 150)),
        "INSERT INTO usr VALUES (1, 'Ann', NULL)",
        "CREATE VIEW dep AS SELECT NULLIF(idu, idu) AS name, fname FROM usr WHERE idu < 4",
    )
    job = JOB.format(url=place.url).replace("buckets", 'key = { dep = ["name"] }\nbuckets')
    (tmp_path / "job.toml").write_text(job)
    found = {finding.what: finding for finding in check(load(tmp_path / "job.toml"))}
    usr, dep = found["sample of hr, table usr"], found["sample of hr, table dep"]
    schema = "public.usr" if place.kind == "postgresql" else "usr"
    assert usr.ok
    assert usr.detail.startswith("first 100 record(s): 100 changes; first change usr:1:1")
    assert f' in {schema} {{"fname": "Ann"}}' in usr.detail
    assert not dep.ok
    assert "all of the first 3 record(s) are rejected" in dep.detail
    assert "the key column name is NULL" in dep.detail
    assert not (tmp_path / ".xds-publisher").exists()


def people(place: Place, rows: int, name: str = "Ann") -> None:
    place.execute(
        "DROP TABLE IF EXISTS usr",
        "DROP TABLE IF EXISTS dep",
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(40))",
        "CREATE TABLE dep (name VARCHAR(20) PRIMARY KEY)",
        *(f"INSERT INTO usr VALUES ({n}, '{name} {n}')" for n in range(1, rows + 1)),
    )


@pytest.fixture
def other(place: Place, tmp_path: Path) -> Iterator[Place]:
    """A second database of the same kind."""
    if place.kind == "sqlite":
        yield sqlite_place(tmp_path / "other.db")
        return
    with another_database(place, "compared_other") as found:
        yield found


_WHY = {
    "postgresql": "its database number is",
    "mariadb": "it is on another server or in another database",
    "sqlite": "it is in another file",
}


def test_another_database_is_refused(place: Place, other: Place, tmp_path: Path) -> None:
    people(place, 4)
    people(other, 4, "Bob")
    assert publish(tmp_path, place).documents == 4
    with pytest.raises(FatalError, match=rf"source hr: table usr of .* {_WHY[place.kind]}"):
        publish(tmp_path, other)
    findings = {finding.what: finding for finding in check(load(tmp_path / "job.toml"))}
    assert not findings["source hr"].ok
    assert publish(tmp_path, place).documents == 0


def test_an_accepted_copy_goes_on(place: Place, other: Place, tmp_path: Path) -> None:
    """Only what differs is published; then the copy is the table."""
    people(place, 4)
    people(other, 5)
    assert publish(tmp_path, place).documents == 4
    report = publish(tmp_path, other, accepts_database=True)
    assert kinds_and_keys(report, tmp_path) == [("add", "5")]
    assert any("was accepted as the table of" in note for note in report.notes)
    other.execute("DELETE FROM usr")
    assert publish(tmp_path, other).operations == {"delete": 5}


def test_the_same_database_by_another_url_and_a_table_made_again_go_on(
    postgres: Place, tmp_path: Path
) -> None:
    """Failover to a physical replica gives another URL; a nightly load makes tables again."""
    people(postgres, 4)
    publish(tmp_path, postgres)
    host = sa.make_url(postgres.url).set(host="localhost").render_as_string(hide_password=False)
    people(postgres, 1, "Eve")
    report = publish(tmp_path, Place("postgresql", host))
    assert report.operations == {"delete": 3, "modify": 1}


def test_large_tables_are_read_by_several_tasks_in_one_moment(
    spark: object, local_engine: EngineSwitch, postgres: Place, tmp_path: Path
) -> None:
    local_engine.use_spark()
    postgres.execute(
        "CREATE TABLE usr (idu BIGINT PRIMARY KEY, fname TEXT)",
        "CREATE TABLE dep (name TEXT PRIMARY KEY)",
        "INSERT INTO usr SELECT n * 1000, 'name ' || n FROM generate_series(1, 5000) AS n",
    )
    assert publish(tmp_path, postgres).operations == {"add": 5_000}
    postgres.execute("UPDATE usr SET fname = 'x' WHERE idu % 7000 = 0")
    report = publish(tmp_path, postgres)
    assert (report.operations, report.read) == ({"modify": 714}, 5_000)


CLASSES = JOB.replace('tables = ["usr", "dep"]', 'tables = ["usr"]').replace(
    "[run]", '[classes]\nsync_filter = "schema"\n[run]'
)
CLASS_TABLES = (
    "CREATE TABLE grp (idg INTEGER PRIMARY KEY)",
    """CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(64), manager INTEGER,
        FOREIGN KEY (manager) REFERENCES usr (idu))""",
    """CREATE TABLE usr_phone (idu INTEGER NOT NULL, phoneno VARCHAR(64),
        FOREIGN KEY (idu) REFERENCES usr (idu) ON DELETE CASCADE)""",
    """CREATE TABLE member (idu INTEGER NOT NULL, idg INTEGER NOT NULL,
        FOREIGN KEY (idg) REFERENCES grp (idg),
        FOREIGN KEY (idu) REFERENCES usr (idu) ON DELETE CASCADE)""",
    "INSERT INTO grp VALUES (7), (9)",
    "INSERT INTO usr VALUES (2, 'Ann', NULL)",
    "INSERT INTO usr VALUES (1, 'John', 2), (3, 'Bob', NULL)",
    "INSERT INTO usr_phone VALUES (1, '222'), (1, '111'), (1, '222'), (1, NULL)",
    "INSERT INTO member VALUES (1, 9), (1, 7)",
)


def publish_classes(base: Path, place: Place) -> RunReport:
    (base / "job.toml").write_text(CLASSES.format(url=place.url))
    return publish_job(load(base / "job.toml"))


def operations(report: RunReport, base: Path) -> dict[str, tuple[str, dict[str, list[list[str]]]]]:
    """By key: the operation, and the values in each part of each attribute."""
    return {
        key_of(op): (
            op.tag,
            {
                str(attribute.attrib["attr-name"]): [
                    [str(part.tag), *(value_of(value) for value in part.iter("value"))]
                    for part in attribute
                ]
                for attribute in op
                if attribute.tag != "association"
            },
        )
        for op in operations_of(report, base)
    }


def value_of(value: etree._Element) -> str:
    reference = str(value.attrib.get("association-ref", ""))
    return reference.partition(",")[0] or str(value.text)


def test_whole_objects_are_compared(place: Place, tmp_path: Path) -> None:
    place.execute(*CLASS_TABLES)
    first = operations(publish_classes(tmp_path, place), tmp_path)
    assert first["1"] == (
        "add",
        {
            "fname": [["value", "John"]],
            "manager": [["value", "idu=2"]],
            "member.idg": [["value", "idg=7"], ["value", "idg=9"]],
            "usr_phone.phoneno": [["value", "111"], ["value", "222"]],
        },
    )
    place.execute(
        "UPDATE usr_phone SET phoneno = '333' WHERE phoneno = '222'",
        "DELETE FROM member WHERE idg = 9",
        "INSERT INTO usr_phone VALUES (2, '444')",
        "DELETE FROM usr WHERE idu = 3",
    )
    report = publish_classes(tmp_path, place)
    assert operations(report, tmp_path) == {
        "1": (
            "modify",
            {
                "member.idg": [["remove-value", "idg=9"]],
                "usr_phone.phoneno": [["remove-value", "222"], ["add-value", "333"]],
            },
        ),
        "2": ("modify", {"usr_phone.phoneno": [["add-value", "444"]]}),
        "3": ("delete", {}),
    }
    assert report.read == 3
    place.execute("DELETE FROM usr_phone WHERE idu = 1", "DELETE FROM member")
    (operation,) = operations(publish_classes(tmp_path, place), tmp_path).values()
    assert operation[1]["usr_phone.phoneno"] == [["remove-value", "111"], ["remove-value", "333"]]
    assert publish_classes(tmp_path, place).documents == 0


def test_parents_and_children_are_read_at_one_moment(place: Place) -> None:
    place.execute(*CLASS_TABLES)
    database, tables = place.database(), [LiveTable("usr"), LiveTable("usr_phone")]

    def change() -> None:
        if place.kind != "sqlite":  # SQLite has one writer or many readers
            place.execute("DELETE FROM usr_phone", "INSERT INTO usr VALUES (4, 'Cy', NULL)")

    counts = [0, 0]
    if database.can_copy:
        with table_reader.shared_moment(database, tables, 2) as splits:
            change()
            for number, (table, parts) in enumerate(zip(tables, splits, strict=True)):
                for split in parts:
                    frames = table_reader.read(database, table, split, text_of)
                    counts[number] += sum(frame.batch.num_rows for frame in frames)
    else:
        for number, frame in table_reader.read_together(database, tables, TableSplit(0), text_of):
            counts[number] += frame.batch.num_rows
            if not number:
                change()
    assert counts == [3, 4]


def test_large_classes_are_read_by_several_tasks_in_one_moment(
    spark: object, local_engine: EngineSwitch, postgres: Place, tmp_path: Path
) -> None:
    local_engine.use_spark()
    postgres.execute(
        *CLASS_TABLES[:4],
        "INSERT INTO usr SELECT n * 1000, 'name ' || n FROM generate_series(1, 3000) AS n",
        "INSERT INTO usr_phone SELECT n * 1000, m FROM generate_series(1, 3000) AS n,"
        " generate_series(1, 3) AS m",
    )
    report = publish_classes(tmp_path, postgres)
    assert (report.operations, report.read) == ({"add": 3_000}, 3_000)
    assert (
        sum(len(op.findall("add-attr/value")) for op in operations_of(report, tmp_path)) == 12_000
    )
    postgres.execute("DELETE FROM usr_phone WHERE idu % 7000 = 0 AND phoneno = '2'")
    assert publish_classes(tmp_path, postgres).operations == {"modify": 428}
