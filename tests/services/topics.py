"""Topics for tests and benchmarks: new ones, read completely."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, cast

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from publisher.dispatch.kafka.client import LEADERLESS
from tests.services.jars import java

Isolation = Literal["read_committed", "read_uncommitted"]

UNLED = LEADERLESS | {KafkaError._NOENT}
"""Errors of a partition without a leader; with the last, the client finds none before it asks."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a consumer gets it; ``timestamp`` in milliseconds since 1970."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    value: bytes | None


@dataclass
class Topics:
    """The topics of the brokers at ``bootstrap``; those ``made`` here can be dropped together."""

    bootstrap: str
    made: list[str] = field(default_factory=list)

    def make(self, partitions: int = 1, replication: int = -1, **settings: str | int) -> str:
        """The name of a new topic; ``settings`` with ``_`` for the dots in Kafka's names.

        Without ``replication`` it is the cluster's default.  All partitions have leaders.
        """
        name = f"test-{uuid.uuid4().hex[:12]}"
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        admin = self._admin()
        new = NewTopic(name, partitions, replication, config=config)
        admin.create_topics([new], operation_timeout=30)[name].result(30)
        self.made.append(name)
        _wait_until(lambda: _has_leaders(admin, name, partitions))
        return name

    def alter(self, topic: str, **settings: str | int) -> None:
        """Changes settings of a topic; their names are as in ``make``."""
        entries = [
            ConfigEntry(
                key.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET
            )
            for key, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin = self._admin()
        admin.incremental_alter_configs([resource])[resource].result(30)
        wanted = {entry.name: entry.value for entry in entries}.items()
        _wait_until(lambda: wanted <= _settings(admin, topic).items())

    def drop(self) -> None:
        """Deletes the topics that were made; afterwards no broker takes or gives their records."""
        if self.made:
            admin = self._admin()  # its answers come only while it lives
            for answer in admin.delete_topics(self.made).values():
                answer.result(30)
            _wait_until(lambda: not admin.list_topics(timeout=30).topics.keys() & set(self.made))
            self.made.clear()

    def expire(self, topic: str) -> None:
        """Removes all records, as retention does."""
        admin = self._admin()  # its answers come only while it lives
        ends = [TopicPartition(topic, number, end) for number, end in self.ends(topic).items()]
        for answer in admin.delete_records(ends).values():
            answer.result(30)

    def ends(self, topic: str) -> dict[int, int]:
        """The offset after the last record of each partition, in whatever transaction it is."""
        deadline = time.monotonic() + 30
        while True:
            try:
                return self._ends(topic)
            except KafkaException as error:
                # a broker that has just come back may not lead yet
                if error.args[0].code() not in UNLED or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _ends(self, topic: str) -> dict[int, int]:
        admin = self._admin()
        found = admin.list_topics(topic, timeout=30).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        latest = {TopicPartition(topic, number): end for number in found.partitions}
        level = IsolationLevel.READ_UNCOMMITTED
        answers = admin.list_offsets(latest, isolation_level=level, request_timeout=30)
        return {place.partition: answer.result(30).offset for place, answer in answers.items()}

    def read(
        self,
        topic: str,
        isolation: Isolation = "read_committed",
        *,
        wait: bool = True,
        seconds: float = 60.0,
    ) -> list[Record]:
        """All that ``records`` gives, by partition and offset."""
        found = self.records(topic, isolation, wait=wait, seconds=seconds)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def records(
        self,
        topic: str,
        isolation: Isolation = "read_committed",
        *,
        wait: bool = True,
        seconds: float = 60.0,
    ) -> Iterator[Record]:
        """The records that a topic holds now, those of a partition in order.

        With ``read_committed`` waits until the transactions of all these are decided, or, without
        ``wait``, ends in each partition before the first undecided one.  Raises ``TimeoutError``
        after ``seconds`` without a record.
        """
        todo = {number: end for number, end in self.ends(topic).items() if end}
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "nobody",  # must be there; nothing is committed
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        try:
            # to ask for the beginning takes half a second more
            consumer.assign([TopicPartition(topic, number, 0) for number in todo])
            yield from _until(consumer, todo, wait, seconds)
        finally:
            consumer.close()

    def console(
        self, topic: str, count: int, isolation: Isolation = "read_committed", seconds: float = 60.0
    ) -> list[str]:
        """The lines that Kafka's own console consumer prints of ``count`` records.

        Each is headers as ``name:value,…``, key and value, between tabs; ``null`` for what is not
        there.  Fewer lines come where the topic gives no more within ``seconds``.
        """
        from tests.services.kafka import quick_start  # it imports this module

        shown = ("headers", "key", "value")
        command = java(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", self.bootstrap, "--topic", topic, "--from-beginning"),
            *("--isolation-level", isolation),
            *("--max-messages", str(count), "--timeout-ms", str(int(seconds * 1000))),
            *(word for name in shown for word in ("--property", f"print.{name}=true")),
            # it would log among the records
            options=["-Dlog4j2.level=OFF", *quick_start()],
        )
        done = subprocess.run(command, capture_output=True, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr.decode()[-2000:]}")
        return done.stdout.decode().split("\n")[:-1]

    def _admin(self) -> AdminClient:
        # silent while brokers are away
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


def _wait_until(reached: Callable[[], bool]) -> None:
    """Waits for the brokers, which learn of a change after the controller has answered."""
    deadline = time.monotonic() + 60
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError("the brokers do not know of the change after 60 s")
        time.sleep(0.02)


def _settings(admin: AdminClient, topic: str) -> dict[str, str | None]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(30)
    return {name: entry.value for name, entry in found.items()}


def _has_leaders(admin: AdminClient, name: str, partitions: int) -> bool:
    found = admin.list_topics(name, timeout=30).topics[name].partitions
    return len(found) == partitions and all(one.leader >= 0 for one in found.values())


def _until(
    consumer: Consumer, todo: dict[int, int], wait: bool, seconds: float
) -> Iterator[Record]:
    deadline = time.monotonic() + seconds
    while todo:
        for message in consumer.consume(10_000, 0.02):
            number, offset, error = _place(message)
            if number not in todo:
                continue
            if error is None:
                deadline = time.monotonic() + seconds
                if offset < todo[number]:
                    yield _record(message)
                offset += 1
            if offset >= todo[number] or (error and not wait):
                del todo[number]
        if todo and time.monotonic() > deadline:
            raise TimeoutError(
                f"partitions not read to their ends {todo} in {seconds} s: a transaction is open"
            )


def _place(message: Message) -> tuple[int, int, KafkaError | None]:
    """Partition, offset, and whether this is a partition's end.  Raises other errors."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    number, offset = message.partition(), message.offset()
    assert number is not None
    assert offset is not None
    return number, offset, error


def _record(message: Message) -> Record:
    number, offset, _ = _place(message)
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    stamp = message.timestamp()[1]
    return Record(number, offset, stamp, message.key(), tuple(headers), message.value())
