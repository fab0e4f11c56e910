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

import sqlalchemy as sa

from publisher.triggers import Style
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


def test_a_consumer_has_what_the_tables_have(
    postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    """Of each style of triggers; one log holds the changes of all tables."""
    rng = random.Random(1)
    logged = [Logged(postgres, f"people_{style.name.lower()}", style, COLUMNS) for style in Style]
    mirrors = {
        one.table: Mirror(postgres, one.table, strict=one.style is Style.PER_FIELD)
        for one in logged
    }
    topic = kafka.make(partitions=3)
    job = write_job(tmp_path / "people.toml", postgres, kafka, topic)

    def work(steps: int) -> None:
        for one in logged:
            one.work(rng, steps)

    work(20)
    with following(job) as process:
        for _ in range(150):
            work(5)
        wait_until_read(postgres, process)
        work(20)
        wait_until_read(postgres, process)
    records = kafka.read(topic)
    for table, mirror in mirrors.items():
        mine = f",table={table},schema=".encode()
        assert mirror.apply(one for one in records if one.key and mine in one.key) > 100, table
        assert mirror.differences(table) == []
