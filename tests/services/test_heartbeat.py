"""Heartbeats reach a real broker, and say that they are none of the documents."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from publisher.config.job_file import load
from publisher.dispatch.kafka.heartbeat import send_heartbeat
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.engine.local import LocalEngine
from publisher.runs.job import Job
from publisher.xds.document import Envelope, EnvelopeOptions
from tests.services.topics import Topics
from tests.support.event_log_files import event, write


def test_a_heartbeat_is_a_document_without_operations(kafka: Topics) -> None:
    topic = kafka.make()
    document = Envelope(EnvelopeOptions()).document(())
    send_heartbeat(KafkaOptions(bootstrap=kafka.bootstrap, topic=topic), "hr", document)
    (record,) = kafka.read(topic)
    headers = {name: (value or b"").decode() for name, value in record.headers}
    assert record.key is None
    assert record.value == document.encode()
    assert headers["operation"] == "heartbeat"
    assert headers["event-id"].startswith("hr:heartbeat:2")


def test_heartbeats_have_the_format_of_the_documents(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make()
    row = event(1, table_key="idu=1", table_name="usr", event_type=4, column_name=None)
    (tmp_path / "logs").mkdir()
    write(tmp_path / "logs" / "log.csv", [row])
    (tmp_path / "job.toml").write_text(
        '[job]\nname = "beats"\n[[sources]]\nname = "hr"\nformat = "event-log"\nsnapshots = ["logs"]\n'
        f'[dispatch]\nto = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{topic}"\n'
        '[documents]\nvalue_format = "json"\n'
    )
    with Job(load(tmp_path / "job.toml"), LocalEngine()) as job:
        assert job.run(now=datetime.now(UTC)).has_ledger
        job.sink.heartbeat()
    document, heartbeat = (json.loads(record.value or b"") for record in kafka.read(topic))
    assert [operation["operation"] for operation in document["operations"]] == ["delete"]
    assert heartbeat["operations"] == []
