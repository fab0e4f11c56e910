"""The Kafka tutorial prints what it shows; the settings of a login and the commands of ACLs work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from publisher.config.job_file import load
from publisher.dispatch.kafka.client import KafkaClients
from tests.services.jars import java
from tests.services.kafka import brokers, quick_start
from tests.services.topics import Topics
from tests.support.documentation import (
    ShownCommand,
    agrees,
    blocks,
    comparable,
    run,
    shown_commands,
    text_of,
)

TUTORIAL = text_of("tutorials/log-to-kafka.md")
BROKER = '"localhost:9092"'


def adapt(text: str, kafka: Topics, topic: str) -> str:
    """Replaces the broker and the topic of a page by those of the test."""
    assert BROKER in text
    assert '"xds"' in text
    return text.replace(BROKER, f'"{kafka.bootstrap}"').replace('"xds"', f'"{topic}"')


def assert_prints_as_shown(command: ShownCommand, kafka: Topics, topic: str) -> None:
    printed = run(command.line).replace(kafka.bootstrap, "localhost:9092").replace(topic, "xds")
    assert comparable(printed) == comparable("\n".join(command.printed))


@contextmanager
def start_consumer(program: str) -> Iterator[Queue[str]]:
    """Starts a consumer and yields the lines that it prints."""
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


@pytest.mark.xdist_group("spark")
def test_the_tutorial_prints_what_it_shows(
    kafka: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    topic = kafka.make()
    (job,) = blocks(TUTORIAL, "toml")
    Path("hr.toml").write_text(adapt(job, kafka, topic))
    commands = list(shown_commands(TUTORIAL))
    for command in commands:
        if "consumer.py" not in command.line:
            assert_prints_as_shown(command, kafka, topic)
    (program,) = blocks(TUTORIAL, "python")
    assert len(program.splitlines()) <= 14
    (consumption,) = [command for command in commands if "consumer.py" in command.line]
    with start_consumer(adapt(program, kafka, topic)) as lines:
        printed = [lines.get(timeout=60).rstrip("\n") for _ in consumption.printed]
    pairs = zip(sorted(consumption.printed), sorted(printed), strict=True)
    assert all(agrees(shown, line) for shown, line in pairs), printed


def test_the_settings_that_are_shown_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = blocks(TUTORIAL, "toml")
    login = blocks(text_of("how-to/kafka-security.md"), "toml")[0]
    monkeypatch.setenv("KAFKA_USER", "hr-user")
    (tmp_path / "kafka-password").write_text("pa55-word\n")
    path = tmp_path / "hr.toml"
    path.write_text(job + login)
    settings = load(path).for_publish()
    assert settings.kafka.kafka["sasl.username"] == "hr-user"
    assert settings.kafka.kafka["sasl.password"] == "pa55-word"
    # librdkafka opens the certificates, which are where the system has them
    path.write_text(job + re.sub(r'"ssl\.ca\.location".*\n', "", login))
    KafkaClients(load(path).kafka).check_settings()


ACLS = {
    ("TOPIC", "xds", "LITERAL"): {"WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"},
    ("TOPIC", "xds-publisher.hr", "LITERAL"): {"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"},
    ("TRANSACTIONAL_ID", "xds-publisher/", "PREFIXED"): {"WRITE", "DESCRIBE"},
    ("GROUP", "xds-publisher", "LITERAL"): {"READ"},
}
"""Granted operations by resource type, name and pattern."""


@pytest.fixture
def guarded_broker() -> Iterator[str]:
    """Starts a broker that checks ACLs, and yields its address."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    for started in brokers(1, settings):
        yield started.bootstrap


def granted(bootstrap: str) -> dict[tuple[str, str, str], set[str]]:
    """Reads the operations that the broker allows to the publisher."""
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]  # any name, which the stubs lack
        ResourcePatternType.ANY,
        "User:publisher",
        None,  # type: ignore[arg-type]  # any host
        AclOperation.ANY,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    operations: dict[tuple[str, str, str], set[str]] = {}
    for acl in admin.describe_acls(everything).result(30):
        resource = (acl.restype.name, acl.name, acl.resource_pattern_type.name)
        operations.setdefault(resource, set()).add(acl.operation.name)
    return operations


def test_the_commands_grant_the_minimum_rights(guarded_broker: str) -> None:
    (shown,) = [b for b in blocks(text_of("how-to/kafka-security.md")) if "kafka-acls.sh" in b]
    commands = [shlex.split(line) for line in shown.replace("\\\n", " ").splitlines()]
    assert len(commands) == len(ACLS)
    for program, *words in commands:
        assert program == "kafka-acls.sh"
        arguments = [guarded_broker if word == "localhost:9092" else word for word in words]
        command = java("org.apache.kafka.tools.AclCommand", *arguments, options=quick_start())
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert granted(guarded_broker) == ACLS
