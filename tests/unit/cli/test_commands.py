"""Commands that plan and send changes, from their words to their exit codes."""

import csv
import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli

pytestmark = pytest.mark.usefixtures("local_engine")

LOG = """\
record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,new_value
1,idu=1,N,1,2026-01-01 00:00:00,anna,usr,fname,,Jack
2,idu=2,S,1,2026-01-01 00:00:00,anna,usr,fname,,Jill
3,idu=3,N,9,2026-01-01 00:00:00,anna,usr,fname,,Joe
"""
JOB = """\
[source]
name = "hr"
schema = "indirect"
snapshots = ["log.csv"]
[dispatch]
path = "out"
[run]
lanes = 2
"""


def program(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def publish_live(directory: Path) -> None:
    """Publishes a live log; its third row is rejected and gets status E."""
    with sqlite3.connect("hr.db") as database:
        names = LOG.splitlines()[0]
        database.execute(f"CREATE TABLE log ({names.replace('record_id', 'record_id INTEGER')})")
        for row in csv.reader(LOG.splitlines()[1:]):
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT INTO log VALUES ({marks})", [value or None for value in row])
    database.close()
    live = JOB.replace('snapshots = ["log.csv"]', 'table = "log"\nurl = "sqlite:///hr.db"')
    (directory / "job.toml").write_text(live)
    assert program("publish", "-c", "job.toml").exit_code == 4


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(LOG, "utf-8")
    Path("job.toml").write_text(JOB, "utf-8")
    return tmp_path


@pytest.fixture
def published(directory: Path) -> Result:
    return program("publish", "-c", "job.toml", "--json")


@pytest.fixture
def replayed(directory: Path) -> Result:
    return program("replay", "log.csv", "--to", "replayed", "-c", "job.toml")


def test_rejects_beyond_the_budget_are_code_4_of_a_run_that_is_complete(
    directory: Path, published: Result
) -> None:
    assert published.exit_code == 4, published.stderr
    report = json.loads(published.stdout)
    assert published.stderr == (
        f"error: records rejected: 1, allowed: 0; see {report['target']}/rejects.jsonl, correct the "
        "source, or raise [job] reject_budget\n"
    )
    assert report["read"] == 3 == sum(report["outcomes"].values())
    assert report["outcomes"]["rejected"] == 1
    target = Path(report["target"])
    assert target.parent == directory / "out" / "runs"
    assert json.loads((target / "rejects.jsonl").read_text("utf-8"))["reason"] == "event-type"


def test_a_replay_allows_rejects_and_is_quiet(replayed: Result) -> None:
    assert replayed.exit_code == 0
    assert replayed.stderr == ""
    assert (
        "3 read = 1 published + 0 superseded + 1 ignored + 0 held + 1 rejected" in replayed.stdout
    )
    assert f"  rejects    {Path('replayed').absolute()}/rejects.jsonl\n" in replayed.stdout


def test_the_same_replay_again_sends_nothing(directory: Path, replayed: Result) -> None:
    parts = {path: path.read_bytes() for path in (directory / "replayed").glob("part-*.xds")}
    again = program("replay", "log.csv", "--to", "replayed", "-c", "job.toml")
    assert again.exit_code == replayed.exit_code == 0
    assert ": already published" in again.stdout
    assert {path: path.read_bytes() for path in parts} == parts


def test_other_settings_need_another_directory(directory: Path, replayed: Result) -> None:
    assert replayed.exit_code == 0
    other = program("replay", "log.csv", "--to", "replayed", "--schema", "direct")
    assert other.exit_code == 2
    assert "name a new directory" in other.stderr


def test_what_was_planned_can_be_sent_on_and_explained(directory: Path, published: Result) -> None:
    ledger_run = json.loads(published.stdout)["ledger"]
    sent = program("dispatch", ledger_run, "--to", "further", "--json")
    assert sent.exit_code == 0, sent.stderr
    first = Path(json.loads(published.stdout)["target"])
    for path in first.glob("part-*.xds"):
        assert (directory / "further" / path.name).read_bytes() == path.read_bytes()
    for what, line in [
        ("1", "outcome     published, status S"),
        ("idu=1,table=usr,schema=indirect", "outcome     published, status S"),
        ("idu=1,table=usr", "outcome     published, status S"),
        ("hr:3", "outcome     rejected (event-type), status E"),
        ("2", "outcome     ignored (status), status S"),
    ]:
        shown = program("explain", ledger_run, what)
        assert shown.exit_code == 0, shown.stderr
        assert line in shown.stdout.splitlines()
    stories = json.loads(program("explain", ledger_run, "1", "--json").stdout)
    assert stories[0]["object"] == {"schema": "indirect", "table": "usr", "key": "idu=1"}


def test_retry_reports_rows_as_json(directory: Path) -> None:
    publish_live(directory)
    retried = program("retry", "-c", "job.toml", "--json")
    assert retried.exit_code == 0, retried.stderr
    assert json.loads(retried.stdout) == [{"source": "hr", "table": "log", "rows": 1}]


def test_files_are_read_with_the_job_of_a_table(directory: Path) -> None:
    publish_live(directory)
    Path("hr.db").unlink()
    inspected = program("inspect", "log.csv", "-c", "job.toml")
    assert inspected.exit_code == 0, inspected.stderr
    assert [json.loads(line)["position"] for line in inspected.stdout.splitlines()] == [
        "1",
        "2",
        "3",
    ]
    assert program("replay", "log.csv", "-c", "job.toml", "--to", "again").exit_code == 0
