"""Workers share one server, which ends after its last use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
WORKERS = 3
PROGRAM = """
import os, sys, time
from contextlib import contextmanager
from pathlib import Path
from tests.services.sharing import share

directory, workers = Path(sys.argv[1]), int(sys.argv[2])
used = directory / "used"

def note(text):
    with used.open("a") as file:
        file.write(text + "\\n")

@contextmanager
def start():
    note("start")
    yield str(os.getpid())
    note("stop")

with share(directory, start) as address:
    note("use " + address)
    while used.read_text().count("use") < workers:
        time.sleep(0.01)
    time.sleep(0.1 * (address != str(os.getpid())))  # the server's own process is ready first
    note("end")
"""


def test_the_first_worker_starts_the_server_and_stops_it_after_the_last(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(WORKERS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(2):  # a server that has ended is started again
        workers = [subprocess.Popen(command, env=environment) for _ in range(WORKERS)]
        assert [worker.wait(60) for worker in workers] == [0] * WORKERS
        started, *used, stopped = (tmp_path / "used").read_text().splitlines()
        assert (started, stopped) == ("start", "stop")
        addresses = {line for line in used if line.startswith("use")}
        assert len(addresses) == 1
        assert sorted(used) == ["end"] * WORKERS + [*addresses] * WORKERS
        (tmp_path / "used").unlink()


def test_a_worker_that_was_killed_does_not_keep_the_server(tmp_path: Path) -> None:
    (tmp_path / "0.user").touch()  # no process has this number
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert (tmp_path / "used").read_text().splitlines()[-1] == "stop"
