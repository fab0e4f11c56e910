"""``bench start``: short commands as whole processes.

A replay beside a bare PySpark script; ``publish`` and ``check`` of an empty event log in PostgreSQL with a
broker, both servers running already.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.data import Log, event_log
from tests.bench.log_table import SOURCE, TABLE, make_table
from tests.bench.program import TABLE as KNOWN
from tests.bench.program import arguments, job_file, workspace
from tests.bench.report import Report
from tests.services.kafka import cluster
from tests.services.servers import postgresql

EVENTS = 1_000
SECONDS = {"--help": 0.3, "publish": 0.7, "check": 1.0}
PARTITIONS = 8
BOUND = 0.2
"""Greatest part of the time of the bare script that a replay takes."""
SCRIPT = Path(__file__).with_name("bare_spark.py")
BARE, REPLAY = "bare PySpark script", "replay"
JOB = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
"""


def run(*, runs: int = 3, events: int | None = None, **_: int) -> Report:
    """Both in turn, two more times than other benchmarks, for these are short; medians."""
    log = event_log(Log(events or EVENTS))
    report = Report("start")
    taken: dict[str, list[float]] = {name: [] for name in (BARE, REPLAY, *SECONDS)}
    with (
        postgresql() as server,
        cluster(options=["-Xmx512m"]) as brokers,
        workspace() as work,
    ):
        make_table(server)
        job, live = job_file(work), work / "live.toml"
        sink = JOB.format(bootstrap=brokers.bootstrap, topic=brokers.topics.make(PARTITIONS))
        live.write_text(SOURCE.format(table=TABLE, url=server.url) + KNOWN + sink)
        for turn in range(runs + 2):
            commands = {
                REPLAY: arguments(log, work / f"out-{turn}", job),
                BARE: [str(SCRIPT), str(log), str(work / f"bare-{turn}")],
                "publish": ["-m", "publisher.cli", "publish", "-c", str(live)],
                "check": ["-m", "publisher.cli", "check", "-c", str(live)],
                "--help": ["-m", "publisher.cli", "--help"],
            }
            for name, command in commands.items():
                taken[name].append(_seconds(*command))
    for name in (BARE, REPLAY):
        report.add(f"{name}: fastest", min(taken[name]), "s")
        report.add(f"{name}: slowest", max(taken[name]), "s")
    floor = statistics.median(taken[BARE])
    report.add(f"{BARE}: median", floor, "s")
    report.add(f"{REPLAY}: median", statistics.median(taken[REPLAY]), "s", bound=BOUND * floor)
    for name, bound in SECONDS.items():
        report.add(f"{name}: median", statistics.median(taken[name]), "s", bound=bound)
    return report


def _seconds(*command: str) -> float:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *command], capture_output=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr.decode(errors='replace')[-2000:]}")
    return seconds
