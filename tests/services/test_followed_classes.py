"""Triggers of classes, event log, ``publish --follow``, real broker: a consumer's objects are the tables'."""

from __future__ import annotations

import random
from pathlib import Path

from publisher.consumer import Inbox, Objects
from publisher.consumer.topics import TopicReader
from publisher.triggers import Style
from tests.services.databases import Place
from tests.services.followed_logs import wait_until_read, write_job
from tests.services.logged_classes import LoggedClasses
from tests.services.test_follow import following
from tests.services.topics import Topics


def write_class_job(path: Path, place: Place, kafka: Topics, topic: str) -> Path:
    job = write_job(path, place, kafka, topic)
    text = job.read_text().replace("schema =", 'key_change = "modify-association"\nschema =')
    if place.kind != "postgresql":
        text = text.replace('schema = "public"\n', "")
    job.write_text(text.replace("[documents]", '[documents]\ninsert_query_back = "add"'))
    return job


def test_a_consumer_has_the_objects_of_the_tables(
    place: Place, kafka: Topics, tmp_path: Path
) -> None:
    """Of each style, with changed keys and without; one log holds the changes of all tables."""
    rng = random.Random(place.kind)
    logged = [
        LoggedClasses(place, f"{style.name.lower()}_{joins_keys:d}_", style, joins_keys=joins_keys)
        for style in Style
        for joins_keys in (False, True)
    ]
    topic = kafka.make(partitions=3)
    job = write_class_job(tmp_path / "people.toml", place, kafka, topic)
    objects, inbox = Objects(), Inbox()
    settings = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    with following(job) as process:
        for _ in range(3):
            for _ in range(12):
                rng.choice(logged).work(rng, rng.randrange(1, 25))
            wait_until_read(place, process)
            with TopicReader(settings, topic, start=inbox.resume_at()) as reader:
                objects.apply_all(inbox.in_order(reader.deliveries(follow=False)))
            assert inbox.held == 0
            for one in logged:
                assert one.known(objects) == one.objects(), one.prefix
    assert place.query("SELECT count(*) FROM event_log WHERE status NOT IN ('S', 'W')") == [(0,)]
    assert len(objects) > 20
