"""The ledger after ``kill -9`` at any moment of a commit, and copies of it that were made carelessly."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.ledger import storage
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import RunEnd
from publisher.ledger.storage import LEDGER
from tests.support.ledgers import commit_run, documents, write_identity

KILLS = 200
CUTS = 50
RUNS = 6


def test_killed_at_any_moment_it_has_a_run_or_has_it_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.services.killed_ledgers", str(tmp_path / "job")]
    done = subprocess.run([*command, str(KILLS), "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    left = Counter(done.stdout.split())
    assert left.total() == KILLS
    assert min(left[state] for state in ("nothing", "planned", "finished")) > 0, left


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Some finished runs, of which the last are only in the log of changes."""
    write_identity(tmp_path / "job")
    ledger = Ledger(tmp_path / "job", "job")
    for number in range(RUNS):
        if number == RUNS // 2:
            storage.close(ledger.root)  # moves the changes into the file
        name = ledger.create_run()
        run, manifest = commit_run(ledger.root / name, [documents(40)], run=name)
        ledger.finish(run, manifest, RunEnd(), greatest={}, leftovers={})
    return ledger


def copy_of(ledger: Ledger, target: Path) -> Ledger:
    shutil.copytree(ledger.root, target / "job")
    for path in (target / "job").glob(f"{LEDGER}-shm"):
        path.unlink()
    return Ledger(target / "job", "job")


def runs_in(copy: Ledger) -> int:
    """The number of runs; all of them can be read."""
    copy.check()
    rows = storage.query(copy.root, "SELECT name FROM run ORDER BY number")
    for (name,) in rows:
        run = copy.run(name).load()
        assert run is not None
        assert run.tables is not None
    storage.close(copy.root)
    return len(rows)


def test_a_copy_without_the_log_of_changes_is_an_older_state(
    ledger: Ledger, tmp_path: Path
) -> None:
    copy = copy_of(ledger, tmp_path / "copy")
    (copy.root / f"{LEDGER}-wal").unlink()
    assert runs_in(copy) == RUNS // 2


def test_a_copy_with_a_cut_log_of_changes_is_an_older_state_or_the_whole_one(
    ledger: Ledger, tmp_path: Path
) -> None:
    rng, found = random.Random(2), Counter[int]()
    size = (ledger.root / f"{LEDGER}-wal").stat().st_size
    for number, cut in enumerate([0, size, *(rng.randrange(size) for _ in range(CUTS))]):
        copy = copy_of(ledger, tmp_path / f"{number}")
        with (copy.root / f"{LEDGER}-wal").open("r+b") as wal:
            wal.truncate(cut)
        found[runs_in(copy)] += 1
    assert set(found) == set(range(RUNS // 2, RUNS + 1))


def test_a_cut_ledger_is_refused_with_its_name(ledger: Ledger, tmp_path: Path) -> None:
    storage.close(ledger.root)
    size = (ledger.root / LEDGER).stat().st_size
    for number, part in enumerate((0.3, 0.6, 0.9)):
        copy = copy_of(ledger, tmp_path / f"{number}")
        with (copy.root / LEDGER).open("r+b") as file:
            file.truncate(int(size * part))
        with pytest.raises(FatalError, match=f"{LEDGER} is damaged"):
            runs_in(copy)


def test_a_changed_byte_in_the_rows_of_a_run_is_noticed(ledger: Ledger) -> None:
    with storage.transaction(ledger.root) as connection:
        (packed,) = connection.execute("SELECT documents FROM run WHERE number = 2").fetchone()
        damaged = bytes([*packed[:-3], packed[-3] ^ 1, *packed[-2:]])
        connection.execute("UPDATE run SET documents = ? WHERE number = 2", (damaged,))
    with pytest.raises(
        FatalError, match="the documents of run job-000002 in the ledger are damaged"
    ):
        runs_in(ledger)
