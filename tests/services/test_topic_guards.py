"""Topics that would lose documents, or hide them: compacted, replaced, deleted, with an open transaction."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from publisher.cli.main import cli
from publisher.consumer import Inbox, TopicError
from publisher.consumer.topics import TopicReader
from tests.services.topics import Topics
from tests.support.programs import start_program

JOB = """
[[sources]]
name = "hr"
table = "event_log"
[database]
url = "{url}"
[tables.usr]
key = ["idu"]
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
timeout = 10
{dispatch}
[job]
name = "{name}"
[run]
lanes = 2
engine = "local"
"""


def run(*words: object) -> tuple[int, str]:
    """Exit code and all output of a command."""
    result = CliRunner().invoke(cli, [str(word) for word in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


class Job:
    """A job with a live event log in SQLite, and the commands on it."""

    def __init__(self, kafka: Topics, folder: Path, topic: str, dispatch: str = "") -> None:
        self.kafka, self.topic = kafka, topic
        self.file, self.path = folder / "hr.db", folder / "job.toml"
        self.sql("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
        url = f"sqlite:///{self.file}"
        code, output = run(
            *("ddl", "--database", url, "--table", "usr", "--style", "per-field", "--apply")
        )
        assert code == 0, output
        values = {"url": url, "bootstrap": kafka.bootstrap, "topic": topic, "dispatch": dispatch}
        self.path.write_text(JOB.format(name=f"job-{topic}", **values))

    def sql(self, *statements: str) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        with closing(sqlite3.connect(self.file)) as database, database:
            for statement in statements:
                rows = database.execute(statement).fetchall()
        return rows

    def write(self, first: int, last: int, fname: str) -> None:
        """Inserts or updates users."""
        for number in range(first, last + 1):
            self.sql(
                f"INSERT INTO usr VALUES ({number}, '{fname}') "
                f"ON CONFLICT DO UPDATE SET fname = '{fname}'"
            )

    def waiting(self) -> int:
        """The number of rows with status N."""
        return int(str(self.sql("SELECT count(*) FROM event_log WHERE status = 'N'")[0][0]))

    def run(self, *words: object) -> tuple[int, str]:
        return run(*words, "-c", self.path)


def create(kafka: Topics, name: str, partitions: int, **settings: str) -> str:
    """Creates a topic with a certain name, and waits until its name is free and the topic is there."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
    kafka.made.append(name)
    return name


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_is_refused_at_each_start(
    kafka: Topics, tmp_path: Path, policy: str
) -> None:
    job = Job(kafka, tmp_path, kafka.make())
    job.write(1, 3, "a")
    assert job.run("publish")[0] == 0
    kafka.alter(job.topic, cleanup_policy=policy)
    cure = (
        f"kafka-configs --bootstrap-server {kafka.bootstrap} --entity-type topics --entity-name "
        f"{job.topic} --alter --add-config cleanup.policy=delete"
    )
    for command, code in (("check", 3), ("publish", 1), ("publish", 1)):
        job.write(1, 3, "b")
        assert job.run(command)[0] == code
        assert cure in " ".join(job.run(command)[1].split())
    assert job.waiting()
    assert len(kafka.read(job.topic)) == 3
    kafka.alter(job.topic, cleanup_policy="delete")
    assert job.run("check")[0] == 0
    assert job.run("publish")[0] == 0
    assert job.waiting() == 0


def test_compacted_topics_of_tables_and_dead_letters_are_refused(
    kafka: Topics, tmp_path: Path
) -> None:
    letters = kafka.make(cleanup_policy="compact")
    job = Job(kafka, tmp_path, kafka.make(), f'dead_letter_topic = "{letters}"')
    job.write(1, 3, "a")
    code, output = job.run("publish")
    assert code == 1
    assert f"topic {letters} has cleanup.policy compact" in output
    kafka.alter(letters, cleanup_policy="delete")
    name = create(kafka, f"{job.topic}.usr", 1, **{"cleanup.policy": "compact"})
    job.path.write_text(job.path.read_text().replace(f'"{job.topic}"', f'"{job.topic}.{{table}}"'))
    code, output = job.run("publish")
    assert code == 1
    assert f"topic {name} has cleanup.policy compact" in output
    assert not kafka.read(name)


def test_replay_refuses_a_compacted_topic(kafka: Topics, tmp_path: Path) -> None:
    topic, log = kafka.make(cleanup_policy="compact"), tmp_path / "log.csv"
    log.write_text("1,idu=1,N,1,2026-01-01 00:00:00,,usr,fname,,a\n")
    code, output = run("replay", log, "--to", f"kafka://{kafka.bootstrap}/{topic}")
    assert code == 1
    assert f"topic {topic} has cleanup.policy compact" in output


@pytest.fixture
def opened(kafka: Topics) -> Iterator[Producer]:
    """Another program's producer, in a transaction."""
    settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": "another"}
    producer = Producer({**settings, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer
    producer.abort_transaction(30)
    producer.close()


def test_verify_says_unsettled_behind_an_open_transaction(
    kafka: Topics, tmp_path: Path, opened: Producer
) -> None:
    job = Job(kafka, tmp_path, kafka.make())
    job.write(1, 6, "a")
    job.run("publish")
    (end,) = kafka.ends(job.topic).values()
    opened.produce(job.topic, b"<nds/>", b"any")
    opened.flush(30)
    job.write(3, 9, "b")
    job.sql("DELETE FROM usr WHERE idu = 1")
    assert job.run("publish")[0] == 0
    code, output = job.run("verify", "--wait", 0)
    assert code == 0, output
    assert f"{job.topic}/0 has an open transaction at offset {end}" in output
    assert "usr: 1 equal, 8 unsettled" in output
    code, output = job.run("verify", "--repair", "--dry-run", "--wait", 0)
    assert (code, "to publish: nothing" in output) == (0, True)
    assert "nothing to repair" in job.run("verify", "--repair", "--wait", 0)[1]
    opened.abort_transaction(30)
    opened.begin_transaction()
    assert json.loads(job.run("verify", "--json")[1])["hidden"] == []
    assert "8 equal" in job.run("verify")[1]


def test_recover_refuses_an_open_transaction(
    kafka: Topics, tmp_path: Path, opened: Producer
) -> None:
    job = Job(kafka, tmp_path, kafka.make())
    job.write(1, 3, "a")
    job.run("publish")
    (end,) = kafka.ends(job.topic).values()
    opened.produce(job.topic, b"<nds/>", b"any")
    opened.flush(30)
    job.write(1, 3, "b")
    job.run("publish")
    job.sql("UPDATE event_log SET status = 'N' WHERE record_id > 3")
    (tmp_path / ".xds-publisher").rename(tmp_path / "lost")
    for words in (("recover", "--dry-run"), ("recover",), ("recover",)):
        code, output = job.run(*words)
        assert (code, f"{job.topic}/0 has an open transaction at offset {end}" in output) == (
            5,
            True,
        ), output
    assert len(kafka.read(job.topic, "read_committed", wait=False)) == 3
    opened.abort_transaction(30)
    opened.begin_transaction()
    code, output = job.run("recover")
    assert code == 0, output
    assert "3 document(s) of objects that the topic may have already" in output
    recovered = [r for r in kafka.read(job.topic) if ("recovered", b"at-least-once") in r.headers]
    assert len(recovered) == 3


def recreate(kafka: Topics, topic: str, partitions: int = 1) -> None:
    """Deletes a topic and creates it again."""
    delete(kafka, topic)
    create(kafka, topic, partitions)


def delete(kafka: Topics, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
    kafka.made.remove(topic)
    while topic in admin.list_topics(timeout=30).topics:
        time.sleep(0.05)


@pytest.mark.parametrize("more", [0, 5])
def test_a_consumer_refuses_a_topic_that_was_created_again(
    kafka: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """Also if it has as many records as before, and if only the inbox sees its documents."""
    monkeypatch.chdir(tmp_path)  # a replay keeps its ledger there
    topic, log = kafka.make(), tmp_path / "log.csv"
    log.write_text("".join(f"{n},idu={n},N,1,2026-01-01 00:00:00,,usr,a,,b\n" for n in (1, 2, 3)))
    target, settings = f"kafka://{kafka.bootstrap}/{topic}", {"bootstrap.servers": kafka.bootstrap}
    code, output = run("replay", log, "--to", target)
    assert code == 0, output
    inbox = Inbox()
    with TopicReader(settings, topic) as reader:
        assert len(list(inbox.in_order(reader.deliveries(follow=False, ends=True)))) == 4
    state = json.loads(json.dumps(inbox.snapshot()))
    with TopicReader(settings, topic, start=Inbox(snapshot=state).resume_at()) as reader:
        assert not list(reader.deliveries(follow=False))
    recreate(kafka, topic)
    numbers = range(1, 4 + more)
    log.write_text("".join(f"{n},idu={n},N,1,2026-01-01 00:00:00,,usr,a,,c\n" for n in numbers))
    assert run("replay", log, "--to", target)[0] == 0
    again = Inbox(snapshot=state)
    with pytest.raises(
        TopicError, match=f"{topic}: the topic was deleted and created again: its id"
    ):
        TopicReader(settings, topic, start=again.resume_at())
    with (
        TopicReader(settings, topic) as reader,
        pytest.raises(TopicError, match="deleted and created again: its id"),
    ):
        list(again.in_order(reader.deliveries(follow=False)))
    assert again.snapshot() == state


def test_a_topic_that_was_created_again_is_refused_until_it_is_repaired(
    kafka: Topics, tmp_path: Path
) -> None:
    job = Job(kafka, tmp_path, kafka.make())
    job.write(1, 4, "a")
    assert job.run("publish")[0] == 0
    recreate(kafka, job.topic)
    job.write(3, 5, "b")
    for command, code in (("check", 3), ("publish", 1), ("publish", 1)):
        found = job.run(command)
        assert found[0] == code, found
        assert f"topic {job.topic} was deleted and created again" in " ".join(found[1].split())
    assert (job.waiting(), kafka.read(job.topic)) == (3, [])
    code, output = job.run("verify", "--repair", "--baseline")
    assert code == 0, output
    assert job.run("check")[0] == 0
    assert job.run("publish")[0] == 0
    assert "5 equal" in job.run("verify")[1]


@pytest.mark.parametrize("again", [True, pytest.param(False, marks=pytest.mark.long)])
def test_follow_notices_that_its_topic_is_another_one_or_gone(
    kafka: Topics, tmp_path: Path, again: bool
) -> None:
    job = Job(kafka, tmp_path, kafka.make())
    pipe = subprocess.PIPE
    follow = ["publish", "--follow", "-c", str(job.path)]
    with start_program(follow, stdout=pipe, stderr=pipe) as process:
        try:
            job.write(1, 3, "a")
            while job.waiting():
                assert process.poll() is None
                time.sleep(0.1)
            if again:
                recreate(kafka, job.topic)
            else:
                delete(kafka, job.topic)
            deadline, number = time.monotonic() + 150, 3
            while process.poll() is None and time.monotonic() < deadline:
                job.write(number := number + 1, number, "b")
                time.sleep(1)
            assert process.poll() == 1
            _, messages = process.communicate()
        finally:
            process.kill()
    text = "was deleted and created again" if again else f"has no topic {job.topic}"
    assert text in messages
    assert "Failed to flush" not in messages
