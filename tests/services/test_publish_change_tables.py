"""Jobs whose source is a change table of a database: what an earlier run has read is not read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.config.job_file import load
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError, PublisherError
from publisher.reports.check import check
from publisher.reports.explain import explain
from publisher.runs.job import Job
from tests.services.databases import Place
from tests.support.change_table_files import seq
from tests.support.followed_jobs import follow_until_idle
from tests.support.local_engine import EngineSwitch, ScriptedEngine

JOB = """
[[sources]]
name = "ct"
format = "change-table"
table = "{table}"
key = ["idu"]
url = "{url}"

[dispatch]
path = "out"

[run]
lanes = 2

[acknowledge]
write_status = false
"""


def make(place: Place) -> None:
    place.execute(
        "CREATE TABLE usr__ct (header__change_seq VARCHAR(35), header__change_oper VARCHAR(1),"
        " header__change_mask VARCHAR(8), idu INTEGER, fname VARCHAR(9), lname VARCHAR(9))"
    )


def add(place: Place, *changes: tuple[int | None, str, str, int, str]) -> None:
    rows = [
        f"({'NULL' if number is None else repr(seq(number))}, '{oper}', '{mask}', {idu}, '{name}', 'L')"
        for number, oper, mask, idu, name in changes
    ]
    place.execute(f"INSERT INTO usr__ct VALUES {', '.join(rows)}")


def write_job(base: Path, place: Place, more: str = "") -> Path:
    path = base / "job.toml"
    path.write_text(JOB.format(url=place.url, table="usr__ct") + more)
    return path


def run(command: str, job: Path, *more: str) -> tuple[int, Any, str]:
    result = CliRunner().invoke(cli, [command, *more, "-c", str(job), "--json"])
    assert not isinstance(result.exception, AssertionError), result.exception
    return result.exit_code, json.loads(result.stdout or "{}"), result.stderr


def operation_texts(base: Path) -> list[str]:
    """The documents of all runs in short, by run and lane."""
    parts = sorted((base / "out" / "runs").glob("*/part-*.xds"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    found = []
    for line in lines:
        operation = line.partition("<input><")[2].partition(" ")[0]
        found.append(f"{operation} {line.partition('<association>')[2].partition(',')[0]}")
    return found


@pytest.mark.usefixtures("spark")
def test_a_second_publish_reads_what_is_newer(postgres: Place, tmp_path: Path) -> None:
    make(postgres)
    job = write_job(tmp_path, postgres)
    add(postgres, (1, "I", "38", 1, "Ann"), (2, "I", "38", 2, "Bob"))
    assert run("check", job)[0] == 0
    assert run("status", job)[1]["logs"][0]["waiting"] == 2
    _, first, _ = run("publish", job)
    assert (first["read"], first["documents"], first["notes"]) == (2, 2, [])
    code, found, _ = run("status", job)
    assert (code, found["logs"][0]["waiting"], found["logs"][0]["statuses"]) == (0, 0, {})
    # a mask of one column and its before image; what was passed comes late; one without a place
    add(postgres, (3, "U", "10", 1, "Eve"), (3, "B", "", 1, "Ann"), (2, "U", "10", 2, "Tom"))
    add(postgres, (None, "I", "38", 9, "None"))
    code, second, err = run("publish", job)
    assert code == 4, err
    assert (second["read"], second["outcomes"]["published"]) == (4, 3)
    assert second["reasons"] == {"rejected": {"change-seq": 1}}
    late, epoch = second["notes"]
    assert "late: 1 row(s) of table usr__ct" in late
    assert "epoch 2" in epoch  # the position of the late row names another row
    code, third, _ = run("publish", job)
    assert (code, third["read"], third["notes"]) == (0, 0, [])
    assert sorted(operation_texts(tmp_path)) == [
        "add idu=1",
        "add idu=2",
        "modify idu=1",
        "modify idu=2",
    ]
    (story,) = {story.document for story in explain(Path(second["ledger"]), seq(3))}
    assert story is not None
    result = CliRunner().invoke(cli, ["retry", "-c", str(job)])
    assert (result.exit_code, "is an event log in a database" in result.stderr) == (2, True)


def test_a_change_table_is_followed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(place)
    add(place, (1, "I", "38", 1, "Ann"))
    settings = load(write_job(tmp_path, place, "[ledger]\nretention_days = 0.0000001\n"))
    monkeypatch.setattr("publisher.runs.follow.SECONDS_BETWEEN_EXPIRIES", 0.0)
    watcher = follow_until_idle(
        settings,
        LocalEngine(),
        lambda: add(place, (2, "D", "08", 1, "Ann"), (3, "I", "38", 2, "Bob")),
        lambda: add(place, (5, "U", "10", 2, "Eve"), (5, "B", "", 2, "Bob")),
    )
    assert [poll.waiting for poll in watcher.polls] == [1, 2, 2]
    assert [poll.report.read for poll in watcher.polls] == [1, 2, 2]
    assert [poll.oldest is not None for poll in watcher.polls] == [True] * 3
    assert sorted(operation_texts(tmp_path)) == [
        "add idu=1",
        "add idu=2",
        "delete idu=1",
        "modify idu=2",
    ]
    again = follow_until_idle(settings, LocalEngine())
    assert again.events == ["begun", "stop requested"]


def test_late_rows_and_pairs_that_wait_are_followed(place: Place, tmp_path: Path) -> None:
    """change_seq 9 is polled, then 5 is committed; a before image comes a poll before its UPDATE."""
    make(place)
    add(place, (9, "I", "38", 9, "Zoe"))
    settings = load(write_job(tmp_path, place))
    watcher = follow_until_idle(
        settings,
        LocalEngine(),
        lambda: add(place, (5, "I", "38", 5, "Fay")),
        lambda: add(place, (10, "I", "38", 1, "Ann"), (12, "B", "", 9, "Zoe")),
        lambda: add(place, (12, "U", "10", 9, "Eve"), (13, "D", "08", 1, "Ann")),
    )
    reports = [poll.report for poll in watcher.polls]
    assert [report.read for report in reports] == [1, 1, 1, 3]
    assert [report.outcomes["rejected"] for report in reports] == [0] * 4
    assert ["late: 1 row(s)" in note for note in reports[1].notes] == [True]
    assert ["waiting: the row(s)" in note for note in reports[2].notes] == [True]
    assert sorted(operation_texts(tmp_path)) == [
        "add idu=1",
        "add idu=5",
        "add idu=9",
        "delete idu=1",
        "modify idu=9",
    ]
    assert follow_until_idle(settings, LocalEngine()).events == ["begun", "stop requested"]


def test_a_run_that_failed_moves_no_mark(postgres: Place, tmp_path: Path) -> None:
    make(postgres)
    add(postgres, (1, "I", "38", 1, "Ann"))
    settings = load(write_job(tmp_path, postgres))
    lost = PublisherError("a task was lost")
    with Job(settings, ScriptedEngine(lost)) as job:
        with pytest.raises(PublisherError, match="a task was lost"):
            job.run()
        job.finish()
        report = job.run()
        assert report is not None
        assert report.documents == 1
        add(postgres, (2, "D", "08", 1, "Ann"))
        assert job.backlog().rows == 1


def test_a_table_that_was_made_again_is_refused(postgres: Place, tmp_path: Path) -> None:
    make(postgres)
    add(postgres, (1, "I", "38", 1, "Ann"), (5, "I", "38", 2, "Bob"))
    job = write_job(tmp_path, postgres)
    with Job(load(job), LocalEngine()) as publishing:
        publishing.run()
        postgres.execute("DROP TABLE usr__ct")
        make(postgres)
        add(postgres, (2, "I", "38", 7, "Eve"))  # below the mark of the table before
        with pytest.raises(FatalError, match=r"usr__ct .* its table number is"):
            publishing.backlog()
    publish_refused(job, "its table number is")
    job.write_text(job.read_text().replace('name = "ct"', 'name = "ct2"'))
    publish(job)
    assert operation_texts(tmp_path) == ["add idu=1", "add idu=2", "add idu=7"]


def test_another_database_is_refused_by_the_marks_of_the_first(
    postgres: Place, tmp_path: Path
) -> None:
    make(postgres)
    add(postgres, (1, "I", "38", 1, "Ann"), (5, "I", "38", 2, "Bob"))
    job = write_job(tmp_path, postgres)
    publish(job)
    first = job.read_text()
    with another_database(postgres) as other:
        make(other)
        add(other, (2, "I", "38", 7, "Eve"), (5, "I", "38", 2, "Bob"))
        write_job(tmp_path, other)
        publish_refused(job, "its database number is")
        findings = {finding.what: finding for finding in check(load(job))}
        assert "its database number is" in findings["source ct"].detail
        assert not findings["source ct"].ok
    job.write_text(first)
    assert all(finding.ok for finding in check(load(job)))
    add(postgres, (6, "D", "08", 1, "Ann"))
    publish(job)
    assert operation_texts(tmp_path) == ["add idu=1", "add idu=2", "delete idu=1"]


def test_a_restored_dump_goes_on_once_it_is_accepted(
    postgres: Place, tmp_path: Path, local_engine: EngineSwitch
) -> None:
    """Changes published before the dump are not published again; the message names the way."""
    make(postgres)
    add(postgres, (1, "I", "38", 1, "Ann"), (5, "I", "38", 2, "Bob"))
    job = write_job(tmp_path, postgres)
    publish(job)
    with another_database(postgres) as restored:
        make(restored)
        add(restored, (1, "I", "38", 1, "Ann"), (5, "I", "38", 2, "Bob"), (6, "D", "08", 1, "Ann"))
        write_job(tmp_path, restored)
        publish_refused(job, "run xds-publisher publish --accept-database once")
        result = CliRunner().invoke(
            cli, ["publish", "-c", str(job), "--follow", "--accept-database"]
        )
        assert (result.exit_code, "--accept-database" in result.stderr) == (2, True)
        for more, state in (["--dry-run"], "planned"), ([], "published"):
            code, report, message = run("publish", job, "--accept-database", *more)
            assert (code, report["state"], report["documents"]) == (0, state, 1), message
        publish(job)
    assert operation_texts(tmp_path) == ["add idu=1", "add idu=2", "delete idu=1"]


def publish(job: Path) -> None:
    with Job(load(job), LocalEngine()) as publishing:
        publishing.run()


def publish_refused(job: Path, why: str) -> str:
    """The message of a publication that ends with the name of the source, what differs and the way
    out."""
    with (
        Job(load(job), LocalEngine()) as publishing,
        pytest.raises(FatalError) as caught,
    ):
        publishing.run()
    assert caught.value.message.startswith("source ct: table usr__ct of ")
    assert why in caught.value.message
    assert "give the source another name" in caught.value.message
    return caught.value.message


@contextmanager
def another_database(postgres: Place) -> Iterator[Place]:
    """A second database of the same server."""
    url = sa.make_url(postgres.url)
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE DATABASE change_tables_other")
        try:
            other = url.set(database="change_tables_other")
            yield Place("postgresql", other.render_as_string(hide_password=False))
        finally:
            connection.exec_driver_sql("DROP DATABASE change_tables_other WITH (FORCE)")
