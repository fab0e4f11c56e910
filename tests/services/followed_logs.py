"""Jobs that follow an event log of a real database and publish to Kafka."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from publisher.engine.contract import EngineName
from tests.services.databases import Place
from tests.services.logged_tables import LOG
from tests.services.topics import Topics

ROOT = Path(__file__).parents[2]

COLUMNS = ("name", "size", "pay", "active", "born", "seen", "photo", "code")

JOB = """
[[sources]]
format = "event-log"
table = "{log}"
schema = "public"

[database]
url = "{url}"

[documents]
time_syntax = 3

[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"

[follow]
polling_interval = 0

[run]
lanes = 3
engine = "{engine}"
"""


def write_job(
    path: Path, place: Place, kafka: Topics, topic: str, engine: EngineName = "local"
) -> Path:
    names = {"log": LOG, "url": place.url, "bootstrap": kafka.bootstrap, "topic": topic}
    path.write_text(JOB.format(**names, engine=engine))
    return path


def wait_until_read(place: Place, process: subprocess.Popen[str], seconds: float = 120) -> None:
    """Returns when no row of the log is N any more."""
    deadline = time.monotonic() + seconds
    while left := place.query(f"SELECT count(*) FROM {LOG} WHERE status = 'N'")[0][0]:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, f"{left} rows are still N"
        time.sleep(0.1)


def make_event_log(place: Place) -> None:
    place.execute(
        "CREATE TABLE event_log (record_id INTEGER PRIMARY KEY, table_key TEXT, status CHAR(1),"
        " event_type INTEGER, event_time TIMESTAMP, perpetrator TEXT, table_name TEXT,"
        " column_name TEXT, old_value TEXT, new_value TEXT)",
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)",
    )


def scrape_metrics(port: int) -> dict[tuple[str, ...], float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(v for k, v in sample.labels.items() if k != "job_name")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
