"""A transaction that timed out is no newer instance.

After a pause the coordinator had aborted the transaction; clients took this for fencing by another producer,
or got stuck.  Timeout and fencing are different errors.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.services.topics import Topics
from tests.support.workbench import Workbench, event, log_file

pytestmark = pytest.mark.long

EVENTS = 30_000
JOB = """
[[sources]]
name = "log"
snapshots = ["log.csv"]
[run]
engine = "local"
lanes = 2
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
transaction_ms = 10000
[dispatch.kafka]
"transaction.timeout.ms" = "3000"
"""


def test_a_paused_replay_goes_on_or_says_try_again(bench: Workbench, kafka: Topics) -> None:
    topic = kafka.make(2)
    bench.write(
        "log.csv", log_file(event(f"idu={n}", 3, "fname", new=str(n)) for n in range(EVENTS))
    )
    bench.write("job.toml", JOB.format(bootstrap=kafka.bootstrap, topic=topic))
    words = ("replay", "log.csv", "-c", "job.toml", "--to", f"kafka://{kafka.bootstrap}/{topic}")
    with bench.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and not sum(kafka.ends(topic).values()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(7)
            os.kill(process.pid, signal.SIGCONT)
        _, err = process.communicate(timeout=120)
    assert process.returncode in (0, 5), err
    bench.run(*words)
    keys = [record.key for record in kafka.read(topic) if record.key]
    assert len(keys) == len(set(keys)) == EVENTS
