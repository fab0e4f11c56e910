"""Tables of real servers compared with what was known of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher import migrating, publishing
from publisher.job_file import load
from publisher.journal.report import RunReport
from publisher.sources.triggerless.planning import Migration
from tests.services.databases import BINARY, Place
from tests.unit.local_engine import LocalEngine
from tests.unit.test_triggerless import documents, told

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


@pytest.fixture
def local_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (publishing, migrating):
        monkeypatch.setattr(module, "Engine", lambda _: LocalEngine())


def publish(base: Path, place: Place) -> RunReport:
    (base / "job.toml").write_text(JOB.format(url=place.url))
    return publishing.publish(load(base / "job.toml"))


def values(report: RunReport, base: Path, key: str) -> dict[str, str | None]:
    (found,) = [op for op in documents(report, base) if op.findtext("association", "") == key]
    return {str(a.attrib["attr-name"]): a.findtext("value") for a in found.iterfind("add-attr")}


def test_differences_of_tables(local_engine: None, place: Place, tmp_path: Path) -> None:
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
    assert told(second, tmp_path) == [
        ("add", "-3"),
        ("delete", "30"),
        ("modify", "5"),
        ("modify", 'Köln+name="a=b"'),
    ]
    assert second.outcomes["ignored"] == 29
    settings = load(tmp_path / "job.toml")
    report = migrating.migrate(settings, Migration(("usr",), (("idu", "7"),)))
    assert told(report, tmp_path) == [("add", "7")]


def test_large_tables_are_read_by_several_tasks_in_one_moment(
    spark: object, postgres: Place, tmp_path: Path
) -> None:
    postgres.execute(
        "CREATE TABLE usr (idu BIGINT PRIMARY KEY, fname TEXT)",
        "CREATE TABLE dep (name TEXT PRIMARY KEY)",
        "INSERT INTO usr SELECT n * 1000, 'name ' || n FROM generate_series(1, 5000) AS n",
    )
    assert publish(tmp_path, postgres).operations == {"add": 5_000}
    postgres.execute("UPDATE usr SET fname = 'x' WHERE idu % 7000 = 0")
    report = publish(tmp_path, postgres)
    assert (report.operations, report.read) == ({"modify": 714}, 5_000)
