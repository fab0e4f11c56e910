"""``bench history``: the history of one object over the runs of a job, as a whole process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.runs.publish import publish
from tests.bench.data import SCHEMA, Log, event_log
from tests.bench.processes import Role, Watch, cpu_seconds
from tests.bench.program import TABLE, check, settings_of, workspace
from tests.bench.report import Report
from tests.bench.triggerless import MIB

RUNS = 100
EVENTS = 100_000
SECONDS = 2.0
"""Greatest wall time."""
JOB = """
[[sources]]
format = "event-log"
schema = "indirect"
snapshots = ["logs"]

[run]
engine = "local"

[dispatch]
path = "out"
"""
OBJECT = "idu=711"


def run(*, runs: int = 3, events: int | None = None, **_: int | None) -> Report:
    """The object has a record in each run."""
    count = events or EVENTS
    report = Report("history")
    wall, cpu = [], []
    with workspace() as work:
        command = ["-m", "publisher.cli", "history", OBJECT, str(_publish_runs(work, count))]
        with _start(command) as process, Watch(process.pid) as watch:
            output = process.communicate()[0]
        heading = f"{RUNS:,} record(s) in {RUNS:,} run(s), {RUNS:,} document(s)"
        report.require("it shows all records", heading in output.partition("\n")[0])
        for _number in range(runs):
            start, before = time.perf_counter(), cpu_seconds(os.getpid())
            with _start(command) as process:
                process.communicate()
            wall.append(time.perf_counter() - start)
            cpu.append(cpu_seconds(os.getpid()) - before)
    report.add(f"records in {RUNS} runs", RUNS * count, "")
    report.add_seconds("processor time", cpu)
    report.add("wall time: fastest", min(wall), "s", bound=SECONDS)
    report.add("memory", watch.greatest(Role.ROOT) / MIB, "MiB")
    return report


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)


def _publish_runs(work: Path, events: int) -> Path:
    """Publishes so many records in each run; returns the folder of the job's ledger."""
    (work / "bench.toml").write_text(JOB + TABLE)
    settings = settings_of(work / "bench.toml")
    log = pq.read_table(event_log(Log(events, 1)))
    (work / "logs").mkdir()
    for number in range(RUNS):
        ids = pc.add(log["record_id"], pa.scalar(number * events))
        table = log.set_column(0, SCHEMA.field("record_id"), ids)
        pq.write_table(table, work / "logs" / f"{number:03d}.parquet")
        report = publish(settings)
        check(report.read, report.outcomes)
    return settings.ledger_folder
