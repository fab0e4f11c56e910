"""Changes of keys are published to a topic and consumed: the objects are those of a model of the tables."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.consumer import Inbox, Objects
from publisher.consumer.topics import TopicReader
from publisher.runs.replay import replay
from tests.golden.test_classes import log_of
from tests.services.topics import Topics
from tests.support.user_logs import RENAMING, UserLog, shown_objects


@pytest.mark.usefixtures("local_engine")
def test_objects_of_a_topic_are_those_of_the_tables(kafka: Topics, tmp_path: Path) -> None:
    """Old and new keys lie in different partitions, which are read in several orders."""
    log = UserLog(random.Random(2))
    while len(log.events) < 300:
        log.step()
    (tmp_path / "log.csv").write_text(log_of(log.events), "utf-8")
    topic = kafka.make(partitions=5)
    job = tmp_path / "job.toml"
    job.write_text(f"{RENAMING}\n[run]\nlanes = 3\n", "utf-8")
    replay(load(job), [tmp_path / "log.csv"], f"kafka://{kafka.bootstrap}/{topic}")
    with TopicReader({"bootstrap.servers": kafka.bootstrap}, topic) as opened:
        arrived = list(opened.deliveries(follow=False))
    changes = {d.event_id: set[str]() for d in arrived if d.key_change is not None}
    for delivery in arrived:
        if delivery.event_id in changes:
            changes[delivery.event_id].add(delivery.origin.part)
    assert sum(len(parts) == 2 for parts in changes.values()) > 10
    for order in (1, -1):
        by_partition = sorted(arrived, key=lambda d: (d.origin.part[-1:], d.origin.number))
        objects, inbox = Objects(), Inbox()
        parts = sorted({d.origin.part for d in by_partition})[::order]
        for part in parts:
            objects.apply_all(inbox.in_order(d for d in by_partition if d.origin.part == part))
        assert shown_objects(objects) == log.objects()
        assert inbox.held == 0
