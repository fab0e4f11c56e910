"""Runs the program's ``replay``: in this process, in one Spark session, or as a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.engine.contract import EngineName
from publisher.ledger.conservation import RunReport
from publisher.runs.replay import replay as run_replay
from tests.bench.data import cache

TABLE = """
[tables.usr]
key = ["idu"]

[tables.usr.columns]
idu = "int"
fname = "string"
lname = "string"
photo = "octet"
"""
BOTH_COMPILERS = """
[spark]
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=4"
"""
"""The program starts its JVM with the first compiler alone, which is right for short runs; Spark's own
long jobs are up to three times slower so (measured), and are not to be beaten that way."""

SOURCE = """
[[sources]]
format = "event-log"
schema = "indirect"
"""


@dataclass(frozen=True, slots=True)
class Replay:
    """A finished replay; ``seconds`` are without the start of the session."""

    seconds: float
    report: RunReport


@contextmanager
def workspace() -> Iterator[Path]:
    """A directory beside the cached inputs that is gone afterwards."""
    with TemporaryDirectory(dir=cache(), prefix="run-") as name:
        yield Path(name)


def job_file(directory: Path, database: str | None = None, *, both_compilers: bool = False) -> Path:
    """The job file of the benchmarks; what is known of the table is in it or in a database."""
    path = directory / "bench.toml"
    known = TABLE if database is None else f'[database]\nurl = "{database}"\n'
    path.write_text(SOURCE + known + (BOTH_COMPILERS if both_compilers else ""))
    return path


def settings_of(job: Path) -> Settings:
    """The settings in a job file."""
    return load(job)


def replay(settings: Settings, log: Path, to: Path) -> Replay:
    """Replays in this process into an empty directory.  Fails unless everything was published."""
    shutil.rmtree(to, ignore_errors=True)
    start = time.perf_counter()
    report = run_replay(settings, [log], str(to))
    seconds = time.perf_counter() - start - report.seconds.get("session", 0.0)
    check(report.read, report.outcomes)
    return Replay(seconds, report)


def arguments(log: Path, to: Path, job: Path) -> list[str]:
    """Command line of a replay, for the Python interpreter."""
    return ["-m", "publisher.cli", "replay", str(log), "--to", str(to), "-c", str(job)]


def replay_process(log: Path, to: Path, job: Path, engine: EngineName) -> subprocess.Popen[bytes]:
    """Starts a replay as a process of its own."""
    command = [sys.executable, *arguments(log, to, job), "--engine", engine]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def check_directory(to: Path) -> None:
    """Fails unless what a replay left says that all was published."""
    summary = json.loads((to / "run.json").read_text())
    check(summary["read"], summary["outcomes"])


def check(read: int, outcomes: dict[str, int]) -> None:
    """Fails unless every record that was read was published: benchmark logs have no others."""
    if outcomes["published"] != read or not read:
        raise RuntimeError(f"{read} records were read, but {outcomes}")
