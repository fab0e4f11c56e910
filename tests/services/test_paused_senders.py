"""Replays that are paused for longer than a transaction may last: nobody else has taken over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from publisher.cli.main import cli
from tests.services.topics import Topics
from tests.support.programs import start_program

COUNT = 40_000
LATE = 5_000
"""Open records of a transaction whose documents have all been handed to the client."""
JOB = """
[dispatch]
transaction_size = 10_000
transaction_ms = 10_000
[dispatch.kafka]
"transaction.timeout.ms" = "6000"
"batch.num.messages" = "20"  # sends slowly enough to be stopped
"max.in.flight.requests.per.connection" = "1"
[run]
lanes = 1
engine = "local"
"""


@pytest.fixture
def words(kafka: Topics, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """A new topic, and a command that sends documents to it."""
    log, job, topic = tmp_path / "log.csv", tmp_path / "job.toml", kafka.make()
    log.write_text(
        "".join(
            f"{n},idu={n},N,1,2026-01-01 00:00:00,,usr,fname,,{'a' * 500}\n"
            for n in range(1, COUNT + 1)
        )
    )
    job.write_text(JOB)
    target = f"kafka://{kafka.bootstrap}/{topic}"
    if request.param == "replay":
        return topic, ["replay", str(log), "-c", str(job), "--to", target]
    files = str(tmp_path / "files")
    assert (
        CliRunner().invoke(cli, ["replay", str(log), "-c", str(job), "--to", files]).exit_code == 0
    )
    return topic, ["dispatch", files, "-c", str(job), "--to", target]


BOTH = pytest.mark.parametrize(
    "words", ["replay", pytest.param("dispatch", marks=pytest.mark.long)], indirect=True
)


@contextmanager
def paused(kafka: Topics, topic: str, words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Starts a command, and stops all of its processes in a transaction."""
    pipe = subprocess.PIPE
    process = start_program(words, starts_session=True, stdout=pipe, stderr=pipe)
    try:
        while True:
            assert process.poll() is None, process.communicate()
            if open_records(kafka, topic) >= LATE:
                os.killpg(process.pid, signal.SIGSTOP)
                if open_records(kafka, topic) >= LATE:
                    break
                os.killpg(process.pid, signal.SIGCONT)
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@cache
def admin_of(bootstrap: str) -> AdminClient:
    """One client: to make one takes longer than a transaction may stay open."""
    return AdminClient({"bootstrap.servers": bootstrap})


def open_records(kafka: Topics, topic: str) -> int:
    """Counts the records of an open transaction in a topic with one partition."""
    admin, place = admin_of(kafka.bootstrap), TopicPartition(topic, 0)
    latest = {place: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
    level = IsolationLevel.READ_COMMITTED
    answer = admin.list_offsets(latest, isolation_level=level, request_timeout=30)[place]
    committed = answer.result(30).offset
    return kafka.ends(topic)[0] - int(committed)


def go_on(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wakes a command; returns its exit code and its messages."""
    os.killpg(process.pid, signal.SIGCONT)
    _, messages = process.communicate(timeout=120)
    return process.returncode, messages


@BOTH
def test_a_transaction_that_timed_out_is_no_other_instance(
    kafka: Topics, words: tuple[str, list[str]]
) -> None:
    topic, command = words
    with paused(kafka, topic, command) as process:
        deadline = time.monotonic() + 60
        while open_records(kafka, topic):  # until the broker ends it
            assert time.monotonic() < deadline
            time.sleep(0.2)
        code, messages = go_on(process)
    assert code == 0, messages
    keys = [record.key for record in kafka.read(topic)]
    assert len(keys) == len({*keys}) == COUNT
    # the pause did hit a transaction
    assert len(kafka.read(topic, "read_uncommitted")) > COUNT


@BOTH
def test_a_fenced_producer_continues_if_nobody_else_has_sent(
    kafka: Topics, words: tuple[str, list[str]]
) -> None:
    topic, command = words
    report = CliRunner().invoke(cli, [*command, "--dry-run", "--json"])
    run = json.loads(report.stdout)["run"]
    name = f"xds-publisher/{run}/{topic}/0"
    with paused(kafka, topic, command) as process:
        # as the broker may answer after a transaction that timed out
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.close()
        code, messages = go_on(process)
    assert code == 0, messages
    keys = [record.key for record in kafka.read(topic)]
    assert len(keys) == len({*keys}) == COUNT


@BOTH
def test_another_instance_that_has_sent_documents_ends_it(
    kafka: Topics, tmp_path: Path, words: tuple[str, list[str]]
) -> None:
    topic, command = words
    with paused(kafka, topic, command) as process:
        if command[0] == "dispatch":
            other = tmp_path / "copy"
            subprocess.run(["cp", "-r", command[1], other], check=True)
            command = [command[0], str(other), *command[2:]]
        else:
            other = tmp_path / "other"  # the ledger is beside the job file
            other.mkdir()
            (other / "job.toml").write_text(JOB)
            command[command.index("-c") + 1] = str(other / "job.toml")
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == 0, result.output
        code, messages = go_on(process)
    assert (code, "a newer instance of the job has taken over" in messages) == (6, True), messages
    keys = [record.key for record in kafka.read(topic)]
    assert len(keys) == len({*keys}) == COUNT
