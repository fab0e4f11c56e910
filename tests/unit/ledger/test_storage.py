"""The file of a ledger: durable, and refused with words if it is damaged or of another version."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.ledger import storage
from publisher.ledger.job import Ledger
from publisher.ledger.storage import LEDGER, LEDGER_FORMAT
from tests.support.finished_runs import contents_of, finish_runs, make_ledgers


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger with runs, all of whose pages are in its file."""
    ledger = make_ledgers(tmp_path)
    finish_runs(ledger, 3)
    storage.close(ledger.root)
    assert [path.name for path in ledger.root.glob("ledger*")] == [LEDGER]
    return ledger


def set_version(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def overwrite(path: Path, first: int, last: int | None = None) -> None:
    """Overwrites bytes of the file."""
    with path.open("r+b") as file:
        file.seek(first)
        file.write(b"\xff" * ((last or path.stat().st_size) - first))


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "head": (
        lambda path: overwrite(path, 0, 99),
        r"is damaged \(file is not a database\): restore",
    ),
    "pages": (lambda path: overwrite(path, 4_096), r"is damaged \(.*\): restore it; or move the"),
    "cut": (
        lambda path: os.truncate(path, path.stat().st_size - 4_096),
        r"is damaged \(.*\): restore it; or move the directory away",
    ),
    "empty": (lambda path: os.truncate(path, 0), r"is missing: .* were changed by another program"),
    "missing": (Path.unlink, r"is missing: .* was written by an earlier version of this program"),
    "version": (
        set_version,
        f"has format 99, this program reads format {LEDGER_FORMAT}: use xds-publisher .*, which wrote",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_ledger_is_refused_with_a_way_out(ledger: Ledger, damage: str) -> None:
    (ledger.root / "state").mkdir()
    ledger.check()
    storage.close(ledger.root)
    change, message = DAMAGES[damage]
    change(ledger.root / LEDGER)
    with pytest.raises(FatalError, match=rf"ledger\.db {message}") as found:
        ledger.check()
    assert "xds-publisher recover -c JOB.toml" in str(found.value)


def test_a_creation_that_was_killed_begins_again(tmp_path: Path) -> None:
    (tmp_path / LEDGER).touch()
    ledger = Ledger(tmp_path, "job")
    assert ledger.identity() is None
    assert ledger.open_identity() == ledger.identity()


def test_a_ledger_is_not_created_over_other_files(tmp_path: Path) -> None:
    (tmp_path / "job.json").touch()
    with pytest.raises(FatalError, match="earlier version of this program"):
        Ledger(tmp_path, "job").open_identity()
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]


@pytest.mark.parametrize("name", ["lock", "follow.lock"])
def test_locks_may_be_older_than_the_ledger(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert Ledger(tmp_path, "job").identity() is None
    assert Ledger(tmp_path, "job").open_identity()


def test_a_ledger_is_private(ledger: Ledger) -> None:
    ledger.raise_lanes(7)  # begins a log of changes
    modes = {path.name: path.stat().st_mode & 0o777 for path in ledger.root.glob("ledger*")}
    assert set(modes) > {LEDGER}
    assert set(modes.values()) == {0o600}


def test_a_copy_opens(ledger: Ledger, tmp_path: Path) -> None:
    """Also one that ``sqlite3`` makes while the job works, without the log of changes."""
    ledger.raise_lanes(7)
    copy = Ledger(tmp_path / "copy" / "job", "job")
    copy.root.mkdir(parents=True)
    command = f".backup '{copy.root / LEDGER}'"
    if shutil.which("sqlite3"):
        subprocess.run(["sqlite3", ledger.root / LEDGER, command], check=True)
    else:
        with (
            sqlite3.connect(ledger.root / LEDGER) as source,
            sqlite3.connect(copy.root / LEDGER) as target,
        ):
            source.backup(target)
    copy.check()
    assert copy.raise_lanes(1) == 7
    assert copy.identity() == ledger.identity()
    for number in (1, 3):
        assert contents_of(copy, copy.run_id(number)) == contents_of(ledger, ledger.run_id(number))


def test_a_ledger_that_cannot_be_written_is_read(ledger: Ledger) -> None:
    rights = ("setpriv", "--bounding-set=-all") if os.geteuid() == 0 else ()
    program = Path(sys.executable).with_name("xds-publisher")
    explain = (*rights, str(program), "explain", str(ledger.root), "2")
    usual = subprocess.run(explain, capture_output=True, text=True, check=True).stdout
    storage.close(ledger.root)
    ledger.root.chmod(0o500)
    try:
        read = subprocess.run(explain, capture_output=True, text=True, check=False)
        assert (read.stdout, read.returncode) == (usual, 0)
        assert [path.name for path in ledger.root.iterdir()] == [LEDGER]
    finally:
        ledger.root.chmod(0o700)


def test_a_transaction_that_fails_changes_nothing(ledger: Ledger) -> None:
    def change() -> None:
        with storage.transaction(ledger.root):
            ledger.raise_lanes(7)
            raise KeyError

    with pytest.raises(KeyError):
        change()
    assert ledger.raise_lanes(1) == 1


def test_a_ledger_that_is_moved_away_and_made_again_is_another_one(ledger: Ledger) -> None:
    """The connection to the former file is not used any more."""
    identity = ledger.open_identity()
    ledger.root.rename(ledger.root.with_name("moved"))
    assert ledger.identity() is None
    assert ledger.open_identity() != identity
    assert Ledger(ledger.root.with_name("moved"), "job").identity() == identity


def test_threads_use_one_ledger(ledger: Ledger) -> None:
    threads = [threading.Thread(target=ledger.add_request, args=("{}",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.open_requests()) == 8


def test_a_fork_opens_the_ledger_again(ledger: Ledger) -> None:
    """A connection must not be used after a fork."""
    ledger.raise_lanes(2)
    process = get_context("fork").Process(target=ledger.raise_lanes, args=(3,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert ledger.raise_lanes(1) == 3
    ledger.check()


def test_a_disk_is_probed_without_a_trace(tmp_path: Path) -> None:
    assert storage.probe_disk(tmp_path) == "wal"
    assert not [*tmp_path.iterdir()]


def test_a_disk_without_locks_is_refused(tmp_path: Path) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_LOCK
    with (
        pytest.raises(FatalError, match=r"its disk has no file locks; set `path` in \[ledger\] to"),
        storage.explain(tmp_path / LEDGER),
    ):
        raise error
