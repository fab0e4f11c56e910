"""A state is compared only with tables of the database that it describes."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.database.identity import TableOrigin
from publisher.errors import FatalError
from publisher.formats.migration import Migration
from publisher.ledger import storage
from publisher.ledger.conservation import RunReport
from publisher.reports.check import check
from publisher.runs import migrate
from publisher.runs.publish import publish as publish_job
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
STATES = pytest.mark.parametrize("keeps", ["columns", "values"])


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
    return publish_job(load(path))


def part_files(base: Path) -> list[Path]:
    return sorted((base / "out").rglob("part-*.xds"))


def test_another_database_is_refused_before_anything_is_published(tmp_path: Path) -> None:
    publish(job(tmp_path))
    before = part_files(tmp_path)
    with pytest.raises(FatalError) as caught:
        publish(job(tmp_path, "crm.db"))
    message = caught.value.message
    assert message.startswith(
        f"source hr: table usr of SQLite file {tmp_path / 'crm.db'} is not the"
    )
    assert "it is in another file. Nothing was published" in message
    assert "run xds-publisher publish --accept-database once" in message
    assert not all(finding.ok for finding in check(load(job(tmp_path, "crm.db"))))
    assert part_files(tmp_path) == before
    assert publish(job(tmp_path)).outcomes["ignored"] == 4
    assert publish(job(tmp_path, "crm.db", name="crm")).operations == {"add": 4}


@STATES
def test_an_accepted_copy_continues_with_the_state(tmp_path: Path, keeps: str) -> None:
    publish(job(tmp_path, keeps=keeps))
    shutil.copyfile(tmp_path / "hr.db", tmp_path / "copy.db")
    execute(
        tmp_path / "copy.db",
        "UPDATE usr SET fname = 'Eve' WHERE idu = 1",
        "DELETE FROM usr WHERE idu = 2",
        "INSERT INTO usr VALUES (9, 'Zoe')",
    )
    path = job(tmp_path, "copy.db", keeps=keeps)
    report = publish_job(load(path), accepts_database=True)
    assert kinds_and_keys(report, tmp_path) == [("add", "9"), ("delete", "2"), ("modify", "1")]
    assert any("was accepted as the table of SQLite" in note for note in report.notes)
    execute(tmp_path / "copy.db", "DELETE FROM usr")  # the state has its origin now
    assert publish(path).operations == {"delete": 4}


def test_files_in_the_place_of_a_database_are_refused(tmp_path: Path) -> None:
    publish(job(tmp_path))
    path = job(tmp_path)
    (tmp_path / "in").mkdir()
    rows = "".join(f"{n},Tom\n" for n in range(1, 5))
    (tmp_path / "in" / "usr.csv").write_text(f"idu,fname\n{rows}")
    path.write_text(path.read_text().replace('tables = ["usr"]', 'snapshots = ["in"]'))
    with pytest.raises(FatalError, match=r"table usr of the files is not the table of SQLite"):
        publish(path)


def test_a_migration_of_another_database_is_refused(tmp_path: Path) -> None:
    publish(job(tmp_path))
    settings = load(job(tmp_path, "crm.db"))
    with pytest.raises(FatalError, match="it is in another file"):
        migrate.migrate(settings, Migration(keys=("idu=1",)))


@pytest.mark.parametrize("version", [2, 4])
def test_a_state_of_another_version_is_refused_before_anything_is_read(
    tmp_path: Path, version: int
) -> None:
    report = publish(job(tmp_path))
    ledger = Path(report.ledger).parent
    path = ledger / "state" / "hr" / "000001" / "state.json"
    text = json.dumps(json.loads(path.read_text()) | {"format": version})
    path.write_text(text)
    with storage.transaction(ledger) as connection:  # as the other version left it
        entry = (len(text), hashlib.sha256(text.encode()).hexdigest(), f"%{path.name}")
        connection.execute("UPDATE file SET size = ?, digest = ? WHERE path LIKE ?", entry)
    before = part_files(tmp_path)
    message = rf"state\.json has format {version}, this program reads format 3: use the version"
    with pytest.raises(FatalError, match=message) as caught:
        publish(job(tmp_path))
    assert "give the source another name" in caught.value.message
    assert part_files(tmp_path) == before
    assert publish(job(tmp_path, name="people")).operations == {"add": 4}


def test_a_difference_names_what_differs() -> None:
    before = TableOrigin("postgresql:7:5:9", "PostgreSQL a")
    for identity, why in {
        "postgresql:7:5:8": "its table number is 8, not 9",
        "postgresql:6:4:9": "its system identifier is 6, not 7, its database number is 4, not 5",
        "mariadb:1": "it is in another kind of database",
        None: "the identity of one of them cannot be read",
    }.items():
        now = TableOrigin(identity, "PostgreSQL a")
        assert not before.is_same(now)
        assert before.difference(now) == why


def test_a_replica_is_the_same_and_a_server_without_identity_is_known_by_its_name() -> None:
    before = TableOrigin("postgresql:7:5", "PostgreSQL a")
    assert before.is_same(TableOrigin("postgresql:7:5", "PostgreSQL b"))
    hidden, elsewhere = TableOrigin(None, "PostgreSQL a"), TableOrigin(None, "PostgreSQL b")
    assert hidden.is_same(hidden)
    assert not hidden.is_same(elsewhere)


def test_check_is_silent_about_the_same_database(tmp_path: Path) -> None:
    publish(job(tmp_path))
    assert all(finding.ok for finding in check(load(job(tmp_path))))
