"""One large message fails alone.

The broker's limit counts the whole batch; one large message made its small neighbours fail, or was
skipped without an error.
"""

from __future__ import annotations

from tests.field.kafka_jobs import log_values, make_log, write_job
from tests.services.topics import Topics
from tests.support.workbench import Workbench


def test_neighbours_of_a_large_message_are_sent(bench: Workbench, kafka: Topics) -> None:
    topic = kafka.make(3, max_message_bytes=20_000)
    place = make_log(bench.folder)
    values = dict.fromkeys(range(10), "v" * 15000) | {10: "w" * 25_000}
    log_values(place, values)
    job = write_job(bench, kafka.bootstrap, topic)
    report = bench.publish(job=job)
    assert len([r for r in kafka.read(topic) if r.key]) == 10
    assert report["statuses"] == {"S": 10, "F": 1}
    assert place.query("SELECT table_key FROM log WHERE status = 'F'") == [("idu=10",)]

    kafka.alter(topic, max_message_bytes=5_000_000)
    log_values(place, {11: "x" * 2_000_000}, first=100)
    bench.run("retry", "-c", job)
    bench.publish(job=job)
    keys = sorted(r.key.decode() for r in kafka.read(topic) if r.key)
    assert keys == sorted(f"idu={n},table=usr" for n in range(12))
    assert place.query("SELECT DISTINCT status FROM log") == [("S",)]
