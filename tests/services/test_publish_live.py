"""Publishing jobs: live event logs in real databases, rows read back from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.dispatch.files import FileDispatcher
from publisher.ledger.job import Ledger
from publisher.ledger.runs import LedgerRun
from publisher.reports.explain import explain
from tests.services.databases import Place, sqlite_place
from tests.services.live_tables import ROWS, make_tables
from tests.support import whole_log as log
from tests.support.event_log_files import csv_text
from tests.support.local_engine import EngineSwitch

pytestmark = pytest.mark.usefixtures("local_engine")

NEW = [row for row in ROWS if row["status"] == "N"]

SOURCE = """
table = "log"

[dispatch]
path = "out"
"""


@dataclass(frozen=True)
class LiveJob:
    """A job file in a directory of its own, and what its command prints."""

    base: Path
    name: str = "hr"

    def write(self, source: str, rest: str) -> LiveJob:
        log.job(self.base / f"{self.name}.toml", source + rest)
        return self

    def invoke(self, command: str, *more: object) -> tuple[int, dict, str]:
        words = [command, *more, "-c", self.base / f"{self.name}.toml", "--json"]
        result = CliRunner().invoke(cli, [str(word) for word in words])
        assert not isinstance(result.exception, AssertionError), result.exception
        return result.exit_code, json.loads(result.stdout or "{}"), result.stderr

    def directory(self, number: int) -> Path:
        return self.base / "out" / "runs" / f"{self.name}-{number:06d}"

    def ledger_run(self, number: int) -> Path:
        return self.base / ".xds-publisher" / self.name / f"{self.name}-{number:06d}"


def statuses(place: Place) -> list[tuple[object, ...]]:
    return place.query("SELECT record_id, status FROM log ORDER BY 1, 2")


def live_job(place: Place, base: Path) -> LiveJob:
    make_tables(place)
    return LiveJob(base).write(SOURCE, f'[database]\nurl = "{place.url}"\n')


def test_live_log_is_published_as_its_snapshot_is(
    place: Place, tmp_path: Path, spark: object, local_engine: EngineSwitch
) -> None:
    """In Spark, whose tasks read the table."""
    local_engine.use_spark()
    job = live_job(place, tmp_path)
    code, report, err = job.invoke("publish")
    assert code == 4, err  # all is done, but a budget of 0 does not allow rejects
    assert "allowed: 0" in err
    assert report["target"] == str(job.directory(1))
    expected = log.fates(database=True)
    expected["ignored status"] -= 1  # the query does not read it
    ledger_run = job.ledger_run(1)
    assert log.count_fates(ledger_run) == +expected
    assert report["read"] == len(NEW)
    letters = Counter(status for _, status in statuses(place))
    changed = letters - Counter(row["status"] for row in ROWS)
    assert report["statuses"] == dict(changed)
    # a record_id that appears twice: both rows get the letter of the rejected one
    assert changed["E"] == report["outcomes"]["rejected"] + 1
    assert letters["N"] == report["outcomes"]["held"] == 0

    (tmp_path / "log.csv").write_text(csv_text(ROWS))
    code, again, err = job.invoke("replay", tmp_path / "log.csv", "--to", tmp_path / "replayed")
    assert code == 0, err
    assert log.by_object(log.lines(tmp_path / "replayed")) == log.by_object(
        log.lines(job.directory(1))
    )
    assert again["reasons"]["rejected"] == report["reasons"]["rejected"]

    code, nothing, err = job.invoke("publish")
    assert (code, nothing["read"], err) == (0, 0, "")


def test_statuses_can_be_left_as_they_are(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    rest = f'[acknowledge]\nwrite_status = false\n[database]\nurl = "{place.url}"\n'
    job = LiveJob(tmp_path).write(SOURCE, rest)
    before = statuses(place)
    _, _, err = job.invoke("publish")
    assert "statuses are not written back" in err
    assert statuses(place) == before
    job.invoke("publish")
    again, first = (log.published_files(job.directory(number)) for number in (2, 1))
    rejects = again["rejects.jsonl"]
    run = job.directory(2).name.encode()
    assert rejects.count(b'{"id": "' + run + b":") == rejects.count(b"\n") > 0
    again["rejects.jsonl"] = rejects.replace(run, job.directory(1).name.encode())
    assert again == first


def test_rows_are_read_back_and_explained(place: Place, tmp_path: Path) -> None:
    job = live_job(place, tmp_path)
    job.invoke("publish")
    (insert,) = explain(job.ledger_run(1), "5")
    assert insert.document is not None
    assert insert.document.operation == "modify"
    assert ">Zoë</value>" in insert.document.text
    assert '<modify-attr attr-name="lname"><remove-all-values/></modify-attr>' in (
        insert.document.text
    )
    assert [found.row for found in insert.lookups] == [
        {"idu": "2", "fname": "Zoë", "lname": None, "photo": None}
    ]
    assert insert.place == "table log"
    (field,) = explain(job.ledger_run(1), "event-log:7")
    assert field.document is not None
    assert ">&lt;now&gt;</value>" in field.document.text
    assert "Doe" not in field.document.text
    (gone,) = explain(job.ledger_run(1), "25")
    assert (gone.outcome, gone.reason, gone.lookups[0].answer) == ("ignored", "row-gone", "gone")
    (refused,) = explain(job.ledger_run(1), "26")
    assert refused.lookups[0].answer == "refused"
    assert "2 values of idu, which is single-valued" in refused.meaning


def place_of(job: LiveJob) -> Place:
    return sqlite_place(job.base / "log.db")


def two_sources(tmp_path: Path) -> LiveJob:
    tmp_path.mkdir(exist_ok=True)
    place = sqlite_place(tmp_path / "log.db")
    make_tables(place)
    log.write_csv(tmp_path / "log.csv", ROWS)
    source = 'name = "old"\nsnapshots = ["log.csv"]\n[[sources]]\nname = "live"\n'
    return LiveJob(tmp_path, "two").write(source + SOURCE, '[database]\nurl = "sqlite:///log.db"\n')


def test_sources_of_one_job_are_counted_each_by_itself(tmp_path: Path) -> None:
    job = two_sources(tmp_path)
    _, report, _ = job.invoke("publish")
    sources = {source["name"]: source for source in report["sources"]}
    assert sources["old"]["read"] == len(ROWS) + 1
    assert sources["live"]["read"] == len(NEW)
    # the second source has neither the filters nor the polls of the first
    assert sources["live"]["outcomes"]["ignored"] < sources["old"]["outcomes"]["ignored"]
    for source in report["sources"]:
        assert source["read"] == sum(source["outcomes"].values())
    assert report["read"] == len(ROWS) + 1 + len(NEW)
    (live,) = explain(job.ledger_run(1), "live:1")
    assert (live.source, live.place) == ("live", "table log")
    assert [story.source for story in explain(job.ledger_run(1), "1")] == ["old", "live"]
    rejects = (job.directory(1) / "rejects.jsonl").read_text().splitlines()
    assert {json.loads(line)["source"] for line in rejects} == {"old", "live"}


def test_rehearsal_tells_all_and_keeps_nothing(tmp_path: Path) -> None:
    job = two_sources(tmp_path)
    _, report, err = job.invoke("publish", "--dry-run")
    assert report["state"] == "planned"
    assert "not checked" in err
    assert len(report["samples"]) == 3
    assert all(sample.startswith("<nds") for sample in report["samples"])
    assert {path.name for path in tmp_path.iterdir()} == {"two.toml", "log.db", "log.csv"}


class KilledError(BaseException):
    """The end of the program by SIGKILL."""


def kill(*_: object, **__: object) -> None:
    raise KilledError


@pytest.mark.parametrize(
    ("owner", "step", "instead"),
    [
        (FileDispatcher, "_publish", kill),
        (FileDispatcher, "dispatch", kill),
        (Ledger, "finish", kill),
    ],
)
def test_planned_run_that_was_not_sent_is_sent_first(
    owner: object, step: str, instead: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = two_sources(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, instead)
        with pytest.raises(KilledError):
            job.invoke("publish")
    assert (job.directory(1) / "run.json").exists() == (step == "finish")
    _, report, err = job.invoke("publish")
    assert "run two-000001, which an earlier start had planned, was sent first" in err
    assert (report["run"], report["state"], report["read"]) == ("two", "nothing new to read", 0)
    other = two_sources(tmp_path / "undisturbed")
    other.invoke("publish")
    for files in zip(
        *(log.published_files(each.directory(1)).items() for each in (job, other)), strict=True
    ):
        (name, content), (_, expected) = files
        assert content == expected.replace(b"/undisturbed/", b"/"), name
    assert statuses(place_of(job)) == statuses(place_of(other))
    assert not log.left_over(job.base)
    assert "two-000001" not in job.invoke("publish")[2]


def test_run_that_was_not_planned_wholly_is_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = two_sources(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(LedgerRun, "commit", kill)
        with pytest.raises(KilledError):
            job.invoke("publish")
    assert log.left_over(job.directory(1))
    _, report, err = job.invoke("publish")
    assert report["run"] == "two-000002"
    assert "sent first" not in err
    assert not job.directory(1).exists()
    assert not job.ledger_run(1).exists()
