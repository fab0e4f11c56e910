"""Finished small runs move into the files of their hour: nothing is lost or changed, whenever it ends."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.acknowledge.retry import RecordedRun, RetrySelection, select_failed_records
from publisher.acknowledge.status_letters import RefusedDocuments, refused_documents
from publisher.config.job_file import defaults
from publisher.dispatch.refusals import DispatchRecord, Refusal, read_records, refusals_in
from publisher.errors import FatalError, ReplacedError, UsageError
from publisher.ledger import runs as ledger_runs
from publisher.ledger import storage
from publisher.ledger.hours import Closing, hours_of
from publisher.ledger.job import Ledger
from publisher.ledger.read import Wanted, find_run, read_runs
from publisher.ledger.runs import StoredRun
from publisher.reports.explain import RecordStory, explain
from publisher.reports.rejects import read_rejects
from publisher.runs.rejects import RejectedRecord
from publisher.runs.replay import dispatch
from tests.support.finished_runs import (
    close_hours,
    contents_of,
    contents_of_all,
    copy_runs,
    finish,
    finish_run,
    finish_runs,
    make_ledgers,
    plan_run,
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return make_ledgers(tmp_path)


def closing(ledger: Ledger, fewest: int = 1, seconds: float = -1) -> Closing:
    return Closing(ledger.root, lambda: None, seconds=seconds, fewest=fewest)


def runs_in_ledger(ledger: Ledger) -> list[str]:
    rows = storage.query(ledger.root, "SELECT name FROM run ORDER BY number")
    return [name for (name,) in rows]


def folders(ledger: Ledger) -> list[str]:
    return sorted(path.name for path in (ledger.root / "hours").glob("*"))


def test_a_run_in_an_hour_has_all_its_content(ledger: Ledger) -> None:
    runs = finish_runs(ledger, 5)
    before = contents_of_all(ledger, runs)
    for kind in ("of 1", "records", "documents", "lookups", "texts"):
        assert any(
            content for of in before.values() for name, content in of.items() if kind in name
        ), kind
    close_hours(ledger, fewest=4)
    assert runs_in_ledger(ledger) == runs[-1:]
    assert folders(ledger) == ["000001-000004"]
    assert contents_of_all(ledger, runs) == before
    for path in (ledger.root / "hours").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_what_reports_say_stays_the_same(ledger: Ledger) -> None:
    runs = finish_runs(ledger, 4)
    ids = [(run, str(n)) for at, run in enumerate(runs) for n in range(1 + 3 * at, 4 + 3 * at)]

    def said() -> tuple[list[RecordStory], list[RejectedRecord]]:
        stories = [story for run, n in ids for story in explain(ledger.root / run, n)]
        rejects = read_rejects([ledger.root])
        return (
            [replace(story, target="", ledger=None) for story in stories],
            sorted(rejects, key=lambda record: (record.run, record.position)),
        )

    before = said()
    assert {story.outcome for story in before[0]} == {"published", "rejected", "ignored"}
    assert {record.reason for record in before[1]} == {"event-type", "too-large"}
    close_hours(ledger, fewest=3)
    assert said() == before


def test_all_runs_of_a_job_are_searched(ledger: Ledger) -> None:
    runs = finish_runs(ledger, 4)
    close_hours(ledger)
    again = finish_run(ledger, [2, 30])
    for what in ("2", "log:2", "idu=2"):
        stories = explain(ledger.root, what)
        assert [story.run for story in stories if story.position == "2"] == [runs[0], again]
    assert [story.run for story in explain(ledger.root, "8")] == [runs[2]]
    assert {story.run for story in explain(ledger.root, "idu=3,table=usr")} > {runs[0]}
    with pytest.raises(
        UsageError, match=r"job job has no record '999': give a position as a record_id"
    ):
        explain(ledger.root, "999")


def test_records_are_found_while_runs_move(ledger: Ledger) -> None:
    (run,) = finish_runs(ledger, 1)
    copy_runs(ledger, run, 40)
    counts = []
    thread = threading.Thread(target=close_hours, args=(ledger,), kwargs={"fewest": 2})
    thread.start()
    while thread.is_alive():
        counts.append(len(explain(ledger.root, "2")))
        assert explain(ledger.root / "job-000020", "2")
    thread.join()
    assert counts == [41] * len(counts)
    assert counts
    assert len(hours_of(ledger.root)) == 20


def test_retry_finds_failed_records_in_hours(ledger: Ledger) -> None:
    finish_run(ledger, [1, 2], refused=False)
    finish_run(ledger, [3, 5, 10], refused=False)
    finish_run(ledger, [8, 9], refused=True)
    finish_run(ledger, [15], refused=False)

    def failed_records() -> tuple[list[int], frozenset[str]]:
        runs = read_runs(ledger, Wanted(failed=True))
        found = select_failed_records(
            (RecordedRun(run.with_rows(), run.manifest, 0, refusals_of(run)) for run in runs),
            RetrySelection(),
        )
        return found.ids.tolist(), found.reasons

    before = failed_records()
    assert before == ([5, 8, 10, 15], frozenset({"event-type", "too-large"}))
    close_hours(ledger, fewest=3)
    assert failed_records() == before


def refusals_of(run: StoredRun) -> RefusedDocuments:
    return refused_documents(refusals_in(run.texts))


def test_documents_of_an_hour_can_be_sent_again(ledger: Ledger, tmp_path: Path) -> None:
    run = finish_runs(ledger, 3)[1]  # has a rejected record
    dispatch(ledger.root / run, str(tmp_path / "before"), defaults())
    close_hours(ledger)
    assert dispatch(ledger.root / run, str(tmp_path / "after"), defaults()).documents
    again = dispatch(ledger.root / run, str(tmp_path / "after"), defaults())
    assert again.state == "already published"
    for name in ("part-00000.xds", "part-00001.xds", "rejects.jsonl"):
        content = (tmp_path / "after" / name).read_bytes()
        assert content == (tmp_path / "before" / name).read_bytes()
    assert explain(tmp_path / "after", "4")[0].position == "4"


def test_only_finished_runs_before_the_newest_move(ledger: Ledger) -> None:
    first = finish_run(ledger, [1])
    unsent, _ = plan_run(ledger, [2])
    finish_run(ledger, [3])
    finish_run(ledger, [4])
    close_hours(ledger)
    assert folders(ledger) == ["000001-000001"]
    assert [manifest.run for _, manifest in ledger.unsent_runs()] == [unsent.root.name]
    finish(ledger, unsent)
    close_hours(ledger, fewest=2)
    assert folders(ledger) == ["000001-000001", "000002-000003"]
    assert runs_in_ledger(ledger) == ["job-000004"]
    assert ledger.create_run() == "job-000005"
    assert contents_of(ledger, first)["end"]


@pytest.mark.parametrize(
    ("days", "fewest", "hours"),
    [
        ([0, 0, 0, 0], 4, []),
        ([0, 0, 0, 0], 3, []),  # their hour is not over
        ([0.03, 0, 0, 0], 4, []),
        ([0.03, 0, 0, 0], 1, ["000001-000001"]),
        ([0.03, 0, 0, 0], 3, ["000001-000003"]),  # waits for nothing
        ([0.5, 0.49, 0.2, 0.1, 0], 1, ["000001-000002", "000003-000003", "000004-000004"]),
    ],
)
def test_an_hour_closes_once_it_is_over_and_has_enough_runs(
    ledger: Ledger, days: list[float], fewest: int, hours: list[str]
) -> None:
    for number, each in enumerate(days):
        finish_run(ledger, [number + 1], days=each)
    close_hours(ledger, fewest=fewest, seconds=1_800)
    assert folders(ledger) == hours


def test_a_large_run_stays_in_its_folder(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ledger_runs, "RECORDS_OF_SMALL_RUN", 4)
        small, large = finish_run(ledger, [1, 2]), finish_run(ledger, range(3, 9))
        runs = [small, large, *finish_runs(ledger, 2)]
        before = contents_of_all(ledger, runs)
    close_hours(ledger, fewest=2)
    assert folders(ledger) == ["000001-000003"]
    assert runs_in_ledger(ledger) == [large, runs[-1]]
    assert (ledger.root / large / "lane-00000.records.parquet").exists()
    assert not (ledger.root / small).exists()
    assert contents_of_all(ledger, runs) == before
    found = [run.place.name for run in read_runs(ledger)]
    assert found == runs
    assert [story.run for story in explain(ledger.root, "4")] == [large]


def test_hours_whose_runs_all_ended_long_ago_expire(ledger: Ledger) -> None:
    old, young = finish_runs(ledger, 2, days=9), finish_runs(ledger, 2, days=6)
    last = finish_run(ledger, [50], days=9)
    close_hours(ledger, fewest=1, seconds=3_600)
    assert folders(ledger) == ["000001-000002", "000003-000004"]
    closing(ledger).expire(days=7)
    assert folders(ledger) == ["000003-000004"]
    for run in old:
        with pytest.raises(UsageError, match="has no ledger"):
            explain(ledger.root / run, "1")
    assert contents_of_all(ledger, [*young, last])
    closing(ledger).expire(days=0)
    assert folders(ledger) == []
    assert storage.query(ledger.root, "SELECT count(*) FROM file") == [(0,)]


def test_an_older_instance_moves_nothing(ledger: Ledger) -> None:
    runs = finish_runs(ledger, 3)

    def replaced() -> None:
        raise ReplacedError("a newer instance works")

    with pytest.raises(ReplacedError):
        Closing(ledger.root, replaced, seconds=-1, fewest=1).step()
    assert runs_in_ledger(ledger) == runs
    assert hours_of(ledger.root) == []


def test_a_run_in_an_hour_still_proves_progress(ledger: Ledger) -> None:
    runs = finish_runs(ledger, 3)
    plan = ledger.plan_of(1)
    assert plan is not None
    close_hours(ledger, fewest=2)
    identity = ledger.open_identity()
    assert ledger.find_problem(identity, runs[0], plan) is None
    problem = ledger.find_problem(identity, runs[0], "other")
    assert problem is not None
    assert "has other documents" in problem


def overwrite(path: Path) -> None:
    content = path.read_bytes()
    quarter = len(content) // 4
    path.write_bytes(content[:quarter] + bytes(2 * quarter) + content[3 * quarter :])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("damage", [overwrite, cut, Path.unlink], ids=lambda each: each.__name__)
@pytest.mark.parametrize("table", ["runs", "records", "documents", "lookups"])
def test_a_damaged_file_of_an_hour_is_named(
    ledger: Ledger, damage: Callable[[Path], None], table: str
) -> None:
    runs = finish_runs(ledger, 4)
    (hour, *_) = close_hours(ledger, fewest=3)
    damage(hour.folder / f"{table}.parquet")
    with pytest.raises(FatalError, match=rf"(?s){table}\.parquet of the ledger cannot be read \("):
        contents_of(ledger, runs[0])


class KilledClosing(BaseException):
    """The end of the process."""


class DiesAfter:
    """Ends the process at a pause, or a check of the lease."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left < 0:
            raise KilledClosing


@pytest.mark.parametrize("work", ["close", "expire"])
def test_a_kill_between_any_two_steps_loses_and_doubles_nothing(
    tmp_path: Path, ledger: Ledger, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills the work before each transaction, check and pause; the next start goes on."""
    monkeypatch.setattr("publisher.ledger.hours._SLICE", 2)
    runs = finish_runs(ledger, 6, days=9)
    if work == "expire":
        close_hours(ledger, fewest=3)
    before = contents_of_all(ledger, runs)
    storage.close(ledger.root)
    backup = shutil.copytree(ledger.root, tmp_path / "backup")
    begin = storage.transaction
    steps = 0
    while True:
        storage.close(ledger.root)
        shutil.rmtree(ledger.root)
        shutil.copytree(backup, ledger.root)
        die = DiesAfter(steps)
        try:
            with monkeypatch.context() as patched:
                patched.setattr("publisher.ledger.hours.pause", die)
                patched.setattr(storage, "transaction", lambda root, die=die: die() or begin(root))
                each = Closing(ledger.root, die, seconds=-1, fewest=3)
                each.expire(days=7) if work == "expire" else each.step()
            break
        except KilledClosing:
            steps += 1
        assert ledger.last_number() == 6
        if work == "close":
            assert contents_of_all(ledger, runs) == before
            assert [run.place.name for run in read_runs(ledger)] == runs
            close_hours(ledger, fewest=3)
            assert contents_of_all(ledger, runs) == before
            assert folders(ledger) == ["000001-000003"]
            assert runs_in_ledger(ledger) == runs[3:]
        else:
            closing(ledger).remove_remains()
            assert set(folders(ledger)) <= {"000001-000003"}
            closing(ledger).expire(days=7)
            assert folders(ledger) == []
            assert [run.place.name for run in read_runs(ledger)] == runs[3:]
    assert steps >= (6 if work == "close" else 2)


def test_a_file_of_a_killed_step_makes_way(ledger: Ledger) -> None:
    finish_runs(ledger, 3)
    folder = ledger.root / "hours" / "000001-000002"
    folder.mkdir(parents=True)
    (folder / "runs.parquet").write_text("half")
    before = contents_of(ledger, "job-000001")
    close_hours(ledger, fewest=2)
    assert contents_of(ledger, "job-000001") == before


def test_refusals_of_a_run_in_an_hour_are_kept_with_it(ledger: Ledger) -> None:
    runs = finish_runs(ledger, 3, days=9)
    close_hours(ledger)
    run = find_run(ledger.root / runs[0])
    refusal = Refusal(0, 0, "log", "1", "1", "too-large", "longer than 1 byte")
    record = DispatchRecord(runs[0], run.manifest.plan, "kafka://b", ("xds",), 9, 9, (refusal,))
    record.write(run.handle, "kafka://b")
    again = find_run(ledger.root / runs[0])
    assert [each.target for each in read_records(again.texts)] == ["kafka://", "kafka://b"]
    assert [story.sent_to for story in explain(again.place, "1")] == [("kafka://", "kafka://b")]
    closing(ledger).expire(days=7)
    assert storage.query(ledger.root, "SELECT DISTINCT run FROM run_text") == [(3,)]
