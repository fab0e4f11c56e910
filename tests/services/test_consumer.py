"""Documents in real topics: order over partitions, interrupted transactions, restarts."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from publisher.config.job_file import load
from publisher.consumer import (
    Delivery,
    DocumentError,
    Inbox,
    KeyChange,
    Objects,
    Origin,
    TopicError,
)
from publisher.consumer.topics import TopicReader
from publisher.runs.replay import replay
from publisher.xds.document import Envelope, EnvelopeOptions, operation
from tests.services.topics import Topics
from tests.support.documentation import blocks, text_of
from tests.support.event_log_files import Row, event, write

ENVELOPE = Envelope(EnvelopeOptions())


def add(key: str, fname: str) -> str:
    part = f'<add-attr attr-name="fname"><value type="string">{fname}</value></add-attr>'
    return operation("add", "usr", key, [part])


def change(key: str, old: str, new: str) -> str:
    part = (
        f'<modify-attr attr-name="fname"><remove-value><value type="string">{old}</value>'
        f'</remove-value><add-value><value type="string">{new}</value></add-value></modify-attr>'
    )
    return operation("modify", "usr", key, [part])


def delete(key: str) -> str:
    return operation("delete", "usr", key)


def rename(old: str, new: str) -> str:
    keys = "".join(f"<association>{key}</association>" for key in (old, new))
    return f"<modify-association>{keys}</modify-association>"


Sent = tuple[int, str, str, str, KeyChange | None]
"""Partition, key, event id, operation, keys of a key change."""


def send(kafka: Topics, topic: str, records: Iterable[Sent], *, commit: bool = True) -> None:
    """Sends records in one transaction."""
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{topic}-sender"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition, key, event_id, text, keys in records:
        headers: list[tuple[str, str | bytes | None]] = [("event-id", event_id.encode())]
        if keys is not None:
            headers += [("key-from", keys.old.encode()), ("key-to", keys.new.encode())]
        document = ENVELOPE.document([text])
        producer.produce(topic, document, key, partition, headers=headers)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


A_TO_B = KeyChange("a", "b")
FIRST: tuple[Sent, ...] = (
    (1, "b", "s:1", add("b", "Bob"), None),
    (0, "a", "s:2", add("a", "Ann"), None),
    (1, "b", "s:3", delete("b"), None),
    (0, "a", "s:4", change("a", "Ann", "Anna"), None),
    (1, "b", "s:5", rename("a", "b"), A_TO_B),
    (1, "b", "s:6", change("b", "Anna", "Hannah"), None),
    (1, "c", "s:7", add("c", "Carl"), None),
)
"""The other copy of ``s:5`` is missing, as if its partition were read later."""
SECOND: tuple[Sent, ...] = (
    (0, "a", "s:5", rename("a", "b"), A_TO_B),
    (0, "a", "s:8", add("a", "Adam"), None),
)


def reader(kafka: Topics, topic: str, start: Mapping[str, int | str] | None = None) -> TopicReader:
    settings = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    return TopicReader(settings, topic, start=start or {})


def read(kafka: Topics, topic: str, start: Mapping[str, int | str] | None = None) -> list[Delivery]:
    with reader(kafka, topic, start) as opened:
        return list(opened.deliveries(follow=False))


def names(objects: Objects) -> dict[str, str | None]:
    return {key: objects[key].text("fname") for key in objects}


def test_a_key_change_between_partitions_is_applied_in_order(kafka: Topics) -> None:
    topic = kafka.make(partitions=3)
    assert read(kafka, topic) == []
    send(kafka, topic, FIRST)
    send(kafka, topic, [(2, "d", "s:9", add("d", "Dora"), None)], commit=False)
    objects, inbox = Objects(strict=True), Inbox()
    objects.apply_all(inbox.in_order(read(kafka, topic)))
    assert names(objects) == {"a": "Anna", "c": "Carl"}
    assert inbox.held == 2
    start = inbox.resume_at()
    assert start.pop(topic)  # its id
    assert start == {f"{topic}/0": 2, f"{topic}/1": 2}
    send(kafka, topic, SECOND)
    objects.apply_all(inbox.in_order(read(kafka, topic, inbox.resume_at())))
    assert names(objects) == {"b": "Hannah", "c": "Carl", "a": "Adam"}
    assert inbox.held == 0


def test_a_record_that_is_no_document_can_be_skipped(kafka: Topics) -> None:
    topic = kafka.make()
    broken = (0, "a", "s:2", delete("other"), None)
    send(kafka, topic, [(0, "a", "s:1", add("a", "Ann"), None), broken])
    send(kafka, topic, [(0, "a", "s:3", change("a", "Ann", "Anna"), None)])
    objects, inbox = Objects(strict=True), Inbox()
    with (
        reader(kafka, topic) as opened,
        pytest.raises(DocumentError, match="is not other") as error,
    ):
        objects.apply_all(inbox.in_order(opened.deliveries(follow=False)))
    place = error.value.place
    assert isinstance(place, Origin)
    start = {**inbox.resume_at(), place.part: place.number + 1}
    objects.apply_all(inbox.in_order(read(kafka, topic, start)))
    assert names(objects) == {"a": "Anna"}


def test_processes_can_share_partitions(kafka: Topics) -> None:
    topic = kafka.make(partitions=3)
    send(kafka, topic, FIRST)
    settings = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    with TopicReader(settings, topic, partitions=[0, 2]) as opened:
        arrived = [delivery.event_id for delivery in opened.deliveries(follow=False)]
    assert arrived == ["s:2", "s:4"]


def test_following_yields_documents_as_they_arrive(kafka: Topics) -> None:
    topic = kafka.make(partitions=2)
    send(kafka, topic, FIRST[:1])
    with reader(kafka, topic) as opened:
        arrived = opened.deliveries()
        assert next(arrived).event_id == "s:1"
        send(kafka, topic, FIRST[1:2])
        assert next(arrived).event_id == "s:2"


def test_lost_records_and_missing_topics_are_errors(kafka: Topics) -> None:
    topic = kafka.make()
    with pytest.raises(TopicError, match=rf"^{topic}/0: the records at the stored offset are gone"):
        read(kafka, topic, {f"{topic}/0": 5})
    with pytest.raises(TopicError, match=r"^missing: .*check the brokers, the topic"):
        reader(kafka, "missing")
    with pytest.raises(TopicError, match="check the brokers"):
        TopicReader({"bootstrap.servers": "localhost:1", "log_level": 0}, "x", connect_seconds=0.2)


def test_a_reader_of_ends_starts_behind_marks_that_are_gone(kafka: Topics) -> None:
    """Its stored offset exists in a topic from which retention has removed everything."""
    topic = kafka.make(partitions=2)
    send(kafka, topic, FIRST[:2])
    inbox = Inbox()
    with reader(kafka, topic) as opened:
        arrived = list(inbox.in_order(opened.deliveries(follow=False, ends=True)))
    assert {each.event_id for each in arrived if not each.at_end} == {"s:1", "s:2"}
    assert sorted(str(each.origin) for each in arrived if each.at_end) == [
        *(f"{topic}/0:1", f"{topic}/1:1")
    ]
    assert not any(each.is_heartbeat for each in arrived)
    start = inbox.resume_at()
    assert start.pop(topic)  # its id
    assert start == {f"{topic}/0": 2, f"{topic}/1": 2}
    kafka.expire(topic)
    with pytest.raises(TopicError, match="are gone"):
        read(kafka, topic, {f"{topic}/0": 1, f"{topic}/1": 1})
    with reader(kafka, topic, inbox.resume_at()) as opened:
        assert list(opened.deliveries(follow=False, ends=True)) == []
    send(kafka, topic, FIRST[2:3])
    (later,) = inbox.in_order(read(kafka, topic, inbox.resume_at()))
    assert later.event_id == "s:3"


def test_the_documented_copy_survives_restarts(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(partitions=2)
    program = blocks(text_of("how-to/consume.md"), "python")[1]
    program = program.replace("localhost:9092", kafka.bootstrap).replace('"xds"', f'"{topic}"')
    for records, expected in (
        (FIRST, [("a", "Anna"), ("c", "Carl")]),
        ((), [("a", "Anna"), ("c", "Carl")]),
        (SECOND, [("a", "Adam"), ("b", "Hannah"), ("c", "Carl")]),
    ):
        if records:
            send(kafka, topic, records)
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        database = sqlite3.connect(tmp_path / "copy.db")
        rows = database.execute("SELECT key, text FROM value ORDER BY key").fetchall()
        database.close()
        assert rows == expected


@pytest.mark.parametrize("value_format", ["xml", "json"])
def test_rows_that_change_their_keys_arrive_over_partitions(
    kafka: Topics, tmp_path: Path, value_format: str
) -> None:
    """A log whose keys move between partitions, published by the program and applied by the consumer."""
    chance = random.Random(7)
    rows: dict[int, str] = {}
    log: list[Row] = []
    for number in range(1, 301):
        key, other, text = chance.randrange(12), chance.randrange(12), f"text {number}"
        row = event(number, table_key=f"idu={key}", table_name="usr")
        if key not in rows:
            log.append(row | {"event_type": 1, "old_value": None, "new_value": text})
            rows[key] = text
        elif other not in rows:
            log.append(row | {"column_name": "idu", "old_value": key, "new_value": other})
            rows[other] = rows.pop(key)
        elif chance.random() < 0.2:
            log.append(row | {"event_type": 4, "column_name": None})
            del rows[key]
        else:
            log.append(row | {"old_value": rows[key], "new_value": text})
            rows[key] = text
    topic = kafka.make(partitions=4)
    (tmp_path / "job.toml").write_text(
        '[source]\nkey_change = "modify-association"\n[documents]\nbatch_size = 8\n'
        f'value_format = "{value_format}"\n[run]\nlanes = 3\nengine = "local"\n'
    )
    path = write(tmp_path / "log.csv", log)
    target = f"kafka://{kafka.bootstrap}/{topic}"
    report = replay(load(tmp_path / "job.toml"), [path], target)
    starts = {(record.value or b"")[:1] for record in kafka.read(topic)}
    assert starts == {b"{" if value_format == "json" else b"<"}
    deliveries = read(kafka, topic)
    changes = [delivery for delivery in deliveries if delivery.key_change is not None]
    assert len(changes) == 2 * report.operations["modify-association"] > 40
    assert len({(change.event_id, change.origin.part) for change in changes}) > len(changes) / 2
    # the worst order: one partition after the other
    parts = sorted({delivery.origin.part for delivery in deliveries}, reverse=True)
    assert len(parts) == 4
    objects, inbox = Objects(strict=True), Inbox()
    for part in parts:
        of_part = [delivery for delivery in deliveries if delivery.origin.part == part]
        objects.apply_all(inbox.in_order(of_part))
    assert inbox.held == 0
    assert names(objects) == {f"idu={key},table=usr": text for key, text in rows.items()}
