"""``bench long-follow``: commands on the ledger of a job that has published ten polls a second for a day.

The ledger is simulated from a real run, see ``simulated_day``; then the job publishes some polls of its own.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from publisher.config.settings import Settings
from publisher.database.connection_cache import keep_connections
from publisher.engine.local import LocalEngine
from publisher.ledger.job import Ledger
from publisher.runs.job import Job
from tests.bench.log_table import SOURCE, TABLE, connect, make_table
from tests.bench.program import TABLE as KNOWN
from tests.bench.program import settings_of, workspace
from tests.bench.report import Report
from tests.bench.simulated_day import RUNS_A_DAY, TemplateRun, key_of, write_day
from tests.bench.triggerless import MIB
from tests.services.kafka import KafkaCluster, cluster
from tests.services.servers import Server, postgresql

PARTITIONS = 8
POLLS = 60
"""Polls that the job publishes before the day, and after it."""
POLL_GROWTH = 1.25
"""How much longer a poll may take after the day."""
SECONDS = {"publish": 1.0, "explain a record": 1.0, "explain an object": 1.0, "history": 1.0}
TEMPLATE, JOB = "templatejob", "long"
TEMPLATE_KEY, TEMPLATE_ID = "idu=987654321", 7_000_000_000_001
COLUMNS = ("fname", "lname", "photo")
INSERT = f"""
INSERT INTO {TABLE} (record_id, table_key, event_type, perpetrator, table_name, column_name,
    old_value, new_value)
OVERRIDING SYSTEM VALUE VALUES (%s, %s, 2, 'hr', 'usr', %s, 'dTd1', 'eDd4')
"""
SINK = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
"""


@dataclass(frozen=True, slots=True)
class _Place:
    """The servers, and a directory for jobs."""

    server: Server
    brokers: KafkaCluster
    work: Path

    def job(self, name: str) -> Path:
        """Writes a job file with a topic of its own."""
        path = self.work / f"{name}.toml"
        topic = self.brokers.topics.make(PARTITIONS)
        sink = SINK.format(bootstrap=self.brokers.bootstrap, topic=topic)
        source = SOURCE.format(table=TABLE, url=self.server.url)
        path.write_text(f'[job]\nname = "{name}"\n{source}{KNOWN}{sink}')
        return path

    def publish(self, settings: Settings, keys: Sequence[str], first_id: int) -> float:
        """Publishes a poll with the three fields of each object; returns the median of their seconds."""
        seconds = []
        with (
            connect(self.server) as connection,
            keep_connections() as cache,
            LocalEngine() as engine,
            Job(settings, engine) as job,
        ):
            for number, key in enumerate(keys):
                for place, column in enumerate(COLUMNS, first_id + number * len(COLUMNS)):
                    connection.execute(INSERT.encode(), (place, key, column))
                start = time.perf_counter()
                cache.run += 1
                report = job.run(lanes=1)
                job.tidy()
                seconds.append(time.perf_counter() - start)
                if report.documents != 1:
                    raise RuntimeError(f"a poll of three events published {report}")
        return statistics.median(seconds)


def run(*, runs: int = 3, events: int | None = None, **_: int | None) -> Report:
    """``events`` is the number of runs of the day."""
    report = Report("long-follow")
    with (
        postgresql() as server,
        cluster(options=["-Xmx512m"]) as brokers,
        workspace() as work,
    ):
        place = _Place(server, brokers, work)
        make_table(server)
        template = settings_of(place.job(TEMPLATE))
        place.publish(template, [TEMPLATE_KEY], TEMPLATE_ID)
        copied = TemplateRun.of(
            Ledger(template.ledger_folder, template.name), TEMPLATE_KEY, TEMPLATE_ID
        )
        job = place.job(JOB)
        settings = settings_of(job)
        before = place.publish(settings, [key_of(0)] * POLLS, 1)
        ledger = Ledger(settings.ledger_folder, settings.name)
        first = ledger.last_number() + 1
        count = events or RUNS_A_DAY
        next_id = write_day(ledger, copied, range(first, first + count), time.time())
        after = place.publish(settings, [key_of(0)] * POLLS, next_id)
        report.add("runs in the ledger", ledger.last_number(), "")
        sizes = [path.stat().st_size for path in ledger.root.rglob("*") if path.is_file()]
        report.add("files in the ledger", len(sizes), "")
        report.add("size of the ledger", sum(sizes) / MIB, "MiB")
        report.add("a poll before", before, "s")
        report.add("a poll after", after, "s", bound=POLL_GROWTH * before)
        _measure_commands(report, job, ledger.root, first + count // 2, runs)
    return report


def _measure_commands(report: Report, job: Path, root: Path, middle: int, runs: int) -> None:
    record = str(middle * len(COLUMNS))
    commands = {
        "publish": ["publish", "-c", str(job)],
        "explain a record": ["explain", str(root), record],
        "explain an object": ["explain", str(root), key_of(middle)],
        "history": ["history", key_of(middle), str(root)],
    }
    expected = {"explain a record": record, "explain an object": key_of(middle)}
    for name, command in commands.items():
        seconds = []
        for _ in range(runs):
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "publisher.cli", *command],
                capture_output=True,
                text=True,
                check=False,
            )
            seconds.append(time.perf_counter() - start)
            if done.returncode or expected.get(name, "") not in done.stdout:
                raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
        report.add(f"{name}: fastest", min(seconds), "s", bound=SECONDS[name])
