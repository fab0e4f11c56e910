"""Documents that are too large for a real broker: found by their size, or refused by it after all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from publisher.dispatch.kafka import lane_sender, run_sender
from publisher.dispatch.kafka.lane_sender import LaneSender
from publisher.dispatch.kafka.records import SIZE_COLUMNS, Batch, LaneDocuments, sizes
from publisher.dispatch.kafka.size_limits import survey_run
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.dispatch.refusals import DispatchRecord, read_records
from publisher.errors import FatalError
from publisher.ledger.runs import LedgerRun
from publisher.runs import run as spine
from tests.services.dispatching import (
    DispatchStop,
    by_key,
    dispatch_run,
    dispatcher,
    texts,
    texts_by_key,
)
from tests.services.topics import Topics
from tests.support.event_ids import ORIGIN
from tests.support.ledgers import PlannedDocument, commit_run, documents


def test_documents_that_are_too_large_are_refused_and_the_rest_is_sent(
    kafka: Topics, tmp_path: Path
) -> None:
    topic = kafka.make(max_message_bytes=20_000)
    planned = documents(30)
    for place in (3, 29):
        planned[place] = replace(planned[place], text="x" * 20_000, records="1,2")
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned[:10], planned[10:]])
    sink = dispatcher(kafka, topic)
    dispatch_run(sink, ledger_run, manifest)
    small = [document for document in planned if len(document.text) < 20_000]
    assert by_key(kafka.read(topic)) == texts_by_key(small)
    (record,) = read_records(ledger_run.texts())
    assert [(entry.lane, entry.document) for entry in record.refusals] == [(0, 3), (1, 19)]
    assert {entry.reason for entry in record.refusals} == {"too-large"}
    assert "accepts 20,000" in record.refusals[0].detail
    lines = (ledger_run.root / "rejects.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert [(entry["position"], entry["records"]) for entry in entries] == [
        ("4", "1,2"),
        ("30", "1,2"),
    ]


@pytest.mark.parametrize(
    ("own", "new_key"), [(None, None), ("9000", None), (None, "idu=1"), (None, "idu=é" * 22)]
)
def test_the_size_is_counted_to_the_byte(
    kafka: Topics, tmp_path: Path, own: str | None, new_key: str | None
) -> None:
    topic = kafka.make(max_message_bytes=10_000)
    limit = int(own or 10_000)

    def value(size: int) -> list[PlannedDocument]:
        return [
            PlannedDocument(
                1,
                "y" * size,
                key="idu=ä" * 20,
                records=",".join(map(str, range(300))),
                new_key=new_key,
            )
        ]

    near = limit - 1_500  # lengths take as many bytes as those that follow
    probed, _ = commit_run(tmp_path / "near", [value(near)])
    ((_, rows),) = lane_of(probed, 0, topic).index(SIZE_COLUMNS)
    exact = near + limit - int(sizes(rows, ("log",), (ORIGIN.length("log"),))[0])
    lanes = [value(exact + more) for more in (-1, 0, 1)]
    ledger_run, manifest = commit_run(tmp_path / "ledger", lanes)
    settings = {"message.max.bytes": own} if own is not None else {}
    dispatch_run(dispatcher(kafka, topic, 3, kafka=settings), ledger_run, manifest)
    (record,) = read_records(ledger_run.texts())
    assert [entry.lane for entry in record.refusals] == [2]
    assert len(kafka.read(topic)) == (2 if new_key is None else 4)
    if own is None:  # the broker itself sees it so
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        errors: list[object] = []
        for number in range(3):
            batch = next(lane_of(ledger_run, number, topic).batches(0, 10))
            # of the two records of a change of a key, the one with the longer key
            key, text, headers = max(batch.records, key=lambda record: len(record[0] or b""))
            producer.produce(
                topic, text, key, headers=headers, on_delivery=lambda e, _: errors.append(e)
            )
            producer.flush(30)
        assert [error is None for error in errors] == [True, True, False]


def lane_of(ledger_run: LedgerRun, number: int, topic: str) -> LaneDocuments:
    return LaneDocuments(
        (ledger_run.rows or ())[number],
        ("log",),
        TopicTemplate(topic),
        id_prefixes=(ORIGIN.length("log"),),
    )


def with_one_of(size: int) -> list[PlannedDocument]:
    """Documents for two transactions of 1,000; one of the second has this size."""
    planned = documents(2_000)
    planned[1_500] = replace(planned[1_500], text="x" * size)
    return planned


def test_a_refusal_stays_once_something_was_sent(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(max_message_bytes=20_000)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [with_one_of(20_000)])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        dispatch_run(replace(sink, check_lease=DispatchStop(2)), ledger_run, manifest)
    (first,) = read_records(ledger_run.texts())
    kafka.alter(topic, max_message_bytes=100_000)
    dispatch_run(sink, ledger_run, manifest)
    (second,) = read_records(ledger_run.texts())
    assert second.refusals == first.refusals
    assert len(kafka.read(topic)) == 1_999
    sink.forget()
    dispatch_run(sink, ledger_run, manifest)
    assert len(kafka.read(topic)) == 1_999 + 2_000


def test_what_is_refused_counts_once_where_sending_goes_on(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(max_message_bytes=20_000)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [with_one_of(20_000)])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        spine.send(ledger_run, manifest, replace(sink, check_lease=DispatchStop(2)))
    entries = spine.send(ledger_run, manifest, sink).report
    kept = json.loads((ledger_run.root / "run.json").read_text())
    assert entries.outcomes["rejected"] == 1
    assert kept["outcomes"] == entries.outcomes
    assert kept["reasons"] == entries.reasons == {"rejected": {"too-large": 1}}


@pytest.fixture
def lowers_limit(kafka: Topics, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lowers the limit of a topic to 10,000 bytes as soon as the documents of a run were measured."""

    def lower(topic: str) -> None:
        def survey_first(*given: Any) -> DispatchRecord:
            record = survey_run(*given)
            kafka.alter(topic, max_message_bytes=10_000)
            return record

        monkeypatch.setattr(run_sender, "survey_run", survey_first)

    return lower


def test_what_the_broker_refuses_after_all_fails_the_lane(
    kafka: Topics,
    tmp_path: Path,
    lowers_limit: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = kafka.make(max_message_bytes=20_000)
    planned = with_one_of(15_000)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        dispatch_run(replace(sink, check_lease=DispatchStop(2)), ledger_run, manifest)
    lowers_limit(topic)
    with pytest.raises(FatalError, match=r"compare max\.message\.bytes"):
        dispatch_run(sink, ledger_run, manifest)
    assert not sink.has_run(manifest)
    assert len(kafka.read(topic)) == 1_000
    monkeypatch.undo()
    kafka.alter(topic, max_message_bytes=20_000)
    dispatch_run(sink, ledger_run, manifest)
    found = kafka.read(topic)
    assert set(texts(found)) == {document.text for document in planned}
    assert len(found) == 2_000


def test_a_lower_limit_refuses_what_was_not_sent_before(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(max_message_bytes=20_000)
    planned = with_one_of(15_000)
    planned[500] = replace(planned[500], text="y" * 15_000)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        dispatch_run(replace(sink, check_lease=DispatchStop(2)), ledger_run, manifest)
    kafka.alter(topic, max_message_bytes=10_000)
    dispatch_run(sink, ledger_run, manifest)
    (record,) = read_records(ledger_run.texts())
    assert [refusal.document for refusal in record.refusals] == [1_500]
    assert len(kafka.read(topic)) == 1_999


def test_a_refusal_is_named_even_if_it_comes_before_the_end_of_its_transaction(
    kafka: Topics,
    tmp_path: Path,
    lowers_limit: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The producer takes no further record of the transaction, and says only that its state is wrong."""
    topic = kafka.make(max_message_bytes=20_000)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [with_one_of(15_000)])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        dispatch_run(replace(sink, check_lease=DispatchStop(2)), ledger_run, manifest)
    lowers_limit(topic)
    batches = LaneSender._batches

    def wait_for_refusal(sender: LaneSender, start: int) -> Iterator[Batch]:
        for batch in batches(sender, start):
            yield batch
            if batch.end == 1_750:
                time.sleep(1)

    monkeypatch.setattr(lane_sender, "BATCH", 250)
    monkeypatch.setattr(LaneSender, "_batches", wait_for_refusal)
    with pytest.raises(FatalError, match=r"compare max\.message\.bytes"):
        dispatch_run(sink, ledger_run, manifest)
    assert len(kafka.read(topic)) == 1_000
