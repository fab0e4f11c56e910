"""Workers of Spark end quietly when their session has ended."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WORKER = """
import os, socket, sys
os.environ["PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"] = "1"  # as Spark starts it
from pyspark import daemon
from publisher.engine.spark.worker_daemon import end_quietly
here, jvm = socket.socketpair()
jvm.close()
worker = end_quietly(daemon.worker) if sys.argv[1] == "ours" else daemon.worker
print(worker(here, True))
"""


@pytest.mark.parametrize(
    ("whose", "printed", "error"), [("ours", "1\n", ""), ("theirs", "", "BrokenPipeError")]
)
def test_a_worker_whose_session_has_ended_prints_no_traceback(
    whose: str, printed: str, error: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER, whose],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
    )
    assert done.stdout == printed, done.stderr
    assert error in done.stderr
    assert bool(done.stderr) == bool(error)
