"""The commit of a run: complete or not there, whatever the moment of a crash."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from publisher.dispatch.files import FileDispatcher
from publisher.errors import FatalError, UsageError
from publisher.formats.record_packing import KEYS, unpack
from publisher.formats.work import Work
from publisher.ledger import runs, storage
from publisher.ledger.conservation import check_conservation
from publisher.ledger.durable import write_durably
from publisher.ledger.lane_writer import LaneSpace
from publisher.ledger.lock import lock_directory
from publisher.ledger.manifest import Manifest, SourceEntry
from publisher.ledger.run_reader import DecidedRecord, RunReader
from publisher.ledger.runs import DOCUMENT_STAGING, LedgerRun
from publisher.ledger.storage import LEDGER
from publisher.ledger.tables import TABLES
from publisher.runs.plan_lane import plan_lane
from publisher.runs.run import send
from tests.support.event_ids import ORIGIN
from tests.support.event_log_files import event, write
from tests.support.task_runs import read_all, work_of


class Crash(BaseException):
    """The process is gone."""


class Run:
    """A run of two lanes into a directory whose ledger lies inside; ``rows`` of a lane stay in memory."""

    def __init__(self, folder: Path, work: Work, rows: int = 10_000) -> None:
        self.folder = folder
        self.work = work
        self.root = folder / "_ledger"
        self.space = LaneSpace(
            self.root / "staging",
            folder / DOCUMENT_STAGING,
            to_sink=True,
            rows=rows,
            bytes=1 << 20,
        )

    @property
    def ledger_run(self) -> LedgerRun:
        return LedgerRun(self.root)

    def stage(self) -> tuple[LedgerRun, Manifest]:
        self.ledger_run.begin(self.folder)
        pieces = read_all(self.work)
        lanes = []
        for lane in range(self.work.lanes):
            rows = [row for row, at in enumerate(pieces["lane"].to_pylist()) if at == lane]
            mine = pieces.take(rows).sort_by([(key, "ascending") for key in KEYS])
            lanes.append(plan_lane(self.work, self.space, lane, unpack(mine.to_batches())))
        results = tuple(lane.result for lane in lanes)
        manifest = Manifest(
            run="a1",
            job="job",
            lanes=self.work.lanes,
            clock="2024-01-01T00:00:00Z",
            settings={"poll": {"poll_size": 10_000}},
            sources=(
                SourceEntry("log", "event-log", ({"path": "é.csv"},), {}, {}, 0, origin=ORIGIN),
            ),
            results=results,
            documents="..",
            records_read=check_conservation(results, [[0]]),
        )
        return replace(self.ledger_run, rows=[lane.rows for lane in lanes]), manifest

    def commit(self) -> Manifest:
        planned, manifest = self.stage()
        planned.commit(manifest)
        return manifest

    def files(self) -> list[str]:
        """The names of all files, without those of the ledger."""
        paths = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.name for path in paths if not path.name.startswith(LEDGER))

    def staged(self) -> list[str]:
        """The names of the documents that wait for the sink."""
        return sorted(path.name for path in (self.folder / DOCUMENT_STAGING).glob("part-*"))


@pytest.fixture
def work(tmp_path: Path) -> Work:
    rows = [event(at, table_key=f"idu={at % 7}") for at in range(1, 30)]
    return work_of([write(tmp_path / "log.csv", [*rows, event(30, event_type=9)])], lanes=2)


@pytest.fixture(params=["memory", "files", "one-in-memory"])
def run(request: pytest.FixtureRequest, tmp_path: Path, work: Work) -> Run:
    """One lane has more rows than the other."""
    return Run(
        tmp_path / "out", work, {"memory": 100, "files": -1, "one-in-memory": 13}[request.param]
    )


@pytest.fixture(params=["small", "large"])
def is_small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the rows of the run are packed into the ledger."""
    if request.param == "large":
        monkeypatch.setattr(runs, "RECORDS_OF_SMALL_RUN", 3)
    return bool(request.param == "small")


PARTS = ["part-00000.xds", "part-00001.xds"]
NAMES = sorted(
    f"lane-0000{lane}.{name}.parquet"
    for lane in (0, 1)
    for name in ("documents", "lookups", "records")
)


def rows_of(ledger_run: LedgerRun) -> list[DecidedRecord]:
    """All records, read as reports read them."""
    run = ledger_run.load()
    assert run is not None
    return [*RunReader(run).records()]


def test_a_small_run_has_no_files_but_documents_of_its_sink(run: Run, is_small: bool) -> None:
    run.commit()
    assert run.ledger_run.is_packed == is_small
    assert run.files() == sorted([*PARTS, *([] if is_small else NAMES)])
    assert run.staged() == PARTS
    assert not (run.root / "staging").exists()
    assert (run.root / LEDGER).stat().st_mode & 0o777 == 0o600


def test_rows_are_the_same_wherever_they_are(tmp_path: Path, work: Work, is_small: bool) -> None:
    found = []
    for rows in (100, -1, 13):
        run = Run(tmp_path / str(rows), work, rows)
        planned, manifest = run.stage()
        before = [
            lane.read(table).to_pylist() for lane in planned.lanes(manifest) for table in TABLES
        ]
        committed = planned.commit(manifest)
        for handle in (committed, run.ledger_run):
            lanes = handle.lanes(manifest)
            assert [lane.read(t).to_pylist() for lane in lanes for t in TABLES] == before
        found.append(rows_of(run.ledger_run))
    assert found[0] == found[1] == found[2]


def test_a_run_that_crashes_before_its_row_has_planned_nothing(
    run: Run, is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, manifest = run.stage()

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(LedgerRun, "_insert", crash)
        with pytest.raises(Crash):
            planned.commit(manifest)
    assert run.ledger_run.manifest() is None
    assert not list(run.folder.glob("part-*"))
    run.commit()
    assert run.staged() == PARTS


@pytest.mark.parametrize("rows", [100, -1])
def test_a_staged_file_that_was_lost_is_noticed(
    tmp_path: Path, work: Work, is_small: bool, rows: int
) -> None:
    run = Run(tmp_path / "out", work, rows)
    planned, manifest = run.stage()
    name = "lane-00000.records.parquet" if rows < 0 else PARTS[0]
    (lost,) = run.folder.rglob(name)
    lost.unlink()
    with pytest.raises(FatalError, match=name):
        planned.commit(manifest)
    assert run.ledger_run.manifest() is None


@pytest.mark.parametrize("rows", [100, -1])
def test_a_run_that_lost_a_file_after_its_commit_is_not_sent(
    tmp_path: Path, work: Work, is_small: bool, rows: int
) -> None:
    """A document file counts in the staging folder of the directory as well as in its place."""
    run = Run(tmp_path / "out", work, rows)
    manifest = run.commit()
    dispatcher = FileDispatcher(run.folder, identity=manifest.run)
    dispatcher.prepare(manifest.run)
    for name in run.files():
        if name.endswith((".xds", ".parquet")):
            (path,) = run.folder.rglob(name)
            content = path.read_bytes()
            path.unlink()
            with pytest.raises(FatalError, match=rf"{name} of run a1 is missing: restore it"):
                send(run.ledger_run, manifest, dispatcher)
            assert not list(run.folder.glob("part-*"))
            path.write_bytes(content)
    staged, place = run.folder / DOCUMENT_STAGING / PARTS[0], run.folder / PARTS[0]
    staged.replace(place)
    send(run.ledger_run, manifest, dispatcher)
    assert dispatcher.has_run(manifest)
    assert sorted(path.name for path in run.folder.glob("part-*")) == PARTS


def test_all_that_a_run_needs_is_synced_before_its_row_appears(
    run: Run, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    """Of a small run only its documents: the row has the others."""
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
    run.commit()
    paths = [path for name in run.files() for path in run.folder.rglob(name)]
    assert len(paths) == (2 if is_small else 8)
    assert {path.stat().st_ino for path in paths} <= before_row[0]
    assert len(before_row) == 1


def test_a_manifest_is_read_as_it_was_written(run: Run) -> None:
    assert run.ledger_run.manifest() is None
    planned, manifest = run.stage()
    assert run.ledger_run.manifest() is None
    planned.commit(manifest)
    assert run.ledger_run.manifest() == manifest
    assert run.ledger_run.documents(manifest) == run.folder


@pytest.mark.parametrize(
    "stored", [b"", b"{}", *map(zlib.compress, (b"", b"{", b"{}")), zlib.compress(b"{}" * 9)[:-1]]
)
def test_a_damaged_plan_is_one_clear_error(stored: bytes, run: Run) -> None:
    run.commit()
    with storage.transaction(run.ledger_run.folder) as connection:
        connection.execute("UPDATE run SET manifest = ?", (stored,))
    with pytest.raises(FatalError, match=r"the plan of run _ledger in the ledger is damaged \("):
        run.ledger_run.manifest()


def test_what_an_incomplete_run_staged_is_thrown_away_by_the_next(run: Run) -> None:
    run.stage()
    left = [run.ledger_run.staging / "old" / "file", run.folder / DOCUMENT_STAGING / "old" / "part"]
    for path in left:
        path.parent.mkdir(parents=True)
        path.write_text("left over")
    run.commit()
    assert not any(path.exists() for path in left)


def test_a_plan_can_be_taken_back(run: Run) -> None:
    run.ledger_run.forget()
    run.commit()
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
