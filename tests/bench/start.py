"""``bench start``: a short replay as a whole process beside a bare PySpark script."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.data import Log, event_log
from tests.bench.program import arguments, job_file, workspace
from tests.bench.report import Report

EVENTS = 1_000
HELP_SECONDS = 0.3
BOUND = 0.2
"""Greatest part of the time of the bare script that a replay takes."""
SCRIPT = Path(__file__).with_name("bare_spark.py")


def run(*, runs: int = 3, events: int | None = None, **_: int) -> Report:
    """Both in turn, two more times than other benchmarks, for these are short; medians."""
    log = event_log(Log(events or EVENTS))
    report = Report("start")
    ours: list[float] = []
    bare: list[float] = []
    helps: list[float] = []
    with workspace() as work:
        job = job_file(work)
        for turn in range(runs + 2):
            to = work / f"out-{turn}"
            ours.append(_seconds(*arguments(log, to, job)))
            bare.append(_seconds(str(SCRIPT), str(log), str(work / f"bare-{turn}")))
            helps.append(_seconds("-m", "publisher.cli", "--help"))
    for name, seconds in (("bare PySpark script", bare), ("replay", ours)):
        report.add(f"{name}: fastest", min(seconds), "s")
        report.add(f"{name}: slowest", max(seconds), "s")
    floor = statistics.median(bare)
    report.add("bare PySpark script: median", floor, "s")
    report.add("replay: median", statistics.median(ours), "s", bound=BOUND * floor)
    report.add("--help: median", statistics.median(helps), "s", bound=HELP_SECONDS)
    return report


def _seconds(*command: str) -> float:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *command], capture_output=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr.decode(errors='replace')[-2000:]}")
    return seconds
