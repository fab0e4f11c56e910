"""State of sources from run to run: committed with the run or absent; outside retention."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.errors import FatalError
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.ledger.source_state import folder_of
from tests.support.finished_runs import finish
from tests.support.ledgers import write_identity


class StateCrash(BaseException):
    """The process is gone."""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    write_identity(tmp_path / "job")
    return Ledger(tmp_path / "job", "job")


def begin_run(ledger: Ledger, **states: str | None) -> tuple[LedgerRun, Manifest]:
    """A run that has planned, and wrote these texts as states; ``None``: an empty one."""
    run = ledger.create_run()
    ledger_run = ledger.run(run)
    ledger_run.begin(ledger_run.root)
    for source, text in states.items():
        folder = ledger_run.state_folder(source)
        folder.mkdir(parents=True)
        if text is not None:
            (folder / "deep").mkdir()
            (folder / "deep" / "text").write_text(text)
    return ledger_run, Manifest(run, "job", 0, "", {}, (), (), ".", 0, states=tuple(states))


def done(ledger: Ledger, days: float = 0, **states: str | None) -> str:
    ledger_run, manifest = begin_run(ledger, **states)
    ledger_run.commit(manifest)
    finish(ledger, ledger_run, days=days)
    return manifest.run


def state_text(ledger: Ledger, source: str) -> str | None:
    """The text of a source's state, an empty one as no text."""
    state = ledger.state_of(source)
    if state is None:
        return None
    found = state / "deep" / "text"
    return found.read_text() if found.exists() else ""


def folders(ledger: Ledger) -> list[str]:
    root = ledger.root / "state"
    return sorted(str(path.relative_to(root)) for path in root.glob("*/*"))


def test_a_job_that_never_ran_keeps_nothing(tmp_path: Path) -> None:
    assert Ledger(tmp_path / "none", "job").state_of("a") is None


def test_the_newest_state_of_each_source_is_the_one(ledger: Ledger) -> None:
    done(ledger, a="1", b="1")
    done(ledger, a="2")
    last = done(ledger)
    assert [state_text(ledger, source) for source in "abc"] == ["2", "1", None]
    assert set(ledger.states_of(["a", "b", "c"])) == {"a", "b"}
    assert [state.name for state in ledger.earlier_states(last, "a")] == ["000002", "000001"]
    assert ledger.state_before("job-000002", "a") == ledger.root / "state" / "a" / "000001"
    assert ledger.state_before("job-000001", "a") is None


def test_an_empty_state_is_one(ledger: Ledger) -> None:
    done(ledger, a="1")
    done(ledger, a=None)
    assert state_text(ledger, "a") == ""


def test_a_state_is_private(ledger: Ledger) -> None:
    done(ledger, a="1")
    state = ledger.state_of("a")
    assert state is not None
    modes = {path.name: path.stat().st_mode & 0o777 for path in (state, *state.rglob("*"))}
    assert modes == {"000001": 0o700, "deep": 0o700, "text": 0o600}


def test_a_manifest_is_read_back_with_its_states(ledger: Ledger) -> None:
    ledger_run, manifest = begin_run(ledger, a="1", b=None)
    assert ledger_run.state("a") is None
    ledger_run.commit(manifest)
    assert ledger_run.manifest() == manifest
    assert ledger_run.state("a") == ledger_run.state_folder("a")
    assert ledger_run.state("c") is None


def test_a_run_that_is_thrown_away_leaves_no_trace(ledger: Ledger) -> None:
    done(ledger, a="1")
    ledger_run, manifest = begin_run(ledger, a="2", b="2")
    assert (state_text(ledger, "a"), state_text(ledger, "b")) == ("1", None)
    assert ledger.discard_incomplete() == [manifest.run]
    assert (state_text(ledger, "a"), state_text(ledger, "b")) == ("1", None)
    assert not ledger_run.root.exists()
    assert folders(ledger) == ["a/000001"]


def test_what_a_run_left_that_is_begun_again_is_gone(ledger: Ledger) -> None:
    ledger_run, manifest = begin_run(ledger, a="1")
    shutil.rmtree(ledger_run.root)
    again = ledger.run(ledger.create_run())
    assert again.root.name == manifest.run
    again.begin(again.root)
    assert folders(ledger) == []


@pytest.mark.parametrize("step", ["secure", "_insert"])
def test_a_crash_before_the_commit_leaves_the_old_state(
    ledger: Ledger, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(ledger, a="old", b="old")
    ledger_run, manifest = begin_run(ledger, a="new", b="new")

    def crash(*_: object) -> None:
        raise StateCrash

    with monkeypatch.context() as patched:
        if step == "secure":
            patched.setattr("publisher.ledger.runs.secure", crash)
        else:
            patched.setattr(LedgerRun, "_insert", crash)
        with pytest.raises(StateCrash):
            ledger_run.commit(manifest)
    assert {state_text(ledger, "a"), state_text(ledger, "b")} == {"old"}
    ledger_run.commit(manifest)
    assert {state_text(ledger, "a"), state_text(ledger, "b")} == {"new"}


def test_the_newest_state_outlives_its_run(ledger: Ledger) -> None:
    done(ledger, 30, a="1", b="1")
    done(ledger, 20, a="2")
    done(ledger, 10)
    done(ledger)
    ledger.expire(days=7)
    assert ledger.oldest_kept() == 4
    assert (state_text(ledger, "a"), state_text(ledger, "b")) == ("2", "1")
    assert folders(ledger) == ["a/000002", "b/000001"]
    done(ledger, b="3")
    assert (state_text(ledger, "a"), state_text(ledger, "b")) == ("2", "3")
    ledger.check()


def test_states_that_kept_runs_show_stay(ledger: Ledger) -> None:
    done(ledger, 30, a="1")
    done(ledger, 1, a="2")
    done(ledger, a="3")
    ledger.expire(days=7)
    assert folders(ledger) == ["a/000002", "a/000003"]
    ledger.forget_states("a", "job-000003")
    assert folders(ledger) == ["a/000003"]
    assert state_text(ledger, "a") == "3"
    ledger.check()


def test_a_crash_while_states_go_loses_none(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(ledger, 30, a="1")
    done(ledger, 30, a="2")
    done(ledger)

    def crash(*_: object, **__: object) -> None:
        raise StateCrash

    with monkeypatch.context() as patched:
        patched.setattr("publisher.ledger.job.shutil.rmtree", crash)
        for _ in "runs", "states":
            with pytest.raises(StateCrash):
                ledger.expire(days=7)
            assert state_text(ledger, "a") == "2"
    ledger.discard_incomplete()
    ledger.expire(days=7)
    assert state_text(ledger, "a") == "2"
    assert folders(ledger) == ["a/000002"]


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, lambda path: path.write_text("3"), lambda path: path.write_text("22")],
    ids=["removed", "changed", "longer"],
)
def test_a_damaged_state_is_named(ledger: Ledger, damage: Callable[[Path], None]) -> None:
    done(ledger, a="1")
    done(ledger, a="2")
    state = ledger.state_of("a")
    assert state is not None
    ledger.check()
    damage(state.with_name("000001") / "deep" / "text")  # nobody needs it
    ledger.check()
    damage(state / "deep" / "text")
    with pytest.raises(
        FatalError, match=r"text is missing or was changed: what source a remembers"
    ):
        ledger.check()


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
