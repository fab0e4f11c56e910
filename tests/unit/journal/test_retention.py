"""The journals of a job: their lanes, and which of them go."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from publisher.config.settings import JournalOptions
from publisher.journal.file_entries import FileEntry
from publisher.journal.job_journals import Journals
from publisher.journal.manifest import MANIFEST, Journal, Manifest, SourceEntry
from tests.support.event_ids import ORIGIN

DAY = 86_400


@pytest.fixture
def journals(tmp_path: Path) -> Journals:
    root = tmp_path / "job"
    root.mkdir()
    return Journals(root, "job")


def plan_run(journals: Journals, *files: tuple[str, int]) -> Journal:
    """Plans a run completely."""
    run = journals.create_run()
    read = tuple(FileEntry(*file) for file in files)
    entry = SourceEntry("hr", "event-log", (), {}, {}, 0, files=read, origin=ORIGIN)
    journal = journals.journal(run)
    journal.commit(Manifest(run, "job", 0, "", {}, (entry,), (), ".", 0))
    return journal


def done(journals: Journals, days: float, *files: tuple[str, int]) -> str:
    """A run that ended so many days ago."""
    journal = plan_run(journals, *files)
    journal.mark_sent()
    moment = time.time() - days * DAY
    os.utime(journal.root / "sent", (moment, moment))
    return journal.root.name


def remaining_runs(journals: Journals) -> list[str]:
    return sorted(path.name for path in journals.root.iterdir() if path.is_dir())


def test_the_greatest_number_of_lanes_is_kept(journals: Journals) -> None:
    assert [journals.raise_lanes(wanted) for wanted in (4, 2, 8, 1)] == [4, 4, 8, 8]
    assert Journals(journals.root, "job").raise_lanes(3) == 8


def test_runs_that_ended_long_ago_go(journals: Journals) -> None:
    old, older_still = done(journals, 9), done(journals, 7.5)
    young = done(journals, 6.5)
    assert journals.expire(days=7, runs=100) == [old, older_still]
    assert remaining_runs(journals) == [young]


def test_the_oldest_beyond_the_greatest_number_go(journals: Journals) -> None:
    runs = [done(journals, 0) for _ in range(5)]
    assert journals.expire(days=7, runs=2) == runs[:3]
    assert remaining_runs(journals) == runs[3:]


def test_what_is_within_both_stays(journals: Journals) -> None:
    runs = [done(journals, 0) for _ in range(3)]
    assert journals.expire(days=7, runs=3) == []
    assert remaining_runs(journals) == runs


def test_without_a_greatest_number_only_age_counts(journals: Journals) -> None:
    old, *young = done(journals, 8), *(done(journals, 6) for _ in range(20))
    assert JournalOptions().retention_runs is None
    assert journals.expire(days=7, runs=JournalOptions().retention_runs) == [old]
    assert remaining_runs(journals) == young


def test_a_run_that_is_not_kept_uses_up_no_number(journals: Journals) -> None:
    kept = done(journals, 0)
    for _ in range(3):
        idle = journals.create_run()
        journals.discard(idle)
        assert idle == "job-000002"
    assert (kept, journals.last_number()) == ("job-000001", 1)
    journals.skip_to(7)
    journals.discard(journals.create_run())
    assert journals.create_run() == "job-000008"


def test_a_number_that_a_newer_instance_has_passed_is_not_returned(journals: Journals) -> None:
    idle = journals.create_run()
    newer = journals.create_run()
    journals.discard(idle)
    assert journals.last_run() == newer


def test_runs_that_are_not_done_stay_however_old(journals: Journals) -> None:
    unsent = plan_run(journals)
    begun = journals.create_run()
    for folder in (unsent.root, journals.root / begun):
        os.utime(folder, (0, 0))
    old = done(journals, 30)
    assert journals.expire(days=0, runs=0) == [old]
    assert remaining_runs(journals) == [unsent.root.name, begun]
    assert [manifest.run for _, manifest in journals.unsent_runs()] == [unsent.root.name]


def test_marks_of_files_outlive_their_runs(journals: Journals) -> None:
    done(journals, 30, ("/in/a.csv", 10))
    done(journals, 20, ("/in/b.csv", 20))
    done(journals, 0, ("/in/c.csv", 30))
    every = {
        ("hr", path): FileEntry(path, size)
        for path, size in zip((f"/in/{name}.csv" for name in "abc"), (10, 20, 30), strict=True)
    }
    assert journals.published_files().entries == every
    journals.expire(days=25, runs=100)
    assert journals.published_files().entries == every
    journals.expire(days=7, runs=0)
    assert journals.published_files().entries == every
    assert remaining_runs(journals) == []


class KilledRetention(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("removed", [False, True])
def test_a_start_takes_away_what_a_crash_in_the_middle_left(
    journals: Journals, monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    runs = [done(journals, 30, (f"/in/{number}.csv", number)) for number in range(3)]
    marks = journals.published_files().entries
    remove = shutil.rmtree

    def kill(path: Path) -> None:
        """Ends before the second run is removed, or when some of its files are gone."""
        if path.name != runs[1]:
            remove(path)
            return
        assert not (path / MANIFEST).exists()
        if removed:
            (path / "sent").unlink()
        raise KilledRetention

    with monkeypatch.context() as patched:
        patched.setattr("publisher.journal.job_journals.shutil.rmtree", kill)
        with pytest.raises(KilledRetention):
            journals.expire(days=7, runs=100)
    assert remaining_runs(journals) == runs[1:]
    assert journals.unsent_runs() == []
    assert journals.discard_incomplete() == [runs[1]]
    assert journals.published_files().entries == marks
    assert journals.expire(days=7, runs=100) == [runs[2]]
    assert remaining_runs(journals) == []
    assert journals.published_files().entries == marks
    assert journals.create_run() == "job-000004"
