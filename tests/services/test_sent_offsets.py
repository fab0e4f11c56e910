"""The journal knows in which offsets of a real broker each document is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
from publisher.dispatch.refusals import DispatchRecord, read_records
from publisher.dispatch.sent_ranges import SentRange, ranges_of
from publisher.errors import FatalError
from publisher.journal.lane_reader import LaneReader
from publisher.journal.manifest import Journal, Manifest
from tests.services.dispatching import DispatchStop, dispatch_run, dispatcher
from tests.services.topics import Record, Topics
from tests.support.journals import commit_run, documents, report

LANES = 3


def plan(folder: Path, count: int) -> tuple[Journal, Manifest]:
    lanes = [documents(count, first=1 + count * lane) for lane in range(LANES)]
    return commit_run(folder / "journal", lanes)


def event_ids(journal: Journal, manifest: Manifest) -> Iterator[tuple[int, int, str]]:
    """Lane, number and event id of each document."""
    for lane in range(LANES):
        reader = LaneReader(journal.root, journal.documents(manifest), lane)
        for document in reader.documents():
            yield lane, document.number, document.event_id


def places(kafka: Topics, topic: str) -> dict[str, Record]:
    found = kafka.read(topic)
    return {(dict(record.headers)["event-id"] or b"").decode(): record for record in found}


def assert_ranges_hold(
    kafka: Topics, topic: str, journal: Journal, manifest: Manifest
) -> DispatchRecord:
    (record,) = read_records(journal)
    read = places(kafka, topic)
    for lane, number, event_id in event_ids(journal, manifest):
        ranges = ranges_of(record.transactions, lane, number)
        assert any(r.has(topic, read[event_id].partition, read[event_id].offset) for r in ranges)
    return record


@pytest.mark.parametrize("partitioner", ["murmur2_random", "consistent", "fnv1a"])
def test_each_document_lies_in_a_range_of_its_transaction(
    kafka: Topics, tmp_path: Path, partitioner: str
) -> None:
    journal, manifest = plan(tmp_path, 2_500)
    topic = kafka.make(partitions=5)
    sink = dispatcher(kafka, topic, LANES, transaction_size=1_000, partitioner=partitioner)
    dispatch_run(sink, journal, manifest)
    record = assert_ranges_hold(kafka, topic, journal, manifest)
    assert [(t.lane, t.first, t.end) for t in record.transactions] == [
        (lane, first, min(first + 1_000, 2_500))
        for lane in range(LANES)
        for first in (0, 1_000, 2_000)
    ]
    assert all(transaction.ranges for transaction in record.transactions)
    # lanes follow each other here: the ranges of a partition do not overlap, so they are tight
    ranges = sorted((r.partition, r.first, r.last) for t in record.transactions for r in t.ranges)
    assert all(a[0] != b[0] or a[2] < b[1] for a, b in pairwise(ranges))


def test_the_offset_of_a_single_document_is_exact(kafka: Topics, tmp_path: Path) -> None:
    journal, manifest = commit_run(tmp_path / "journal", [documents(1)])
    topic = kafka.make(partitions=3)
    dispatch_run(dispatcher(kafka, topic, 1), journal, manifest)
    (record,) = read_records(journal)
    (read,) = kafka.read(topic)
    assert ranges_of(record.transactions, 0, 0) == (
        SentRange(topic, read.partition, read.offset, read.offset),
    )


def test_an_interrupted_run_knows_the_offsets_that_the_next_start_sends(
    kafka: Topics, tmp_path: Path
) -> None:
    journal, manifest = plan(tmp_path, 1_500)
    topic = kafka.make(partitions=2)
    sink = dispatcher(kafka, topic, LANES, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        dispatch_run(replace(sink, check_lease=DispatchStop(2)), journal, manifest)
    assert next(read_records(journal)).transactions == ()
    dispatch_run(sink, journal, manifest)
    (record,) = read_records(journal)
    assert ranges_of(record.transactions, 0, 0) == ()
    read = places(kafka, topic)
    for lane, number, event_id in event_ids(journal, manifest):
        ranges = ranges_of(record.transactions, lane, number)
        place = read[event_id]
        assert not ranges or any(r.has(topic, place.partition, place.offset) for r in ranges)
    assert any(transaction.ranges for transaction in record.transactions)


def test_offsets_are_unknown_if_the_number_of_partitions_was_wrong(
    kafka: Topics, tmp_path: Path
) -> None:
    journal, manifest = plan(tmp_path, 500)
    topic = kafka.make(partitions=2)
    sink = dispatcher(kafka, topic, LANES)
    sink.session.topics(sink._clients)

    def send_to_more(lanes: Sequence[LaneSendTask]) -> list[LaneSendReport]:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_partitions([NewPartitions(topic, 7)])[topic].result(30)
        return [lane.send() for lane in lanes]

    sink = replace(sink, run_lanes=send_to_more)
    sink.prepare(manifest.run)
    sink.dispatch(journal, manifest, report(journal, manifest))
    (record,) = read_records(journal)
    read = places(kafka, topic)
    assert max(place.partition for place in read.values()) > 1
    assert not all(transaction.ranges for transaction in record.transactions)
    for lane, number, event_id in event_ids(journal, manifest):
        ranges = ranges_of(record.transactions, lane, number)
        place = read[event_id]
        assert not ranges or any(r.has(topic, place.partition, place.offset) for r in ranges)
