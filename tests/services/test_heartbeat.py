"""Heartbeats reach a real broker, and say that they are none of the documents."""

from __future__ import annotations

from publisher.dispatch.kafka.heartbeat import send_heartbeat
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.xds.document import Envelope, EnvelopeOptions
from tests.services.topics import Topics


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
