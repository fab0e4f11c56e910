"""A user of Kafka who lacks a right: named with topic and operation, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.services.kafka import brokers, quiet_port
from tests.support.command_line import run_program

pytestmark = pytest.mark.long

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
MINIMUM = {
    "documents": ("WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"),
    "letters": ("WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"),
    "tokens": ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"),
}
JOB = """
[[sources]]
name = "hr"
snapshots = ["in"]
[dispatch]
to = "kafka"
bootstrap = "127.0.0.1:{port}"
topic = "documents"
token_topic = "tokens"
dead_letter_topic = "letters"
[dispatch.kafka]
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "publisher"
"sasl.password" = "secret"
[job]
reject_budget = "unlimited"
[run]
engine = "local"
lanes = 1
"""


class SecuredKafka:
    """Brokers with a listener for a user who has the rights that a test gives."""

    def __init__(self, bootstrap: str, port: int) -> None:
        self.admin, self.port = AdminClient({"bootstrap.servers": bootstrap}), port
        compacted = {"cleanup.policy": "compact"}
        topics = [NewTopic(name, 1, 1) for name in ("documents", "letters")]
        for future in self.admin.create_topics(
            [*topics, NewTopic("tokens", 1, 1, config=compacted)]
        ).values():
            future.result()

    def grant(self, without: tuple[str, str] | None = None) -> None:
        """Gives the documented minimum, without one operation on a topic."""
        any_name: Any = None
        every = AclBindingFilter(
            ResourceType.ANY,
            any_name,
            ResourcePatternType.ANY,
            any_name,
            any_name,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for future in self.admin.delete_acls([every]).values():
            future.result()
        rights = [
            (ResourceType.TOPIC, topic, operation)
            for topic, operations in MINIMUM.items()
            for operation in operations
            if (topic, operation) != without
        ]
        rights += [
            (ResourceType.TRANSACTIONAL_ID, "xds-publisher/", name)
            for name in ("WRITE", "DESCRIBE")
        ]
        rights.append((ResourceType.GROUP, "xds-publisher", "READ"))
        prefixed = ResourcePatternType.PREFIXED
        bindings = [
            AclBinding(
                kind,
                name,
                prefixed,
                "User:publisher",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for kind, name, operation in rights
        ]
        for future in self.admin.create_acls(bindings).values():
            future.result()


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredKafka]:
    port = quiet_port()
    plain, login = "PLAINTEXT://127.0.0.1:@CLIENTS", f"LOGIN://127.0.0.1:{port}"
    settings = {
        "listeners": f"{plain},CONTROLLER://127.0.0.1:@CONTROLLER,{login}",
        "advertised.listeners": f"{plain},{login}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{MODULE} required user_publisher="secret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    for started in brokers(1, settings):
        yield SecuredKafka(started.bootstrap, port)


def test_each_missing_right_is_named_by_check_and_publish(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    rows = ("1,idu=1,N,1,2026-01-01 00:00:00,hr,usr,fname,,Jack", "2,,N,1,,hr,usr,fname,,x")
    (tmp_path / "in" / "log.csv").write_text("\n".join(rows) + "\n")
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(port=secured.port))
    for topic, operations in MINIMUM.items():
        for operation in (each for each in operations if each != "DESCRIBE"):  # Write implies it
            secured.grant((topic, operation))
            shown = operation.title().replace("_", "")
            for command in ("check", "publish"):
                ended = run_program(command, "-c", job)
                assert ended.code in (1, 3), ended.text
                assert f"{shown} on topic {topic}" in ended.text, ended.text
    secured.grant()
    assert run_program("check", "-c", job).code == 0
    assert run_program("publish", "-c", job).code == 0
