"""Documents reach a real broker: exactly once, in order, with key and headers."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.dispatch.kafka import KafkaDispatcher
from publisher.dispatch.kafka_lane import LaneSending, LaneSent
from publisher.dispatch.kafka_options import KafkaOptions
from publisher.journal.manifest import Journal, Manifest
from tests.services.topics import Record, Topics
from tests.unit.made_journals import Made, committed, documents, report


def pickled(lanes: Sequence[LaneSending]) -> list[LaneSent]:
    """Sends lanes as tasks do: what they are told has been pickled."""
    return [pickle.loads(pickle.dumps(lane)).send() for lane in lanes]


def dispatcher(kafka: Topics, topic: str, lanes: int = 2, **options: object) -> KafkaDispatcher:
    made = KafkaOptions(bootstrap=kafka.bootstrap, topic=topic, timeout=30, **options)  # type: ignore[arg-type]
    return KafkaDispatcher(made, job=f"job-{topic}", owner=f"job-{topic}", lanes=lanes)


def sent(sink: KafkaDispatcher, journal: Journal, manifest: Manifest) -> list[LaneSent]:
    """Sends, and says what each lane reported."""
    told: list[LaneSent] = []

    def run(lanes: Sequence[LaneSending]) -> list[LaneSent]:
        told.extend(pickled(lanes))
        return told

    sink = replace(sink, run_lanes=run)
    sink.prepare(manifest.run)
    sink.dispatch(journal, manifest, report(journal, manifest))
    return told


def texts(found: list[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in found]


def by_key(found: list[Record]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for record in found:
        keys.setdefault((record.key or b"").decode(), []).append((record.value or b"").decode())
    return keys


def expected(made: list[Made]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for document in made:
        keys.setdefault(document.key, []).append(document.text)
    return keys


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_every_document_comes_once_in_the_order_of_its_key(
    kafka: Topics, tmp_path: Path, mode: str
) -> None:
    made = documents(2_500)
    lanes = [made[:1_200], made[1_200:]]
    journal, manifest = committed(tmp_path / "journal", lanes)
    topic = kafka.make(partitions=3)
    sink = dispatcher(kafka, topic, mode=mode, transaction_size=500)
    told = sent(sink, journal, manifest)
    assert by_key(kafka.read(topic)) == expected(made)
    assert [lane.documents for lane in told] == [1_200, 1_300]
    assert [lane.transactions for lane in told] == [3, 3]
    assert sink.dispatched(manifest.run)
    assert sent(sink, journal, manifest) == []
    assert len(kafka.read(topic)) == 2_500
    sink.forget()
    assert not sink.dispatched(manifest.run)
    sent(sink, journal, manifest)
    assert len(kafka.read(topic)) == 5_000


def test_a_record_has_key_and_headers(kafka: Topics, tmp_path: Path) -> None:
    made = [
        Made(7, "<nds>ä</nds>", key="idu=ü,table=usr", operation="add modify", records="7,8,9"),
        Made(10, "<nds/>", table="pürse", source=1, ordinal=2),
    ]
    journal, manifest = committed(tmp_path / "journal", [made], sources=("log", "übrige"))
    topic = kafka.make()
    sent(dispatcher(kafka, topic, 1), journal, manifest)
    first, second = kafka.read(topic)
    assert first.key == "idu=ü,table=usr".encode()
    assert first.value == "<nds>ä</nds>".encode()
    assert first.headers == (
        ("event-id", b"log:7"),
        ("source", b"log"),
        ("position", b"7"),
        ("operation", b"add modify"),
        ("class-name", b"usr"),
        ("record-ids", b"7,8,9"),
    )
    assert dict(second.headers) == {
        "event-id": "übrige:10.2".encode(),
        "source": "übrige".encode(),
        "position": b"10",
        "operation": b"modify",
        "class-name": "pürse".encode(),
        "record-ids": b"10",
    }
