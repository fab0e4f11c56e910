"""``bench memory``: a process needs the same memory whatever the length of the log, on each engine."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from publisher.engine.contract import EngineName
from tests.bench.data import Log, event_log, wide_log
from tests.bench.processes import Role, Watch
from tests.bench.program import check_directory, job_file, replay_process, workspace
from tests.bench.report import Report

EVENTS = 200_000
FLAT = 1.15
"""How much more a process may need for ten times the events."""
ROLES: Mapping[EngineName, Collection[Role]] = {
    "spark": [Role.WORKER],
    "local": [Role.ROOT, Role.WORKER],
}
"""The processes that run tasks; the local engine runs those of small inputs in the process of the command."""
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
        size = WIDE_SIZE if events is None else WIDE_SIZE // 16
        for engine in ROLES:
            for name, share in SHAPES:
                small = _peak(event_log(Log(few, share)), work, job, engine)
                large = _peak(event_log(Log(few * 10, share)), work, job, engine)
                report.add(f"{engine}, {name}, {few:,}: process", small / MIB, "MiB")
                report.add(f"{engine}, {name}, {few * 10:,}: process", large / MIB, "MiB")
                report.add(f"{engine}, {name}: growth", large / small, "", bound=FLAT)
            wide = _peak(wide_log(WIDE_VALUES, size), work, job, engine)
            values = f"{WIDE_VALUES:,} values of {size:,} bytes"
            report.add(f"{engine}, {values}: process", wide / MIB, "MiB")
    return report


def _peak(log: Path, work: Path, job: Path, engine: EngineName) -> int:
    """Peak memory of the greatest process with tasks of a replay; fails where the replay does."""
    to = work / log.stem
    process = replay_process(log, to, job, engine)
    with Watch(process.pid) as watch:
        if process.wait() != 0:
            raise RuntimeError(f"replay of {log.name} ended with {process.returncode}")
    check_directory(to)
    shutil.rmtree(to)
    return max(map(watch.greatest, ROLES[engine]))
