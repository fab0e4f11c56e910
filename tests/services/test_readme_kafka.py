"""The Kafka chapter of the README does what it says: its job file, its consumer, its settings."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.config.job_file import load
from publisher.dispatch.kafka.client import KafkaClients
from tests.services.topics import Topics

ROOT = Path(__file__).parents[2]
CHAPTER = (ROOT / "README.md").read_text("utf-8").partition("\n## Kafka\n")[2].partition("\n## ")[0]
BROKER = '"localhost:9092"'


def blocks(kind: str) -> list[str]:
    """The blocks of the chapter in one language."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", CHAPTER, re.MULTILINE | re.DOTALL)


def here(text: str, kafka: Topics, topic: str) -> str:
    """The same for the brokers of the tests and a topic of its own."""
    assert BROKER in text
    assert '"xds"' in text
    return text.replace(BROKER, f'"{kafka.bootstrap}"').replace('"xds"', f'"{topic}"')


def write_log(path: Path) -> None:
    """The table and the log of the chapter before, and a row that cannot be published."""
    said = ["ddl", "--database", f"sqlite:///{path}", "--table", "usr", "--style", "per-field"]
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, photo BLOB)")
    connection.close()
    assert CliRunner().invoke(cli, [*said, "--apply"]).exit_code == 0
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "INSERT INTO usr VALUES (1, 'Jack', x'BBBB'); UPDATE usr SET fname = 'John';"
            "UPDATE usr SET idu = 2;"
        )
    connection.close()


@contextmanager
def consuming(program: str) -> Iterator[Queue[str]]:
    """The lines that the consumer prints, as they come."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    printed = process.stdout

    def read() -> None:
        for line in printed:
            lines.put(line)

    reader = Thread(target=read)
    reader.start()
    try:
        yield lines
        assert process.poll() is None, process.communicate()[1]
    finally:
        process.kill()
        process.wait()
        reader.join()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def test_the_consumer_prints_what_the_job_publishes(
    kafka: Topics, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("spark")
    topic = kafka.make()
    write_log(tmp_path / "hr.db")
    (tmp_path / "hr.toml").write_text(here(blocks("toml")[0], kafka, topic))
    result = CliRunner().invoke(cli, ["publish", "-c", str(tmp_path / "hr.toml")])
    assert result.exit_code == 0, result.output
    (program,) = blocks("python")
    assert len(program.splitlines()) <= 14
    with consuming(here(program, kafka, topic).replace("copy-of-hr", topic)) as lines:
        found = [lines.get(timeout=60).rstrip("\n").split(" ", 2) for _ in range(4)]
    assert sorted(line[:2] for line in found) == [
        ["hr:1", "add"],
        ["hr:3", "modify"],
        ["hr:4", "delete"],
        ["hr:5", "add"],
    ]
    assert all(document.startswith("<nds ") for _, _, document in found)
    shown = re.findall(r"^(hr:\d+ \w+) <nds", CHAPTER, re.MULTILINE)
    assert sorted(shown) == sorted(f"{event} {operation}" for event, operation, _ in found)


def test_the_settings_that_are_shown_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, login = blocks("toml")
    monkeypatch.setenv("KAFKA_USER", "hr-user")
    (tmp_path / "kafka-password").write_text("pa55-word\n")
    path = tmp_path / "hr.toml"
    path.write_text(job + login)
    settings = load(path).for_publish()
    assert settings.kafka.kafka["sasl.username"] == "hr-user"
    assert settings.kafka.kafka["sasl.password"] == "pa55-word"
    # librdkafka opens the certificates, which are where the system has them
    path.write_text(job + re.sub(r'"ssl\.ca\.location".*\n', "", login))
    KafkaClients(load(path).kafka).judge()
