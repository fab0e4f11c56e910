"""A key is in the partition where every other client looks for it.

Clients based on librdkafka put keys into other partitions than Java clients, so joins and order by key
failed.
"""

from __future__ import annotations

import pytest

from tests.field.kafka_jobs import log_values, make_log, write_job
from tests.services.topics import Topics
from tests.support.workbench import Workbench, event, log_file

PARTITIONS = {
    12: {"idu=7,table=usr": 6},
    32: {"idu=7,table=usr": 10},
}
IN_SCHEMA = {
    12: {"1": 4, "7": 2, "42": 11},
    32: {"1": 24, "7": 6, "42": 15},
}


@pytest.mark.parametrize("count", [12, 32])
def test_keys_are_where_java_clients_put_them(bench: Workbench, kafka: Topics, count: int) -> None:
    topic = kafka.make(count)
    log_values(make_log(bench.folder), {7: "x"})
    bench.publish(job=write_job(bench, kafka.bootstrap, topic))
    records = [r for r in kafka.read(topic) if r.key]
    assert {r.key.decode(): r.partition for r in records if r.key} == PARTITIONS[count]
    events = [
        event(f"idu={n}", 3, "fname", new="x", table_name="indirect.usr") for n in IN_SCHEMA[count]
    ]
    bench.write("log.csv", log_file(events))
    second = kafka.make(count)
    bench.run("replay", "log.csv", "--to", f"kafka://{kafka.bootstrap}/{second}")
    found = {r.key.decode(): r.partition for r in kafka.read(second) if r.key}
    assert found == {f"idu={n},table=usr,schema=indirect": p for n, p in IN_SCHEMA[count].items()}


def test_another_partitioner_is_refused(bench: Workbench, kafka: Topics) -> None:
    log_values(make_log(bench.folder), {7: "x"})
    more = '[dispatch.kafka]\npartitioner = "consistent_random"'
    done = bench.run(
        "publish", "-c", write_job(bench, kafka.bootstrap, kafka.make(), more), codes=[2]
    )
    assert "partitioner" in done.err
