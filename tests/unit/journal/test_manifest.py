"""The manifest and the commit: complete or not there, whatever the moment of a crash."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.engine.lane_tasks import plan_lane
from publisher.engine.shuffle_pieces import KEYS, unpack
from publisher.engine.tasks import Work
from publisher.errors import FatalError, UsageError
from publisher.journal.conservation import check_conservation
from publisher.journal.durable import write_durably
from publisher.journal.lock import lock_directory
from publisher.journal.manifest import (
    DOCUMENT_STAGING,
    JOURNAL_FORMAT,
    MANIFEST,
    Journal,
    Manifest,
    SourceEntry,
)
from tests.support.event_ids import ORIGIN
from tests.support.event_log_files import event, write
from tests.support.task_runs import read_all, work_of


class Crash(BaseException):
    """The process is gone."""


class Run:
    """A run of two lanes into a directory whose journal lies inside."""

    def __init__(self, folder: Path, work: Work, attempt: str = "try") -> None:
        self.folder = folder
        self.work = work
        self.attempt = attempt
        self.journal = Journal(folder / "_journal")

    def stage(self) -> Manifest:
        self.journal.begin(self.folder)
        pieces = read_all(self.work)
        results = []
        for lane in range(self.work.lanes):
            rows = [row for row, at in enumerate(pieces["lane"].to_pylist()) if at == lane]
            mine = pieces.take(rows).sort_by([(key, "ascending") for key in KEYS])
            result = plan_lane(
                self.work,
                unpack(mine.to_batches()),
                lane=lane,
                staging=self.journal.staging,
                documents=self.folder / DOCUMENT_STAGING,
                attempt=self.attempt,
                syncs=False,
            )
            results.append(replace(result, seconds=0.0))  # runs are compared as bytes
        return Manifest(
            run="a1",
            job="job",
            lanes=self.work.lanes,
            clock="2024-01-01T00:00:00Z",
            settings={"poll": {"poll_size": 10_000}},
            sources=(
                SourceEntry("log", "event-log", ({"path": "é.csv"},), {}, {}, 0, origin=ORIGIN),
            ),
            results=tuple(results),
            documents="..",
            records_read=check_conservation(results, [[0]]),
        )

    def published_files(self) -> dict[str, bytes]:
        """All files at their places, by name."""
        files = [*self.folder.iterdir(), *self.journal.root.iterdir()]
        return {path.name: path.read_bytes() for path in files if path.is_file()}


@pytest.fixture
def work(tmp_path: Path) -> Work:
    rows = [event(at, table_key=f"idu={at % 7}") for at in range(1, 30)]
    return work_of([write(tmp_path / "log.csv", [*rows, event(30, event_type=9)])], lanes=2)


@pytest.fixture
def run(tmp_path: Path, work: Work) -> Run:
    return Run(tmp_path / "out", work)


def test_a_commit_brings_every_file_to_its_place(run: Run) -> None:
    manifest = run.stage()
    run.journal.commit(manifest)
    run.journal.complete(manifest)
    files = [f"lane-0000{lane}.{name}" for lane in (0, 1) for name in (
        "documents.parquet", "decisions.parquet", "keys"
    )]  # fmt: skip
    files.append("lane-00000.rejects.jsonl")
    assert sorted(run.published_files()) == sorted(
        [*files, MANIFEST, "part-00000.xds", "part-00001.xds"]
    )
    assert not run.journal.staging.exists()
    assert (run.journal.root / MANIFEST).stat().st_mode & 0o777 == 0o600


def test_files_in_their_places_are_those_of_a_staged_run(tmp_path: Path, work: Work) -> None:
    staged, run = Run(tmp_path / "staged", work), Run(tmp_path / "out", work, attempt="")
    manifest = run.stage()
    before = set(run.published_files())
    run.journal.discard(manifest.results, run.folder)
    assert run.published_files() == {}
    run.stage()
    run.journal.commit(manifest)
    run.journal.complete(manifest)
    assert set(run.published_files()) == before | {MANIFEST}
    staged.journal.commit(staged.stage())
    (run.journal.root / MANIFEST).unlink()
    (staged.journal.root / MANIFEST).unlink()  # it names the staging folders
    assert run.published_files() == staged.published_files()


@pytest.mark.parametrize("kind", ["keys", "rejects.jsonl"])
def test_a_staged_file_that_was_lost_is_noticed(run: Run, kind: str) -> None:
    manifest = run.stage()
    (lost,) = run.journal.staging.rglob(f"lane-00000.{kind}")
    lost.unlink()
    with pytest.raises(FatalError, match=f"lane-00000.{kind} of run a1 is missing"):
        run.journal.commit(manifest)


@pytest.mark.parametrize("attempt", ["try", ""], ids=["staged", "in-place"])
def test_all_files_of_a_plan_are_synced_before_the_manifest_appears(
    tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch, attempt: str
) -> None:
    run = Run(tmp_path / "out", work, attempt)
    synced: set[int] = set()
    before_manifest: list[set[int]] = []
    sync, replace = os.fsync, Path.replace

    def note_sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def note_replace(path: Path, target: Path) -> Path:
        if target.name == MANIFEST:
            before_manifest.append(set(synced))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_replace)
    run.journal.commit(run.stage())
    paths = [run.folder, run.journal.root]
    paths += [path for folder in paths for path in folder.iterdir() if path.is_file()]
    assert len(paths) == 12
    assert {path.stat().st_ino for path in paths} <= before_manifest[0]
    assert len(before_manifest) == 1


def test_a_manifest_is_read_as_it_was_written(run: Run) -> None:
    manifest = run.stage()
    run.journal.commit(manifest)
    assert run.journal.manifest() == manifest
    assert run.journal.documents(manifest) == run.folder


def test_without_a_commit_there_is_no_manifest(run: Run) -> None:
    run.stage()
    assert run.journal.manifest() is None


def crash_at(monkeypatch: pytest.MonkeyPatch, last: int, *, before: bool) -> None:
    """The process ends at the rename with this number, before or after it is done."""
    replace, done = Path.replace, 0

    def replace_or_crash(self: Path, target: Path) -> Path:
        nonlocal done
        done += 1
        if done == last and before:
            raise Crash
        moved = replace(self, target)
        if done == last:
            raise Crash
        return moved

    monkeypatch.setattr(Path, "replace", replace_or_crash)


RENAMES = 1 + 2 * 4 + 1
"""Of the manifest, and of five files of the journal and a part file for each lane."""


@pytest.mark.parametrize("before", [True, False])
def test_a_crash_at_any_rename_leaves_nothing_or_all_of_it(
    before: bool, work: Work, tmp_path: Path
) -> None:
    whole = Run(tmp_path / "whole", work)
    whole.journal.commit(whole.stage())
    for last in range(1, RENAMES + 2):
        run = Run(tmp_path / f"{before}-{last}", work)
        manifest = run.stage()
        with pytest.MonkeyPatch.context() as monkeypatch:
            crash_at(monkeypatch, last, before=before)
            if last <= RENAMES:
                with pytest.raises(Crash):
                    run.journal.commit(manifest)
            else:
                run.journal.commit(manifest)
        found = run.journal.manifest()
        if last == 1 and before:
            assert found is None
            assert run.published_files().keys() <= {MANIFEST + ".new"}
            run.journal.commit(run.stage())
        else:
            assert found == manifest
            for _ in range(3):
                run.journal.complete(found)
        assert run.published_files() == whole.published_files()


def test_a_crash_while_a_crash_is_mended_changes_nothing(work: Work, tmp_path: Path) -> None:
    run = Run(tmp_path / "run", work)
    manifest = run.stage()
    go_on = run.journal.commit
    for last in (4, 3, 2, 1):
        with pytest.MonkeyPatch.context() as monkeypatch:
            crash_at(monkeypatch, last, before=True)
            with pytest.raises(Crash):
                go_on(manifest)
        go_on = run.journal.complete
    run.journal.complete(manifest)
    whole = Run(tmp_path / "whole", work)
    whole.journal.commit(whole.stage())
    assert run.published_files() == whole.published_files()


def test_what_an_incomplete_run_staged_is_thrown_away_by_the_next(run: Run) -> None:
    run.stage()
    left = [run.journal.staging / "old" / "file", run.folder / DOCUMENT_STAGING / "old" / "part"]
    for path in left:
        path.parent.mkdir()
        path.write_text("left over")
    run.journal.commit(run.stage())
    assert not any(path.exists() for path in left)


def test_a_staged_file_that_vanished_is_one_clear_error(run: Run) -> None:
    manifest = run.stage()
    staged = run.journal.staging / manifest.results[0].staged
    next(staged.iterdir()).unlink()
    with pytest.raises(
        FatalError, match="another program changed the journal; remove it and publish again"
    ):
        run.journal.commit(manifest)


@pytest.mark.parametrize("other", [1, 2, 3, JOURNAL_FORMAT + 1, 999])
def test_a_journal_of_another_format_is_refused_with_what_to_do(run: Run, other: int) -> None:
    run.journal.commit(run.stage())
    path = run.journal.root / MANIFEST
    loaded = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(loaded | {"format": other, "program": "xds-publisher 9.9"}))
    with pytest.raises(FatalError, match=rf"format {other}.*xds-publisher 9\.9.*new directory"):
        run.journal.manifest()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", "null", "\udcff"),
        f'{{"format": {JOURNAL_FORMAT}}}',
        f'{{"format": {JOURNAL_FORMAT}, "sources": 3}}',
    ],
)
def test_a_damaged_manifest_is_one_clear_error(text: str, run: Run) -> None:
    run.journal.root.mkdir(parents=True)
    (run.journal.root / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(FatalError, match="restore it, or remove the journal"):
        run.journal.manifest()


def test_a_run_can_be_marked_as_sent_and_taken_back(run: Run) -> None:
    run.journal.commit(run.stage())
    before = run.journal.is_sent
    run.journal.mark_sent()
    assert (before, run.journal.is_sent) == (False, True)
    run.journal.forget()
    assert run.journal.manifest() is None
    run.journal.forget()


def test_a_file_is_replaced_as_a_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    write_durably(path, "after é\n")
    assert path.read_text("utf-8") == "after é\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_second_program_does_not_get_the_lock(tmp_path: Path) -> None:
    with (
        lock_directory(tmp_path / "journal"),
        pytest.raises(UsageError, match="wait until it has ended"),
        lock_directory(tmp_path / "journal"),
    ):
        pytest.fail("two programs hold it")


def test_the_lock_is_free_after_its_holder_has_ended_whatever_happened(tmp_path: Path) -> None:
    with suppress(Crash), lock_directory(tmp_path):
        raise Crash
    with lock_directory(tmp_path):
        assert (tmp_path / "lock").exists()


def test_locks_of_other_directories_are_free(tmp_path: Path) -> None:
    with lock_directory(tmp_path / "one"), lock_directory(tmp_path / "two"):
        assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}
