"""State of sources from run to run: committed with the run or absent; outside retention."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.journal.job_journals import Journals
from publisher.journal.manifest import Journal, Manifest
from publisher.journal.source_state import StateArchive, folder_of

DAY = 86_400


class StateCrash(BaseException):
    """The process is gone."""


@pytest.fixture
def journals(tmp_path: Path) -> Journals:
    root = tmp_path / "job"
    root.mkdir()
    return Journals(root, "job")


def begin_run(journals: Journals, **states: str | None) -> tuple[Journal, Manifest]:
    """A run that has planned, and wrote these texts as states; ``None``: an empty one."""
    run = journals.create_run()
    journal = journals.journal(run)
    journal.begin(journal.root)
    for source, text in states.items():
        folder = journal.new_state(source)
        folder.mkdir(parents=True)
        if text is not None:
            (folder / "deep").mkdir()
            (folder / "deep" / "text").write_text(text)
    return journal, Manifest(run, "job", 0, "", {}, (), (), ".", 0, states=tuple(states))


def done(journals: Journals, days: float = 0, **states: str | None) -> str:
    journal, manifest = begin_run(journals, **states)
    journal.commit(manifest)
    journal.mark_sent()
    moment = time.time() - days * DAY
    os.utime(journal.root / "sent", (moment, moment))
    return manifest.run


def state_text(journals: Journals, source: str) -> str | None:
    """The text of a source's state, an empty one as no text."""
    state = journals.state_of(source)
    if state is None:
        return None
    found = state / "deep" / "text"
    return found.read_text() if found.exists() else ""


def test_a_job_that_never_ran_keeps_nothing(tmp_path: Path) -> None:
    assert Journals(tmp_path / "none", "job").state_of("a") is None


def test_the_newest_state_of_each_source_is_the_one(journals: Journals) -> None:
    done(journals, a="1", b="1")
    done(journals, a="2")
    done(journals)
    assert (state_text(journals, "a"), state_text(journals, "b"), state_text(journals, "c")) == (
        "2",
        "1",
        None,
    )
    assert set(journals.states_of(["a", "b", "c"])) == {"a", "b"}


def test_an_empty_state_is_one(journals: Journals) -> None:
    done(journals, a="1")
    done(journals, a=None)
    assert state_text(journals, "a") == ""


def test_a_state_is_private(journals: Journals) -> None:
    done(journals, a="1")
    state = journals.state_of("a")
    assert state is not None
    modes = {path.name: path.stat().st_mode & 0o777 for path in (state, *state.rglob("*"))}
    assert modes == {"a": 0o700, "deep": 0o700, "text": 0o600}


def test_a_manifest_is_read_back_with_its_states(journals: Journals) -> None:
    journal, manifest = begin_run(journals, a="1", b=None)
    journal.commit(manifest)
    assert journal.manifest() == manifest


def test_a_run_that_is_thrown_away_leaves_no_trace(journals: Journals) -> None:
    done(journals, a="1")
    journal, manifest = begin_run(journals, a="2", b="2")
    assert (state_text(journals, "a"), state_text(journals, "b")) == ("1", None)
    assert journals.discard_incomplete() == [manifest.run]
    assert (state_text(journals, "a"), state_text(journals, "b")) == ("1", None)
    assert not journal.root.exists()


def test_what_a_run_left_that_is_begun_again_is_gone(journals: Journals) -> None:
    journal, _ = begin_run(journals, a="1")
    journal.begin(journal.root)
    assert not journal.new_state("a").exists()


@pytest.mark.parametrize("last", [1, 2, 3])
@pytest.mark.parametrize("before", [True, False])
def test_a_crash_at_any_rename_leaves_the_old_or_the_new(
    journals: Journals, last: int, before: bool
) -> None:
    done(journals, a="old", b="old")
    journal, manifest = begin_run(journals, a="new", b="new")
    replace, count = Path.replace, 0

    def replace_or_crash(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == last and before:
            raise StateCrash
        moved = replace(self, target)
        if count == last:
            raise StateCrash
        return moved

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Path, "replace", replace_or_crash)
        with pytest.raises(StateCrash):
            journal.commit(manifest)
    expected = "old" if last == 1 and before else "new"
    assert {state_text(journals, "a"), state_text(journals, "b")} == {expected}
    found = journal.manifest()
    if found is not None:
        journal.complete(found)
    assert {state_text(journals, "a"), state_text(journals, "b")} == {expected}


def test_the_newest_state_outlives_its_journal(journals: Journals) -> None:
    old = [done(journals, 30, a="1", b="1"), done(journals, 20, a="2"), done(journals, 10)]
    assert journals.expire(days=7, runs=100) == old
    assert (state_text(journals, "a"), state_text(journals, "b")) == ("2", "1")
    done(journals, 9, b="3")
    assert (state_text(journals, "a"), state_text(journals, "b")) == ("2", "3")
    journals.expire(days=7, runs=100)
    assert (state_text(journals, "a"), state_text(journals, "b")) == ("2", "3")
    kept = [path.name for path in (journals.root / "state").rglob("job-*")]
    assert sorted(kept) == [old[1], "job-000004"]


def test_a_state_that_is_not_the_newest_goes_with_its_journal(journals: Journals) -> None:
    done(journals, 30, a="1")
    done(journals, a="2")
    journals.expire(days=7, runs=100)
    assert state_text(journals, "a") == "2"
    assert not (journals.root / "state").exists()


def test_a_journal_that_stayed_does_not_win_over_a_newer_state_that_was_kept(
    journals: Journals,
) -> None:
    done(journals, 1, a="1")
    done(journals, 30, a="2")  # the clock was set back in between
    journals.expire(days=7, runs=100)
    assert state_text(journals, "a") == "2"


@pytest.mark.parametrize("when", ["copied", "renamed", "forgotten"])
def test_a_crash_while_journals_go_loses_no_state(
    journals: Journals, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(journals, 30, a="0")
    journals.expire(days=7, runs=100)
    run = done(journals, 30, a="1")

    def gone(*_: object, **__: object) -> None:
        raise StateCrash

    with monkeypatch.context() as patched:
        if when == "copied":
            patched.setattr(Path, "replace", gone)
        else:
            patched.setattr(Journal, "forget", gone) if when == "renamed" else patched.setattr(
                shutil, "rmtree", gone
            )
        with pytest.raises(StateCrash):
            journals.expire(days=7, runs=100)
    assert state_text(journals, "a") == "1"
    journals.expire(days=7, runs=100)
    journals.discard_incomplete()
    assert state_text(journals, "a") == "1"
    assert not (journals.root / run).exists()
    assert StateArchive(journals.root).newest("a") == journals.root / "state" / "a" / run


def test_names_of_sources_make_folders() -> None:
    names = ["hr", "a b", "../x", "..", ".", ".new", "a/b", "人事", "x" * 200, "x" * 201, "%2E"]
    folders = [folder_of(name) for name in names]
    assert folders[:4] == ["hr", "a b", "%2E.%2Fx", "%2E."]
    assert len(set(folders)) == len(names)


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_sources_never_share_a_folder(one: str, other: str) -> None:
    assert (folder_of(one) == folder_of(other)) == (one == other)
    assert Path(folder_of(one)).name == folder_of(one)
    assert not folder_of(one).startswith(".")
    assert len(folder_of(one)) <= 100
