"""Statuses go to the table that a run has read, and to no other one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from publisher.acknowledge.places import WrongTableError
from publisher.cli.main import cli
from publisher.config.job_file import load
from publisher.database.identity import identity_of
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError, PublisherError, UsageError
from publisher.formats.live.find_table import LiveTable, relation_of
from publisher.ledger.conservation import RunReport
from publisher.runs.job import Job
from publisher.runs.publish import publish as publish_job
from tests.services.databases import Place, another_database, sqlite_place
from tests.services.servers import postgresql

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[[sources]]
name = "{name}"
table = "{table}"
url = "{url}"

[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string" }}

[dispatch]
path = "out"

[run]
lanes = 2
"""


@pytest.fixture
def other(place: Place, tmp_path: Path) -> Iterator[Place]:
    """A second database of the same kind."""
    if place.kind == "sqlite":
        yield sqlite_place(tmp_path / "other.db")
        return
    with another_database(place, "other") as found:
        yield found


def make_log(place: Place, *values: str, table: str = "log", day: int = 1) -> None:
    moment = "DATETIME(6)" if place.kind == "mariadb" else "TIMESTAMP"
    place.execute(
        f"CREATE TABLE {table} (record_id INTEGER PRIMARY KEY, table_key VARCHAR(80),"
        f" status CHAR(1), event_type INTEGER, event_time {moment}, perpetrator VARCHAR(40),"
        " table_name VARCHAR(40), column_name VARCHAR(40), old_value TEXT, new_value TEXT)",
    )
    add_rows(place, *values, table=table, day=day)


def add_rows(place: Place, *values: str, table: str = "log", day: int = 1) -> None:
    place.execute(
        *(
            f"INSERT INTO {table} VALUES ({number}, 'idu={number}', 'N', 3, '2026-01-0{day} 00:00:00',"
            f" NULL, 'usr', 'fname', NULL, '{value}')"
            for number, value in enumerate(values, 1)
        )
    )


def statuses(place: Place, table: str = "log") -> str:
    rows = place.query(f"SELECT status FROM {table} ORDER BY record_id")
    return "".join(row[0] for row in rows)


@dataclass(frozen=True)
class AcknowledgedJob:
    base: Path
    place: Place
    name: str = "hr"
    table: str = "log"

    def file(self) -> Path:
        path = self.base / "job.toml"
        path.write_text(JOB.format(name=self.name, table=self.table, url=self.place.url))
        return path

    def publish(self) -> RunReport:
        return publish_job(load(self.file()))

    def acknowledge(self, *words: str) -> str:
        path = str(self.file())
        result = CliRunner().invoke(cli, ["acknowledge", "-c", path, "--run", "job-000001", *words])
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result.output

    def values(self) -> list[str]:
        """All published values, in the order of runs and record ids."""
        parts = sorted(self.base.glob("out/runs/*/part-*.xds"))
        lines = [line for part in parts for line in part.read_text().splitlines()]
        return sorted(
            line.partition("<add-value>")[2].partition("</value>")[0][-2:] for line in lines
        )


@contextmanager
def refusing(place: Place) -> Iterator[None]:
    """The log takes no status while the context is open."""
    if place.kind == "sqlite":
        place.execute(
            "CREATE TRIGGER never BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'never'); END"
        )
    elif place.kind == "mariadb":
        place.execute(
            "CREATE TRIGGER never BEFORE UPDATE ON log FOR EACH ROW"
            " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'never'"
        )
    else:
        place.execute("ALTER TABLE log ADD CONSTRAINT never CHECK (status = 'N')")
    yield
    drop = {"postgresql": "ALTER TABLE log DROP CONSTRAINT never"}
    place.execute(drop.get(place.kind, "DROP TRIGGER never"))


def sent_run(base: Path, place: Place) -> AcknowledgedJob:
    """A job whose first run was sent, but not acknowledged."""
    make_log(place, "a1", "a2", "a3")
    job = AcknowledgedJob(base, place)
    with refusing(place), pytest.raises(FatalError, match="Writing the status"):
        job.publish()
    assert statuses(place) == "NNN"
    assert job.values() == ["a1", "a2", "a3"]
    return job


def test_a_sent_run_is_acknowledged_at_the_next_start(place: Place, tmp_path: Path) -> None:
    job = sent_run(tmp_path, place)
    job.publish()
    assert statuses(place) == "SSS"
    assert job.values() == ["a1", "a2", "a3"]


def test_another_database_is_refused_and_its_rows_are_not_touched(
    place: Place, other: Place, tmp_path: Path
) -> None:
    job = sent_run(tmp_path, place)
    make_log(other, "b1", "b2", "b3", day=2)
    moved = replace(job, place=other)
    with pytest.raises(WrongTableError, match="--abandon") as caught:
        moved.publish()
    assert "run job-000001 was sent" in caught.value.message
    assert statuses(other) == "NNN"
    assert statuses(place) == "NNN"
    # back to the right one: nothing is published twice
    job.publish()
    assert statuses(place) == "SSS"
    assert job.values() == ["a1", "a2", "a3"]


def test_abandoned_the_job_goes_on_with_the_other_database(
    place: Place, other: Place, tmp_path: Path
) -> None:
    job = sent_run(tmp_path, place)
    make_log(other, "b1", "b2", "b3", day=2)
    moved = replace(job, place=other)
    output = moved.acknowledge("--abandon")
    assert "run job-000001 is done; statuses written: none" in output
    assert "rows of log that are still N will be published again" in output
    assert (statuses(place), statuses(other)) == ("NNN", "NNN")
    moved.publish()
    assert statuses(other) == "SSS"
    assert job.values() == ["a1", "a2", "a3", "b1", "b2", "b3"]


def test_an_empty_table_of_the_same_name_is_refused(
    place: Place, other: Place, tmp_path: Path
) -> None:
    job = sent_run(tmp_path, place)
    make_log(other)
    with pytest.raises(WrongTableError):
        replace(job, place=other).publish()


def test_an_accepted_copy_gets_the_statuses(place: Place, other: Place, tmp_path: Path) -> None:
    job = sent_run(tmp_path, place)
    make_log(other, "a1", "a2", "b3", day=1)
    add = "UPDATE log SET table_key = 'idu=9' WHERE record_id = 3"
    other.execute(add)  # another row than the one that was read
    copy = replace(job, place=other)
    with pytest.raises(WrongTableError, match="publish --accept-database once"):
        copy.publish()
    report = publish_job(load(copy.file()), accepts_database=True)
    assert any("was accepted as the table that run job-000001" in n for n in report.notes)
    assert any("1 record id(s) belong to other rows" in note for note in report.notes)
    assert statuses(other) == "SSS"
    copy.publish()
    assert job.values() == ["a1", "a2", "a3", "b3"]


def test_rows_of_an_emptied_log_are_published_and_not_acknowledged_before(
    place: Place, tmp_path: Path
) -> None:
    job = sent_run(tmp_path, place)
    place.execute("DELETE FROM log")
    add_rows(place, "c1", "c2", "c3", "c4", day=3)
    report = job.publish()
    assert any("3 record id(s) belong to other rows" in note for note in report.notes)
    assert statuses(place) == "SSSS"
    assert job.values() == ["a1", "a2", "a3", "c1", "c2", "c3", "c4"]


def test_a_source_of_another_name_is_refused_until_the_run_is_acknowledged(
    place: Place, tmp_path: Path
) -> None:
    job = sent_run(tmp_path, place)
    with pytest.raises(FatalError, match="no source of the job file has this name"):
        replace(job, name="people").publish()
    job.publish()
    assert statuses(place) == "SSS"
    assert job.values() == ["a1", "a2", "a3"]


def test_a_source_that_reads_another_table_now_is_acknowledged_in_the_old_one(
    place: Place, tmp_path: Path
) -> None:
    job = sent_run(tmp_path, place)
    make_log(place, "d1", table="log2", day=4)
    replace(job, table="log2").publish()
    assert (statuses(place), statuses(place, "log2")) == ("SSS", "S")
    assert job.values() == ["a1", "a2", "a3", "d1"]


def test_only_a_sent_run_that_waits_can_be_abandoned(place: Place, tmp_path: Path) -> None:
    make_log(place, "a1")
    job = AcknowledgedJob(tmp_path, place)
    job.publish()
    settings = load(job.file())
    with (
        Job(settings, LocalEngine()) as work,
        pytest.raises(UsageError, match="waiting runs: none"),
    ):
        work.abandon("job-000001")
    result = CliRunner().invoke(cli, ["acknowledge", "-c", str(job.file()), "--run", "x"])
    assert result.exit_code == UsageError.exit_code


def test_a_database_that_is_gone_can_be_abandoned(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "gone.db")
    job = sent_run(tmp_path, place)
    (tmp_path / "gone.db").unlink()
    with pytest.raises(PublisherError):
        job.publish()
    job.acknowledge("--abandon")
    place = sqlite_place(tmp_path / "gone.db")
    make_log(place, "e1", day=5)
    job.publish()
    assert job.values() == ["a1", "a2", "a3", "e1"]


def test_identity_of_postgresql_is_that_of_the_content(postgres: Place) -> None:
    make_log(postgres)
    first = identity(postgres)
    assert first is not None
    host = sa.make_url(postgres.url).set(host="localhost").render_as_string(hide_password=False)
    assert first == identity(Place("postgresql", host))
    postgres.execute("TRUNCATE log")
    assert first == identity(postgres)
    postgres.execute("DROP TABLE log")
    make_log(postgres)
    assert first != identity(postgres)
    with postgresql() as server:
        away = Place("postgresql", server.url)
        make_log(away)
        assert first != identity(away)


def test_identity_needs_no_rights_and_may_be_missing(postgres: Place) -> None:
    postgres.execute("DROP ROLE IF EXISTS poor", "CREATE ROLE poor LOGIN")
    make_log(postgres)
    url = sa.make_url(postgres.url).set(username="poor").render_as_string(hide_password=False)
    poor = Place("postgresql", url)
    assert identity(poor) == identity(postgres)
    postgres.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    assert identity(poor) is None
    postgres.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC", "DROP ROLE poor")


def identity(place: Place) -> str | None:
    database = place.database()
    return identity_of(database, relation_of(database, LiveTable("log")))
