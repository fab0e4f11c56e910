"""Worker processes of the local engine: order, errors, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from publisher.engine.local.worker_processes import WorkerProcesses
from publisher.errors import FatalError

ABANDONED = """
import os, time
from publisher.engine.local.worker_processes import WorkerProcesses
from tests.unit.engine.test_worker_processes import pid_after

if __name__ == "__main__":
    print(next(WorkerProcesses(1).each(pid_after, [0.0])), flush=True)
    time.sleep(60)
"""


@pytest.fixture
def processes() -> Iterator[WorkerProcesses]:
    with closing(WorkerProcesses(2)) as processes:
        yield processes


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def negate(number: int) -> int:
    return -number


def fail_or_write(path: Path | None) -> None:
    if path is None:
        raise FatalError("the input is damaged: export it again")
    time.sleep(1)
    path.touch()


def kill_itself(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_until_gone(pid: int) -> None:
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} still runs")


def test_results_come_in_the_order_of_the_arguments(processes: WorkerProcesses) -> None:
    assert list(processes.each(negate, range(50))) == [-number for number in range(50)]
    assert os.getpid() not in processes.each(pid_after, [0.0, 0.0])


def test_an_error_ends_all_calls_and_later_calls_work(
    processes: WorkerProcesses, tmp_path: Path
) -> None:
    unfinished = tmp_path / "unfinished"
    with pytest.raises(FatalError, match="the input is damaged"):
        list(processes.each(fail_or_write, [None, unfinished]))
    time.sleep(1.5)
    assert not unfinished.exists()
    assert list(processes.each(negate, [1])) == [-1]


def test_a_killed_process_is_explained(processes: WorkerProcesses) -> None:
    with pytest.raises(FatalError, match="a worker process was killed: memory ran out"):
        list(processes.each(kill_itself, [1]))


def test_processes_end_on_request() -> None:
    processes = WorkerProcesses(1)
    (pid,) = processes.each(pid_after, [0.0])
    processes.close()
    wait_until_gone(pid)


def test_processes_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    script = tmp_path / "abandoned.py"
    script.write_text(ABANDONED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    wait_until_gone(worker)
