"""Real tables, triggers, event log, ``publish --follow``, real broker: a consumer's copy is equal."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from publisher.database.triggers import Style
from tests.services.databases import Place
from tests.services.logged_tables import LOG, Logged
from tests.services.mirror import Mirror
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

[spark]
master = "local[2]"
"""


def write_job(path: Path, place: Place, kafka: Topics, topic: str) -> Path:
    path.write_text(JOB.format(log=LOG, url=place.url, bootstrap=kafka.bootstrap, topic=topic))
    return path


@contextmanager
def following(job: Path) -> Iterator[subprocess.Popen[str]]:
    """``publish --follow`` as a process; it must end well when it is told to."""
    command = [sys.executable, "-m", "publisher.cli", "publish", "--follow", "-c", str(job)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.wait()


def wait_until_read(place: Place, process: subprocess.Popen[str], seconds: float = 120) -> None:
    """Returns when no row of the log is N any more."""
    engine = sa.create_engine(place.url, poolclass=sa.NullPool)
    question = sa.text(f"SELECT count(*) FROM {LOG} WHERE status = 'N'")
    deadline = time.monotonic() + seconds
    while True:
        with engine.connect() as connection:
            left = connection.execute(question).scalar()
        if not left:
            return
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, f"{left} rows are still N"
        time.sleep(0.1)


@pytest.mark.parametrize("style", list(Style))
def test_a_consumer_has_what_the_tables_have(
    style: Style, postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    rng = random.Random(style)
    logged = Logged(postgres, "people", style, COLUMNS)
    mirror = Mirror(postgres, "people", strict=style is Style.PER_FIELD)
    topic = kafka.make(partitions=3)
    job = write_job(tmp_path / "people.toml", postgres, kafka, topic)
    logged.work(rng, 20)
    with following(job) as process:
        for _ in range(150):
            logged.work(rng, 5)
        wait_until_read(postgres, process)
        logged.work(rng, 20)
        wait_until_read(postgres, process)
    assert mirror.apply(kafka.read(topic)) > 100
    assert mirror.differences("people") == []
