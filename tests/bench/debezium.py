"""Debezium's connector for PostgreSQL in Kafka Connect standalone, taking a snapshot of one table.

As shipped: the worker's settings are those of ``connect-standalone.properties`` in Kafka's own
distribution, and the connector has what it must be told and its defaults.  Tuned: what the manuals
give for throughput besides, that is JSON without schemas, large batches in connector and producer and
rows fetched many at a time.  The JVM has its own flags but for the memory, and nothing is compressed.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from sqlalchemy import make_url

from tests.services.jars import java
from tests.services.kafka import LOGGING
from tests.services.servers import Server, free_port

POM = Path(__file__).with_name("pom.xml")
MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
HEAP = "2g"  # what Connect's own start script gives
LOOK = 0.1
"""Seconds between two looks at the topic."""
PATIENCE = 600.0

WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
    "offset.flush.interval.ms": "10000",
    "plugin.discovery": "service_load",  # does not search all jars
}
TUNED_WORKER = {
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "producer.batch.size": "1000000",  # librdkafka's default, so the program's
    "producer.linger.ms": "5",
    "producer.buffer.memory": "67108864",
    "producer.compression.type": "none",
}
CONNECTOR = {
    "name": "bench",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "filtered",
    "snapshot.mode": "initial_only",
}
TUNED_CONNECTOR = {
    "snapshot.fetch.size": "20480",
    "max.batch.size": "20480",
    "max.queue.size": "81920",
    "poll.interval.ms": "10",
}


def snapshot(
    server: Server,
    table: str,
    bootstrap: str,
    name: str,
    partitions: int,
    work: Path,
    *,
    tuned: bool,
) -> tuple[str, list[str]]:
    """Makes the topic ``name.TABLE`` and the files of a start; gives the topic and the command."""
    topic = f"{name}.{table}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions)], operation_timeout=30)[topic].result(30)
    url = make_url(server.url)
    worker = {
        **WORKER,
        **(TUNED_WORKER if tuned else {}),
        "bootstrap.servers": bootstrap,
        "listeners": f"http://127.0.0.1:{free_port()}",
        "offset.storage.file.filename": str(work / f"{name}.offsets"),
    }
    connector = {
        **CONNECTOR,
        **(TUNED_CONNECTOR if tuned else {}),
        "database.hostname": url.host or "",
        "database.port": str(url.port),
        "database.user": url.username or "",
        "database.password": url.password or "none",
        "database.dbname": url.database or "",
        "topic.prefix": name,
        "table.include.list": table.replace(".", r"\\."),
        "slot.name": name.replace("-", "_"),
        "publication.name": name.replace("-", "_"),
    }
    files = [
        _properties(work / f"{name}-{kind}.properties", values)
        for kind, values in (("worker", worker), ("connector", connector))
    ]
    logging = work / "log4j2.properties"
    logging.write_text(LOGGING)
    options = [f"-Xmx{HEAP}", f"-Dlog4j2.configurationFile={logging}"]
    return topic, java(MAIN, *map(str, files), options=options, pom=POM)


def seconds_to_read(
    command: list[str], bootstrap: str, topic: str, partitions: int, records: int, log: Path
) -> float:
    """Starts Connect; the seconds until the topic has all records.  Ends Connect then.

    Raises ``RuntimeError`` where it ends or fails before.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    start = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        while _records(admin, topic, partitions) < records:
            if process.poll() is not None or time.perf_counter() - start > PATIENCE:
                raise RuntimeError(f"Debezium did not come to its end: {log.read_text()[-4000:]}")
            time.sleep(LOOK)
        return time.perf_counter() - start
    finally:
        process.kill()
        process.wait()


def _records(admin: AdminClient, topic: str, partitions: int) -> int:
    """Records that can be read: there are no transactions, so offsets count them."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, number): latest for number in range(partitions)}
    answers = admin.list_offsets(wanted, request_timeout=30)
    try:
        return sum(answer.result(30).offset for answer in answers.values())
    except KafkaException as error:
        if error.args[0].code() == KafkaError.NOT_LEADER_FOR_PARTITION:
            return 0  # the topic was just made
        raise


def _properties(path: Path, values: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path
