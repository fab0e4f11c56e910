"""A state is compared only with tables of the database that it describes."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.errors import FatalError
from publisher.journal.conservation import RunReport
from publisher.reports.check import check
from publisher.runs import migrate, publisher_instance
from publisher.sources.migration import Migration
from publisher.sources.triggerless.compare import ComparisonCounts
from publisher.sources.triggerless.origin import OriginCheck, TableOrigin
from tests.support.compared_jobs import kinds_and_keys

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[[sources]]
name = "{name}"
format = "triggerless"
tables = ["usr"]
state = "{keeps}"
[database]
url = "sqlite:///{database}"
[run]
lanes = 1
[dispatch]
path = "out"
"""
STATES = pytest.mark.parametrize("keeps", ["columns", "row", "values"])


@pytest.fixture(autouse=True)
def databases(tmp_path: Path) -> None:
    """Two databases with a table of the same keys and other values."""
    for name, value in (("hr", "Ann"), ("crm", "Bob")):
        execute(tmp_path / f"{name}.db", "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
        rows = [f"INSERT INTO usr VALUES ({n}, '{value} {n}')" for n in range(1, 5)]
        execute(tmp_path / f"{name}.db", *rows)


def execute(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def job(base: Path, database: str = "hr.db", *, keeps: str = "columns", name: str = "hr") -> Path:
    path = base / "job.toml"
    path.write_text(JOB.format(database=database, keeps=keeps, name=name))
    return path


def publish(path: Path) -> RunReport:
    return publisher_instance.publish(load(path))


def part_files(base: Path) -> list[Path]:
    return sorted((base / "out").rglob("part-*.xds"))


@STATES
def test_another_database_is_refused_before_anything_is_published(
    tmp_path: Path, keeps: str
) -> None:
    publish(job(tmp_path, keeps=keeps))
    before = part_files(tmp_path)
    with pytest.raises(FatalError) as caught:
        publish(job(tmp_path, "crm.db", keeps=keeps))
    message = caught.value.message
    assert message.startswith(
        f"source hr: table usr of SQLite file {tmp_path / 'crm.db'} is not the"
    )
    assert "only 0 of 4 known row(s) have the same values" in message
    assert "restore the url of the source; or give the source another name" in message
    assert part_files(tmp_path) == before
    assert publish(job(tmp_path, keeps=keeps)).outcomes["ignored"] == 4
    assert publish(job(tmp_path, "crm.db", keeps=keeps, name="crm")).operations == {"add": 4}


def test_an_empty_copy_is_refused(tmp_path: Path) -> None:
    publish(job(tmp_path))
    execute(tmp_path / "empty.db", "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
    with pytest.raises(FatalError, match=r"only 0 of 4 known row"):
        publish(job(tmp_path, "empty.db"))
    execute(tmp_path / "hr.db", "DELETE FROM usr")  # in the same database that is so
    assert publish(job(tmp_path)).operations == {"delete": 4}


@STATES
def test_a_copy_continues_if_half_of_its_rows_are_the_same(tmp_path: Path, keeps: str) -> None:
    publish(job(tmp_path, keeps=keeps))
    shutil.copyfile(tmp_path / "hr.db", tmp_path / "copy.db")
    execute(
        tmp_path / "copy.db",
        "UPDATE usr SET fname = 'Eve' WHERE idu = 1",
        "DELETE FROM usr WHERE idu = 2",
        "INSERT INTO usr VALUES (9, 'Zoe')",
    )
    report = publish(job(tmp_path, "copy.db", keeps=keeps))
    assert kinds_and_keys(report, tmp_path) == [("add", "9"), ("delete", "2"), ("modify", "1")]
    execute(tmp_path / "copy.db", "DELETE FROM usr")  # the state has its origin now
    assert publish(job(tmp_path, "copy.db", keeps=keeps)).operations == {"delete": 4}


def test_a_new_column_in_a_copy_is_no_difference_of_the_known_ones(tmp_path: Path) -> None:
    publish(job(tmp_path))
    shutil.copyfile(tmp_path / "hr.db", tmp_path / "copy.db")
    execute(tmp_path / "copy.db", "ALTER TABLE usr ADD COLUMN site TEXT NOT NULL DEFAULT 'x'")
    assert publish(job(tmp_path, "copy.db")).operations == {"modify": 4}


def test_files_in_the_place_of_a_database_are_proved_by_rows(tmp_path: Path) -> None:
    publish(job(tmp_path))
    path = job(tmp_path)
    (tmp_path / "in").mkdir()
    rows = "".join(f"{n},Tom\n" for n in range(1, 5))
    (tmp_path / "in" / "usr.csv").write_text(f"idu,fname\n{rows}")
    path.write_text(path.read_text().replace('tables = ["usr"]', 'snapshots = ["in"]'))
    with pytest.raises(FatalError, match=r"table usr of the files is not the table of SQLite"):
        publish(path)


def test_a_migration_leaves_the_proof_to_the_next_comparison(tmp_path: Path) -> None:
    publish(job(tmp_path))
    settings = load(job(tmp_path, "crm.db"))
    assert migrate.migrate(settings, Migration(keys=("idu=1",))).operations == {"add": 1}
    with pytest.raises(FatalError, match=r"only 1 of 4 known row"):
        publish(job(tmp_path, "crm.db"))


@pytest.mark.parametrize("version", [1, 3])
def test_a_state_of_another_version_is_refused_before_anything_is_read(
    tmp_path: Path, version: int
) -> None:
    report = publish(job(tmp_path))
    path = Path(report.journal) / "state" / "hr" / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": version}))
    before = part_files(tmp_path)
    message = rf"state\.json has format {version}, this program reads format 2: use the version"
    with pytest.raises(FatalError, match=message) as caught:
        publish(job(tmp_path))
    assert "give the source another name" in caught.value.message
    assert part_files(tmp_path) == before
    assert publish(job(tmp_path, name="people")).operations == {"add": 4}


def test_another_server_is_certain_and_rows_prove_only_when_they_are_asked() -> None:
    before = TableOrigin("postgresql:7:5", "PostgreSQL a")
    asked = OriginCheck("hr", "usr", before, TableOrigin("postgresql:8:5", "PostgreSQL b"))
    with pytest.raises(FatalError) as caught:
        asked.needs_rows(by_rows=False)
    assert "its system identifier is 8, not 7. Nothing was published" in caught.value.message
    assert "publish --by-rows once" in caught.value.message
    assert asked.needs_rows(by_rows=True)
    other = OriginCheck("hr", "usr", before, TableOrigin("mariadb:1", "MariaDB"))
    with pytest.raises(FatalError, match="it is in another kind of database"):
        other.needs_rows(by_rows=False)


def test_a_replica_needs_no_proof_and_an_unknown_identity_one_by_rows() -> None:
    before = TableOrigin("postgresql:7:5", "PostgreSQL a")
    replica = TableOrigin("postgresql:7:5", "PostgreSQL b")
    assert not OriginCheck("hr", "usr", before, replica).needs_rows(by_rows=False)
    hidden, elsewhere = TableOrigin(None, "PostgreSQL a"), TableOrigin(None, "PostgreSQL b")
    assert not OriginCheck("hr", "usr", hidden, hidden).needs_rows(by_rows=False)
    assert OriginCheck("hr", "usr", hidden, elsewhere).needs_rows(by_rows=False)
    assert not OriginCheck("hr", "usr", None, None).needs_rows(by_rows=False)


def test_half_of_the_known_rows_are_enough() -> None:
    check_ = OriginCheck("hr", "usr", None, TableOrigin("sqlite:1", "SQLite"))
    check_.verify_rows(ComparisonCounts(unchanged=2, alike=2, vanished=2))
    check_.verify_rows(ComparisonCounts(added=7))
    with pytest.raises(FatalError, match=r"only 2 of 5 known row"):
        check_.verify_rows(ComparisonCounts(unchanged=2, alike=2, vanished=2, left=1))


def test_check_is_silent_about_the_same_database(tmp_path: Path) -> None:
    publish(job(tmp_path))
    assert all(finding.ok for finding in check(load(job(tmp_path))))
