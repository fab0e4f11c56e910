"""Real tables, triggers, event log, ``publish --follow``, real broker: a consumer's copy is equal."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from publisher.triggers import Style
from tests.services.databases import Place
from tests.services.followed_logs import COLUMNS, wait_until_read, write_job
from tests.services.logged_tables import Logged
from tests.services.mirror import Mirror
from tests.services.topics import Topics
from tests.support.programs import start_program


@contextmanager
def following(job: Path) -> Iterator[subprocess.Popen[str]]:
    """``publish --follow`` as a process; it must end well when it is told to."""
    words = ["publish", "--follow", "-c", str(job)]
    process = start_program(words, stderr=subprocess.PIPE)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        _, message = process.communicate(timeout=60)
        assert process.returncode == 0, message
    finally:
        process.kill()
        process.wait()


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
    job = write_job(tmp_path / "people.toml", postgres, kafka, topic, "spark")

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
