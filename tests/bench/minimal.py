"""``bench minimal``: a job with minimal modifies beside one that publishes in full, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.engine.local import LocalEngine
from publisher.runs.job import Job
from tests.bench.program import workspace
from tests.bench.report import Report

OBJECTS = 500_000
RATIO = 2.0
"""Bound of minimal runs beside full ones."""
HEADER = (
    "record_id,table_key,status,event_type,event_time,perpetrator,"
    "table_name,column_name,old_value,new_value\n"
)
ROUNDS: dict[str, Callable[[int], str]] = {
    "all objects, unknown values": lambda number: f"Jack {number}",
    "all objects, one in ten changed": lambda n: f"Jack {n}" if n % 10 else f"Eve {n}",
}


def run(*, events: int | None = None, **_: int) -> Report:
    """Processor time of each round: a type 3 event for one attribute of each object."""
    objects = events or OBJECTS
    report = Report("minimal")
    with workspace() as work:
        full, minimal = (_job(work / name, name == "minimal") for name in ("full", "minimal"))
        for number, (name, value) in enumerate(ROUNDS.items()):
            rows = [
                f"{number * objects + obj},idu={obj},N,3,2026-05-04 08:00:00,hr,usr,fname,,{value(obj)}\n"
                for obj in range(1, objects + 1)
            ]
            for job in (full, minimal):
                text = HEADER + "".join(rows)
                (job.directory / "in" / f"{number}.csv").write_text(text, "utf-8")
            seconds = [_publish(report, name, job) for job in (full, minimal)]
            report.add(f"{name}: minimal / full", seconds[1] / seconds[0], "", bound=RATIO)
    return report


def _job(folder: Path, minimal: bool) -> Settings:
    (folder / "in").mkdir(parents=True)
    path = folder / "job.toml"
    path.write_text(
        '[[sources]]\nname = "hr"\nsnapshots = ["in"]\n[dispatch]\npath = "out"\n'
        f"[documents]\nminimal = {str(minimal).lower()}\n"
    )
    return load(path)


def _publish(report: Report, name: str, job: Settings) -> float:
    kind = "minimal" if job.documents.minimal else "full"
    start = time.process_time()
    with LocalEngine(processes=1) as engine, Job(job, engine) as instance:
        published = instance.run()
    seconds = time.process_time() - start
    report.add(f"{name}, {kind}: processor time", seconds, "s")
    report.add(f"{name}, {kind}: documents", published.documents, "")
    return seconds
