"""A replay that is killed, runs out of disk or meets another: the next start makes it whole."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.config.job_file import load
from publisher.engine.contract import EngineName
from publisher.ledger.lock import lock_directory
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import DOCUMENT_STAGING, LedgerRun
from publisher.ledger.storage import LEDGER, query
from publisher.runs.replay import replay
from tests.services.servers import skip_unproved
from tests.support import whole_log as log
from tests.support.event_log_files import csv_text, event
from tests.support.process_tree import descendants, is_running
from tests.support.programs import start_program

EVENTS = 20_000

SmallDisk = tuple[Path, Callable[[str], None]]


@dataclass(frozen=True)
class Undisturbed:
    """A replay as it should be: its input, what it published, and how it was before and after its commit."""

    job: Path
    snapshot: Path
    target: Path
    staged: Path
    planned: Path
    manifest: Path

    def start(self, target: Path) -> str:
        """Starts it into another directory; the state that it reports."""
        return replay(load(self.job), [self.snapshot], str(target)).state

    def invoke(self, target: Path) -> tuple[int, str]:
        """Starts it by the command line: exit code and stderr."""
        result = CliRunner().invoke(cli, self.words(target))
        return result.exit_code, result.stderr

    def words(self, target: Path) -> list[str]:
        return ["replay", str(self.snapshot), "--to", str(target), "-c", str(self.job)]

    def assert_whole(self, target: Path) -> None:
        """Asserts that the same bytes are there, and nothing else."""
        assert log.published_files(target) == log.published_files(self.target)
        assert not log.left_over(target)
        assert_private(target)
        names = {path.name for path in self.target.rglob("*")}
        assert {path.name for path in target.rglob("*")} == names


@pytest.fixture(scope="module")
def undisturbed(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """One that takes a while, with more than fits on the small disk."""
    return make_undisturbed(tmp_path_factory.mktemp("crash"), EVENTS, "spark")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """One of a few records, without Spark."""
    return make_undisturbed(tmp_path_factory.mktemp("small"), 0, "local")


def make_undisturbed(base: Path, events: int, engine: EngineName) -> Undisturbed:
    rows = [
        event(100 + n, table_key=f"idu={n % 5_000}", new_value=f"value {n}") for n in range(events)
    ]
    (base / "log.csv").write_text(csv_text([*log.ROWS, *rows]))
    run = Undisturbed(
        log.job(base / "job.toml", engine=engine),
        base / "log.csv",
        base / "out",
        base / "staged",
        base / "planned",
        base / "to-be",
    )
    commit = LedgerRun.commit

    def keep_staged(ledger_run: LedgerRun, manifest: Manifest) -> LedgerRun:
        shutil.copytree(run.target, run.staged)
        run.manifest.write_bytes(pickle.dumps((manifest, ledger_run.rows)))
        committed = commit(ledger_run, manifest)
        shutil.copytree(run.target, run.planned)
        return committed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LedgerRun, "commit", keep_staged)
        assert run.start(run.target) == "published"
    run.assert_whole(run.target)
    return run


def kill_at_each_step(run: Undisturbed, work: Path, *, again: bool = False) -> list[Path]:
    """Directories of replays that were killed at one step each."""
    work.mkdir()
    paths = [run.staged, run.manifest, work, run.job, run.snapshot]
    words = [*map(str, [*paths, run.target] if again else paths)]
    pipe = subprocess.PIPE
    killing = start_program(words, module="tests.spark.killed_commits", stdout=pipe, stderr=pipe)
    printed, message = killing.communicate()
    assert killing.returncode == 0, message
    directories = sorted(work.iterdir())
    assert len(directories) == int(printed) + 1 > 10
    run.assert_whole(directories.pop())
    return directories


def is_planned(target: Path) -> bool:
    """Tells whether the plan of a replay is committed."""
    return bool(query(target / "_ledger", "SELECT 1 FROM run"))


def test_killed_at_any_step_from_the_commit_on_it_goes_on(
    small: Undisturbed, tmp_path: Path
) -> None:
    killed = kill_at_each_step(small, tmp_path / "work")
    planned = [path for path in killed if is_planned(path)]
    unplanned = [path for path in killed if path not in planned]
    assert len(planned) > 10
    for directory in [*planned, unplanned[0], unplanned[-1]]:
        assert small.start(directory) in ("published", "already published")
        small.assert_whole(directory)


@pytest.mark.long
def test_killed_at_any_step_of_once_more_it_goes_on(small: Undisturbed, tmp_path: Path) -> None:
    again = tmp_path / "finished"
    shutil.copytree(small.target, again)
    killed = kill_at_each_step(replace(small, target=again), tmp_path / "work", again=True)
    lost = [path for path in killed if not is_planned(path)]
    for directory in killed:
        if directory not in lost[1:-1]:
            assert small.start(directory) in ("published", "already published")
            small.assert_whole(directory)


@dataclass
class Program:
    """The program in processes of its own."""

    run: Undisturbed
    target: Path

    def __enter__(self) -> Self:
        self.process = start_program(
            self.run.words(self.target), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.seen: set[int] = set()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def is_planning(self) -> bool:
        """True once a task has begun to write the documents of its lane."""
        return any((self.target / DOCUMENT_STAGING).glob("*/part-*"))

    def wait_for(self, reached: Callable[[], object]) -> None:
        deadline = time.monotonic() + 180
        while not reached():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.seen = descendants(self.process.pid)

    def kill(self, *also: int) -> None:
        for number in (self.process.pid, *also):
            os.kill(number, signal.SIGKILL)
        self.process.wait()


@pytest.mark.long
def test_killed_while_planning_it_goes_on_and_leaves_no_process(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    with Program(undisturbed, target) as program:
        program.wait_for(program.is_planning)
        code, message = undisturbed.invoke(target)  # a second one beside it
        assert code == 2
        assert "another program is working in" in message
        program.kill()
    assert len(program.seen) >= 3  # the JVM, the daemon, workers
    assert not (target / "run.json").exists()
    assert undisturbed.start(target) == "published"
    undisturbed.assert_whole(target)
    deadline = time.monotonic() + 10
    while any(map(is_running, program.seen)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [*filter(is_running, program.seen)]


@pytest.mark.long
def test_interrupted_it_says_so_in_a_word_and_leaves_no_process(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    with Program(undisturbed, target) as program:
        program.wait_for(program.is_planning)
        program.process.send_signal(signal.SIGINT)
        _, message = program.process.communicate()
    assert message.strip() == "error: interrupted"
    assert program.process.returncode == 130
    assert not [*filter(is_running, program.seen)]
    assert not (target / "run.json").exists()


def test_killed_with_all_its_processes_while_starting_it_goes_on(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    with Program(undisturbed, target) as program:
        program.wait_for((target / "_ledger/staging").exists)
        program.kill(*program.seen)
    assert undisturbed.start(target) == "published"
    undisturbed.assert_whole(target)


@pytest.mark.long
def test_lane_whose_task_was_lost_is_planned_again(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """``local[2]`` never tries a task again, ``local[2,4]`` does."""
    retrying = log.job(
        tmp_path / "job.toml",
        rest=f'[spark]\nmaster = "local[2,4]"\n"spark.local.dir" = "{tmp_path}/shuffled"\n',
    )
    target = tmp_path / "out"
    with Program(replace(undisturbed, job=retrying), target) as program:
        program.wait_for(program.is_planning)
        assert_private(tmp_path / "shuffled")
        assert_private(target / "_ledger")
        workers = [number for number in program.seen if b"pyspark.worker" in command_line(number)]
        for worker in sorted(workers)[1:]:  # the first is the daemon that makes them
            os.kill(worker, signal.SIGKILL)
        _, message = program.process.communicate()
    assert (program.process.returncode, message) == (0, "")
    undisturbed.assert_whole(target)


def assert_private(directory: Path) -> None:
    """Only its owner reads what is in it: records of persons."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    for path in files:
        behind = [folder for folder in (path, *path.parents) if folder.is_relative_to(directory)]
        with suppress(FileNotFoundError):  # tasks are at work
            assert any(not folder.stat().st_mode & 0o077 for folder in behind), path


def command_line(number: int) -> bytes:
    return Path(f"/proc/{number}/cmdline").read_bytes()


def test_directory_is_free_until_something_was_planned_for_it(
    small: Undisturbed, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    wrong = [*small.words(target), "--database", f"sqlite:///{tmp_path}/none.db"]
    assert CliRunner().invoke(cli, wrong).exit_code == 1
    assert small.start(target) == "published"
    small.assert_whole(target)

    planned = tmp_path / "planned"
    shutil.copytree(small.planned, planned)
    result = CliRunner().invoke(cli, [*small.words(planned), "--status", "any"])
    assert result.exit_code == 2
    assert "and this is run" in result.stderr
    assert small.start(planned) == "published"
    small.assert_whole(planned)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of 1 MB, and what gives it another size."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        skip_unproved("a full disk (only root can mount a small one)")

    def resize(size: str) -> None:
        subprocess.run([command[0], "-o", f"remount,size={size}", str(disk)], check=True)

    yield disk, resize
    subprocess.run(["umount", str(disk)], check=True)


def test_full_disk_is_one_clear_error_and_the_next_start_goes_on(
    undisturbed: Undisturbed, small_disk: SmallDisk, capfd: pytest.CaptureFixture[str]
) -> None:
    disk, resize = small_disk
    code, message = undisturbed.invoke(disk / "out")
    assert code == 1
    assert message.startswith("error: no space left on")
    assert message.count("\n") == 1
    # Spark's own workers may say that a pipe broke when their task ended
    assert "/publisher/" not in capfd.readouterr().err
    resize("64m")
    assert undisturbed.start(disk / "out") == "published"
    undisturbed.assert_whole(disk / "out")


def test_full_disk_of_a_further_directory_is_one_clear_error(
    undisturbed: Undisturbed, small_disk: SmallDisk
) -> None:
    disk, resize = small_disk
    words = ["dispatch", str(undisturbed.target), "--to", str(disk / "out")]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no space left on")
    assert result.stderr.count("\n") == 1
    resize("64m")
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert log.published_files(disk / "out") == log.published_files(undisturbed.target)
    assert not log.left_over(disk / "out")


def test_two_programs_do_not_work_in_one_directory(small: Undisturbed, tmp_path: Path) -> None:
    with lock_directory(tmp_path / "out" / "_ledger"):
        code, message = small.invoke(tmp_path / "out")
    assert code == 2
    assert "another program is working in" in message
    with lock_directory(small.target / "_ledger"):
        words = ["dispatch", str(small.target), "--to", str(tmp_path / "further")]
        result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert "another program is working in" in result.stderr
    assert not (tmp_path / "further").exists()


def test_ledger_of_another_version_is_refused(small: Undisturbed, tmp_path: Path) -> None:
    target = tmp_path / "out"
    shutil.copytree(small.target, target)
    with closing(sqlite3.connect(target / "_ledger" / LEDGER)) as ledger:
        ledger.execute("UPDATE job SET value = 'x 9.9' WHERE name = 'program'")
        ledger.execute("PRAGMA user_version = 99")
        ledger.commit()
    for words in (
        small.words(target),
        ["explain", str(target), "1"],
        ["dispatch", str(target), "--to", str(tmp_path / "further")],
    ):
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 1
        assert "has format 99" in result.stderr
        assert "use x 9.9, which wrote it; or " in result.stderr
    assert log.published_files(target) == log.published_files(small.target)
