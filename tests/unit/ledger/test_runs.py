"""The commit of a run: complete or not there, whatever the moment of a crash."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from publisher.errors import FatalError, UsageError
from publisher.ledger import runs, storage
from publisher.ledger.conservation import check_conservation
from publisher.ledger.durable import write_durably
from publisher.ledger.lock import lock_directory
from publisher.ledger.manifest import Manifest, SourceEntry
from publisher.ledger.run_reader import DecidedRecord, PublishedDocument, RunReader
from publisher.ledger.runs import DOCUMENT_STAGING, LedgerRun
from publisher.ledger.storage import LEDGER
from publisher.runs.plan_lane import plan_lane
from publisher.sources.record_packing import KEYS, unpack
from publisher.sources.work import Work
from tests.support.event_ids import ORIGIN
from tests.support.event_log_files import event, write
from tests.support.task_runs import read_all, work_of


class Crash(BaseException):
    """The process is gone."""


class Run:
    """A run of two lanes into a directory whose ledger lies inside."""

    def __init__(self, folder: Path, work: Work, *, in_place: bool = False) -> None:
        self.folder = folder
        self.work = work
        self.in_place = in_place
        self.ledger_run = LedgerRun(folder / "_ledger")

    def stage(self) -> Manifest:
        self.ledger_run.begin(self.folder)
        pieces = read_all(self.work)
        results = []
        for lane in range(self.work.lanes):
            rows = [row for row, at in enumerate(pieces["lane"].to_pylist()) if at == lane]
            mine = pieces.take(rows).sort_by([(key, "ascending") for key in KEYS])
            result = plan_lane(
                replace(self.work, in_place=self.in_place),
                self.ledger_run.staging,
                self.folder / DOCUMENT_STAGING,
                lane,
                unpack(mine.to_batches()),
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

    def files(self) -> dict[str, Path]:
        """All files of the run at their places, by name."""
        files = [*self.folder.iterdir(), *self.ledger_run.root.iterdir()]
        return {
            path.name: path for path in files if path.is_file() and not path.name.startswith(LEDGER)
        }

    def published_files(self) -> dict[str, bytes]:
        """Their bytes."""
        return {name: path.read_bytes() for name, path in self.files().items()}


@pytest.fixture
def work(tmp_path: Path) -> Work:
    rows = [event(at, table_key=f"idu={at % 7}") for at in range(1, 30)]
    return work_of([write(tmp_path / "log.csv", [*rows, event(30, event_type=9)])], lanes=2)


@pytest.fixture
def run(tmp_path: Path, work: Work) -> Run:
    return Run(tmp_path / "out", work)


@pytest.fixture(params=["small", "large"])
def is_small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the rows of the run are packed into the ledger."""
    if request.param == "large":
        monkeypatch.setattr(runs, "RECORDS_OF_SMALL_RUN", 3)
    return bool(request.param == "small")


NAMES = sorted(
    [f"lane-0000{lane}.{name}.parquet" for lane in (0, 1) for name in ("documents", "records")]
    + ["part-00000.xds", "part-00001.xds"]
)


def test_a_commit_brings_every_file_to_its_place(run: Run, is_small: bool) -> None:
    manifest = run.stage()
    run.ledger_run.commit(manifest)
    assert run.ledger_run.is_packed == is_small
    assert sorted(run.published_files()) == NAMES
    assert not run.ledger_run.staging.exists()
    assert (run.ledger_run.root / LEDGER).stat().st_mode & 0o777 == 0o600


def test_a_small_run_that_ends_keeps_its_rows_and_no_files(run: Run, is_small: bool) -> None:
    manifest = run.stage()
    run.ledger_run.commit(manifest)
    before = rows_of(run.ledger_run)
    assert before
    run.ledger_run.close()
    kept = [name for name in NAMES if name.startswith("part-") or not is_small]
    assert sorted(run.published_files()) == kept
    assert rows_of(run.ledger_run) == before


def rows_of(ledger_run: LedgerRun) -> list[DecidedRecord | PublishedDocument]:
    """All rows, read as reports read them."""
    run = ledger_run.load()
    assert run is not None
    reader = RunReader(run)
    return [*reader.records(), *reader.documents()]


def test_files_that_a_crash_took_are_written_again(run: Run, is_small: bool) -> None:
    """A small run has them in the ledger; one of a directory has its documents there."""
    manifest = run.stage()
    run.ledger_run.commit(manifest)
    before = {name: lines_of(path) for name, path in run.files().items()}
    for name, path in run.files().items():
        if name.startswith("lane-"):
            path.unlink()
    if is_small:
        run.ledger_run.write_files(manifest)
        assert {name: lines_of(path) for name, path in run.files().items()} == before
    else:
        with pytest.raises(
            FatalError, match=r"lane-00000\.documents\.parquet of run a1 is missing"
        ):
            run.ledger_run.write_files(manifest)


def lines_of(path: Path) -> list[object]:
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    return list(path.read_bytes().splitlines())


def test_documents_are_not_visible_before_the_commit(
    run: Run, is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = run.stage()

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(LedgerRun, "_insert", crash)
        with pytest.raises(Crash):
            run.ledger_run.commit(manifest)
    assert run.ledger_run.manifest() is None
    assert not [name for name in run.published_files() if name.startswith("part-")]
    run.ledger_run.commit(run.stage())
    assert sorted(run.published_files()) == NAMES


def test_documents_move_once_a_crash_after_the_commit_is_over(
    run: Run, is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Run(run.folder.with_name("whole"), run.work)
    whole.ledger_run.commit(whole.stage())
    manifest = run.stage()

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(runs, "_move", crash)
        with pytest.raises(Crash):
            run.ledger_run.commit(manifest)
    assert run.ledger_run.manifest() == manifest
    for _ in range(2):
        run.ledger_run.write_files(manifest)
        assert {name: lines_of(path) for name, path in run.files().items()} == {
            name: lines_of(path) for name, path in whole.files().items()
        }


def test_files_in_their_places_are_those_of_a_staged_run(tmp_path: Path, work: Work) -> None:
    staged, run = Run(tmp_path / "staged", work), Run(tmp_path / "out", work, in_place=True)
    manifest = run.stage()
    assert sorted(run.published_files()) == NAMES
    run.ledger_run.discard(manifest.results, run.folder)
    assert run.published_files() == {}
    run.stage()
    run.ledger_run.commit(manifest)
    staged.ledger_run.commit(staged.stage())
    assert run.published_files() == staged.published_files()


@pytest.mark.parametrize("kind", ["records.parquet", "documents.parquet"])
def test_a_staged_file_that_was_lost_is_noticed(run: Run, is_small: bool, kind: str) -> None:
    manifest = run.stage()
    (lost,) = run.ledger_run.staging.rglob(f"lane-00000.{kind}")
    lost.unlink()
    with pytest.raises(FatalError, match=f"lane-00000.{kind}"):
        run.ledger_run.commit(manifest)
    assert run.ledger_run.manifest() is None


@pytest.mark.parametrize("in_place", [False, True], ids=["staged", "in-place"])
def test_all_that_a_run_needs_is_synced_before_its_row_appears(
    tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch, in_place: bool, is_small: bool
) -> None:
    """Of a small run only its documents: the row has the others."""
    run = Run(tmp_path / "out", work, in_place=in_place)
    synced: set[int] = set()
    before_row: list[set[int]] = []
    sync, insert = os.fsync, LedgerRun._insert

    def note_sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def note_insert(*arguments: Any) -> None:
        before_row.append(set(synced))
        insert(*arguments)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(LedgerRun, "_insert", note_insert)
    run.ledger_run.commit(run.stage())
    paths = [path for path in run.files().values() if path.suffix == ".xds" or not is_small]
    assert len(paths) == (2 if is_small else 6)
    assert {path.stat().st_ino for path in paths} <= before_row[0]
    assert len(before_row) == 1


def test_a_manifest_is_read_as_it_was_written(run: Run) -> None:
    assert run.ledger_run.manifest() is None
    manifest = run.stage()
    assert run.ledger_run.manifest() is None
    run.ledger_run.commit(manifest)
    assert run.ledger_run.manifest() == manifest
    assert run.ledger_run.documents(manifest) == run.folder


@pytest.mark.parametrize(
    "stored", [b"", b"{}", *map(zlib.compress, (b"", b"{", b"{}")), zlib.compress(b"{}" * 9)[:-1]]
)
def test_a_damaged_plan_is_one_clear_error(stored: bytes, run: Run) -> None:
    run.ledger_run.commit(run.stage())
    with storage.transaction(run.ledger_run.folder) as connection:
        connection.execute("UPDATE run SET manifest = ?", (stored,))
    with pytest.raises(FatalError, match=r"the plan of run _ledger in the ledger is damaged \("):
        run.ledger_run.manifest()


def test_what_an_incomplete_run_staged_is_thrown_away_by_the_next(run: Run) -> None:
    run.stage()
    left = [run.ledger_run.staging / "old" / "file", run.folder / DOCUMENT_STAGING / "old" / "part"]
    for path in left:
        path.parent.mkdir()
        path.write_text("left over")
    run.ledger_run.commit(run.stage())
    assert not any(path.exists() for path in left)


def test_a_plan_can_be_taken_back(run: Run) -> None:
    run.ledger_run.forget()
    run.ledger_run.commit(run.stage())
    run.ledger_run.write_text("note", "text")
    run.ledger_run.forget()
    assert run.ledger_run.manifest() is None
    assert run.ledger_run.texts() == {}
    run.ledger_run.forget()


def test_a_file_is_replaced_as_a_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    write_durably(path, "after é\n")
    assert path.read_text("utf-8") == "after é\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_second_program_does_not_get_the_lock(tmp_path: Path) -> None:
    with (
        lock_directory(tmp_path / "ledger"),
        pytest.raises(UsageError, match="wait until it has ended"),
        lock_directory(tmp_path / "ledger"),
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
