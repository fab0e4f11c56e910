"""``bench memory``: a worker needs the same memory whatever the length of the log."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.bench.data import Log, event_log, wide_log
from tests.bench.processes import Role, Watch
from tests.bench.program import check_directory, job_file, replay_process, workspace
from tests.bench.report import Report

EVENTS = 200_000
FLAT = 1.15
"""How much more a worker may need for ten times the events."""
SHAPES: Sequence[tuple[str, int | None]] = (
    ("three events an object", 3),
    ("one event an object", 1),
    ("one object", None),
)
WIDE_VALUES = 1_000
WIDE_SIZE = 1 << 20
MIB = 1 << 20


def run(*, events: int | None = None, **_: int) -> Report:
    """Each case in a process of its own."""
    few = events or EVENTS
    report = Report("memory")
    with workspace() as work:
        job = job_file(work)
        for name, share in SHAPES:
            small = _worker_peak(event_log(Log(few, share)), work, job)
            large = _worker_peak(event_log(Log(few * 10, share)), work, job)
            report.add(f"{name}, {few:,}: worker", small / MIB, "MiB")
            report.add(f"{name}, {few * 10:,}: worker", large / MIB, "MiB")
            report.add(f"{name}: growth", large / small, "", bound=FLAT)
        size = WIDE_SIZE if events is None else WIDE_SIZE // 16
        wide = _worker_peak(wide_log(WIDE_VALUES, size), work, job)
        report.add(f"{WIDE_VALUES:,} values of {size:,} bytes: worker", wide / MIB, "MiB")
    return report


def _worker_peak(log: Path, work: Path, job: Path) -> int:
    """Peak memory of the greatest worker of a replay; fails where the replay does."""
    to = work / log.stem
    process = replay_process(log, to, job)
    with Watch(process.pid) as watch:
        if process.wait() != 0:
            raise RuntimeError(f"replay of {log.name} ended with {process.returncode}")
    check_directory(to)
    shutil.rmtree(to)
    return watch.greatest(Role.WORKER)
