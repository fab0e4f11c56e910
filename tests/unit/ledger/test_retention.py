"""Retention: which runs go, and what a job remembers without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from publisher.ledger import storage
from publisher.ledger.file_entries import FileEntry
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest, RunEnd, SourceEntry
from publisher.ledger.runs import LedgerRun
from tests.support.event_ids import ORIGIN
from tests.support.finished_runs import finish
from tests.support.ledgers import write_identity


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    write_identity(tmp_path / "job")
    return Ledger(tmp_path / "job", "job")


def plan_run(ledger: Ledger, *files: tuple[str, int]) -> LedgerRun:
    """Plans a run completely."""
    run = ledger.create_run()
    read = tuple(FileEntry(*file) for file in files)
    entry = SourceEntry("hr", "event-log", (), {}, {}, 0, files=read, origin=ORIGIN)
    ledger_run = ledger.run(run)
    ledger_run.commit(Manifest(run, "job", 0, "", {}, (entry,), (), ".", 0))
    return ledger_run


def done(ledger: Ledger, days: float, *files: tuple[str, int]) -> str:
    """A run that ended so many days ago."""
    ledger_run = plan_run(ledger, *files)
    finish(ledger, ledger_run, days=days)
    return ledger_run.root.name


def remaining_runs(ledger: Ledger) -> list[str]:
    rows = storage.query(ledger.root, "SELECT name FROM run ORDER BY number")
    return [name for (name,) in rows]


@pytest.mark.parametrize(
    ("ages", "kept"),
    [
        ([9, 7.5, 6.5], [3]),
        ([9, 6, 8, 5], [2, 4]),
        ([6] * 4, [1, 2, 3, 4]),
        ([30, 20], [2]),  # the last one stays
    ],
)
def test_runs_that_ended_long_ago_go(ledger: Ledger, ages: list[float], kept: list[int]) -> None:
    for age in ages:
        done(ledger, age)
    ledger.expire(days=7)
    assert remaining_runs(ledger) == [ledger.run_id(number) for number in kept]
    assert ledger.oldest_kept() == kept[0]
    assert ledger.has_first_run() == (kept[0] == 1)
    assert ledger.last_number() == len(ages)


def test_runs_that_are_not_done_stay_however_old(ledger: Ledger) -> None:
    unsent = plan_run(ledger)
    begun = ledger.create_run()
    for folder in (unsent.root, ledger.root / begun):
        os.utime(folder, (0, 0))
    old, last = done(ledger, 30), done(ledger, 30)
    ledger.expire(days=0)
    assert old not in remaining_runs(ledger) == [unsent.root.name, last]
    assert [manifest.run for _, manifest in ledger.unsent_runs()] == [unsent.root.name]
    assert ledger.incomplete_runs() == [begun]


def test_runs_without_changes_go_except_the_last(ledger: Ledger) -> None:
    runs = [plan_run(ledger) for _ in range(4)]
    for run, idle in zip(runs, (True, False, True, True), strict=True):
        manifest = run.manifest()
        assert manifest is not None
        ledger.finish(run, manifest, RunEnd(idle=idle), greatest={}, leftovers={})
    assert ledger.idle_runs() == ["job-000001", "job-000003"]
    ledger.remove(ledger.idle_runs())
    assert remaining_runs(ledger) == ["job-000002", "job-000004"]


def test_marks_of_files_outlive_their_runs(ledger: Ledger) -> None:
    done(ledger, 30, ("/in/a.csv", 10))
    done(ledger, 20, ("/in/b.csv", 20))
    plan_run(ledger, ("/in/c.csv", 30))
    every = {
        ("hr", path): FileEntry(path, size)
        for path, size in zip((f"/in/{name}.csv" for name in "abc"), (10, 20, 30), strict=True)
    }
    for days in (40, 25, 7, 0):
        assert ledger.published_files().entries == every
        ledger.expire(days=days)
    assert ledger.published_files().entries == every
    assert remaining_runs(ledger) == ["job-000003"]


class KilledRetention(BaseException):
    """The end of the process."""


def test_a_start_takes_away_what_a_crash_in_the_middle_left(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a large run goes after its row."""
    monkeypatch.setattr("publisher.ledger.runs.RECORDS_OF_SMALL_RUN", -1)
    runs = [done(ledger, 30, (f"/in/{number}.csv", number)) for number in range(4)]
    marks = ledger.published_files().entries

    def kill(*_: object, **__: object) -> None:
        raise KilledRetention

    with monkeypatch.context() as patched:
        patched.setattr("publisher.ledger.job.shutil.rmtree", kill)
        with pytest.raises(KilledRetention):
            ledger.expire(days=7)
    assert ledger.unsent_runs() == []
    assert ledger.discard_incomplete() == runs[:3]
    assert [path.name for path in ledger.root.glob("job-*")] == [runs[3]]
    assert ledger.published_files().entries == marks
    assert ledger.create_run() == "job-000005"
