"""The job of the company: its database and recordings, and the counts that publishing them gives."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from publisher.config.job_file import load
from publisher.engine.local import LocalEngine
from publisher.ledger.conservation import RunReport
from publisher.model.change import Outcome, Reason
from publisher.runs.job import Job
from tests.support.company.database import write_database, write_snapshot
from tests.support.company.recorded_sources import RecordedSource, write_recordings
from tests.support.company.story import NOW, Counts, Story

DATABASE = "company.sqlite"
SNAPSHOT = "event-log.csv"
JOB = "company.toml"
JOB_FILE = Path(__file__).with_name(JOB)


def prepare(directory: Path, story: Story) -> list[RecordedSource]:
    """Creates database, snapshot, job file and recordings in the directory; returns the job's sources."""
    directory.mkdir(parents=True, exist_ok=True)
    write_database(directory / DATABASE, story.company, story.events)
    write_snapshot(directory / SNAPSHOT, story.events)
    shutil.copyfile(JOB_FILE, directory / JOB)
    return write_recordings(directory / JOB, story)


def publish(directory: Path) -> RunReport:
    """Publishes all sources on the local engine."""
    with LocalEngine() as engine, Job(load(directory / JOB), engine) as job:
        return job.run(now=datetime.fromisoformat(NOW))


def differences(sources: Sequence[RecordedSource], report: RunReport) -> list[str]:
    """Returns the differences between the counts of a run and the expected ones, one line each."""
    totals: Counter[tuple[Outcome, Reason | None]] = Counter()
    wanted: dict[str, int] = {}
    for source in sources:
        totals.update(source.counts)
        counts = flat_counts(source.counts).items()
        wanted |= {f"{source.name}: {key}": n for key, n in counts if "/" not in key}
    wanted |= flat_counts(totals)
    actual = _flat_report(report)
    return [
        f"{name}: {actual.get(name, 0)}, expected {wanted.get(name, 0)}"
        for name in sorted(wanted.keys() | actual.keys())
        if wanted.get(name, 0) != actual.get(name, 0)
    ]


def flat_counts(counts: Counts) -> dict[str, int]:
    """Returns counts by outcome, and by outcome and reason as ``rejected/table-key``."""
    flat = {outcome.label: 0 for outcome in Outcome}
    for (outcome, reason), count in counts.items():
        name = outcome.label
        flat[name] += count
        if reason is not None:
            flat[f"{name}/{reason}"] = count
    return flat | {"read": sum(counts.values())}


def _flat_report(report: RunReport) -> dict[str, int]:
    flat: dict[str, int] = {**report.outcomes, "read": report.read}
    for outcome, reasons in report.reasons.items():
        flat |= {f"{outcome}/{reason}": count for reason, count in reasons.items()}
    for source in report.sources:
        counts: Mapping[str, int] = {**source.outcomes, "read": source.read}
        flat |= {f"{source.name}: {key}": count for key, count in counts.items()}
    return flat
