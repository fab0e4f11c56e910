"""Documents reach a real broker: exactly once, in order, with key and headers."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from publisher import run
from publisher.checks import CheckFinding, check
from publisher.dispatch.kafka import KafkaDispatcher
from publisher.dispatch.kafka_lane import LaneSending, LaneSent
from publisher.dispatch.kafka_options import KafkaOptions
from publisher.dispatch.kafka_records import SIZE_COLUMNS, LaneDocuments, sizes
from publisher.dispatch.kafka_topics import TopicTemplate
from publisher.dispatch.refusals import records
from publisher.errors import FatalError, UnreachableError
from publisher.job_file import load
from publisher.journal.manifest import Journal, Manifest
from tests.services.topics import Record, Topics
from tests.unit.made_journals import Made, committed, documents, report


def pickled(lanes: Sequence[LaneSending]) -> list[LaneSent]:
    """Sends lanes as tasks do: what they are told has been pickled."""
    return [pickle.loads(pickle.dumps(lane)).send() for lane in lanes]


def dispatcher(topics: Topics, topic: str, lanes: int = 2, **options: object) -> KafkaDispatcher:
    made = KafkaOptions(bootstrap=topics.bootstrap, topic=topic, timeout=30, **options)  # type: ignore[arg-type]
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


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_a_producer_whose_queue_is_full_is_waited_for(
    kafka: Topics, tmp_path: Path, mode: str
) -> None:
    made = documents(1_000)
    journal, manifest = committed(tmp_path / "journal", [made])
    topic = kafka.make()
    small = {"queue.buffering.max.messages": "50"}
    sink = dispatcher(kafka, topic, 1, mode=mode, transaction_size=200, kafka=small)
    (told,) = sent(sink, journal, manifest)
    assert (told.documents, told.transactions, told.retries) == (1_000, 5, 0)
    assert by_key(kafka.read(topic)) == expected(made)


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


def test_topics_by_template_are_made_where_they_may_be(kafka: Topics, tmp_path: Path) -> None:
    made = [Made(1, "<a/>"), Made(2, "<b/>", table="dpt"), Made(3, "<c/>", table="dpt")]
    journal, manifest = committed(tmp_path / "journal", [made])
    prefix = kafka.make()
    sink = dispatcher(kafka, f"{prefix}.{{schema}}.{{table}}", 1)
    sink = replace(sink, job=prefix, owner=prefix)
    with pytest.raises(FatalError, match=rf"no topic {prefix}.indirect.dpt, .*nothing was sent"):
        sent(sink, journal, manifest)
    making = replace(sink.options, create_topics=True, partitions=2)
    sent(replace(sink, options=making), journal, manifest)
    assert texts(kafka.read(f"{prefix}.indirect.usr")) == ["<a/>"]
    assert texts(kafka.read(f"{prefix}.indirect.dpt")) == ["<b/>", "<c/>"]
    assert len(kafka.ends(f"{prefix}.indirect.dpt")) == 2


def test_a_missing_topic_is_an_error_before_anything_is_made(kafka: Topics) -> None:
    sink = dispatcher(kafka, "test-there-is-none")
    for work in (sink.check, sink.prepare):
        with pytest.raises(FatalError, match="create_topics"):
            work("run")
    assert not sink.dispatched("run")
    with pytest.raises(KafkaException):
        kafka.ends(sink.options.tokens_of(sink.job))


def test_brokers_that_do_not_answer_are_unreachable() -> None:
    options = KafkaOptions(bootstrap="127.0.0.1:9", timeout=2, kafka={"sasl.password": "s3cret"})
    with pytest.raises(UnreachableError, match=r"127.0.0.1:9.*try again later") as error:
        KafkaDispatcher(options, "job", "job", 1).check("run")
    assert "s3cret" not in str(error.value)


def test_a_token_topic_that_forgets_is_refused(kafka: Topics) -> None:
    topic = kafka.make()
    sink = dispatcher(kafka, topic, token_topic=kafka.make())
    with pytest.raises(FatalError, match=r"cleanup\.policy delete"):
        sink.check("run")


def test_the_number_of_lanes_may_change_between_runs(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make()
    made = documents(60)
    for number, lanes in enumerate((1, 3, 2)):
        part = made[number * 20 : number * 20 + 20]
        split = [part[lane::lanes] for lane in range(lanes)]
        run = f"job-00000{number}"
        journal, manifest = committed(tmp_path / run, split, run=run)
        sent(dispatcher(kafka, topic, lanes), journal, manifest)
    found = texts(kafka.read(topic))
    assert sorted(found) == sorted(document.text for document in made)
    assert len(found) == 60


def test_a_run_that_was_planned_anew_is_not_taken_for_the_first(
    kafka: Topics, tmp_path: Path
) -> None:
    topic = kafka.make()
    made = documents(2_000)
    journal, manifest = committed(tmp_path / "one", [made])
    sink = dispatcher(kafka, topic, 2, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        sent(replace(sink, still_mine=Stop(2)), journal, manifest)
    assert len(kafka.read(topic)) == 1_000
    journal, manifest = committed(tmp_path / "two", [made[::2], made[1::2]])
    with pytest.raises(FatalError, match="planned anew"):
        sent(sink, journal, manifest)
    assert len(kafka.read(topic)) == 1_000


@dataclass
class Stop:
    """Lets some transactions pass: it is asked once before the first."""

    left: int

    def __call__(self) -> None:
        if self.left == 0:
            raise FatalError("stop here")
        self.left -= 1


def test_what_stopped_goes_on_from_the_token(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make()
    made = documents(3_000)
    journal, manifest = committed(tmp_path / "journal", [made])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    for stop, count in ((1, 0), (2, 1_000), (2, 2_000)):
        with pytest.raises(FatalError, match="stop here"):
            sent(replace(sink, still_mine=Stop(stop)), journal, manifest)
        assert len(kafka.read(topic)) == count
    (told,) = sent(sink, journal, manifest)
    assert told.documents == 1_000
    assert by_key(kafka.read(topic)) == expected(made)


def test_documents_that_are_too_large_are_refused_and_the_rest_is_sent(
    kafka: Topics, tmp_path: Path
) -> None:
    topic = kafka.make(max_message_bytes=20_000)
    made = documents(30)
    for place in (3, 29):
        made[place] = replace(made[place], text="x" * 20_000, records="1,2")
    journal, manifest = committed(tmp_path / "journal", [made[:10], made[10:]])
    sink = dispatcher(kafka, topic)
    sent(sink, journal, manifest)
    small = [document for document in made if len(document.text) < 20_000]
    assert by_key(kafka.read(topic)) == expected(small)
    (record,) = records(journal.root)
    assert [(entry.lane, entry.document) for entry in record.refusals] == [(0, 3), (1, 19)]
    assert {entry.reason for entry in record.refusals} == {"too-large"}
    assert "takes 20,000" in record.refusals[0].detail
    lines = (journal.root / "rejects.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    assert [(entry["position"], entry["records"]) for entry in told] == [
        ("4", "1,2"),
        ("30", "1,2"),
    ]


@pytest.mark.parametrize("own", [None, "9000"])
def test_the_size_is_counted_to_the_byte(kafka: Topics, tmp_path: Path, own: str | None) -> None:
    topic = kafka.make(max_message_bytes=10_000)
    limit = int(own or 10_000)

    def value(size: int) -> list[Made]:
        return [Made(1, "y" * size, key="idu=ä" * 20, records=",".join(map(str, range(300))))]

    near = limit - 1_500  # lengths take as many bytes as those that follow
    probed, _ = committed(tmp_path / "near", [value(near)])
    ((_, rows),) = lane_of(probed, 0, topic).rows(SIZE_COLUMNS)
    exact = near + limit - int(sizes(rows, ("log",))[0])
    lanes = [value(exact + more) for more in (-1, 0, 1)]
    journal, manifest = committed(tmp_path / "journal", lanes)
    settings = {"message.max.bytes": own} if own is not None else {}
    sent(dispatcher(kafka, topic, 3, kafka=settings), journal, manifest)
    (record,) = records(journal.root)
    assert [entry.lane for entry in record.refusals] == [2]
    assert len(kafka.read(topic)) == 2
    if own is None:  # the broker itself sees it so
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        errors: list[object] = []
        for number in range(3):
            batch = next(lane_of(journal, number, topic).batches(0, 10))
            ((key, text, headers),) = batch.records
            producer.produce(
                topic, text, key, headers=headers, on_delivery=lambda e, _: errors.append(e)
            )
            producer.flush(30)
        assert [error is None for error in errors] == [True, True, False]


def lane_of(journal: Journal, number: int, topic: str) -> LaneDocuments:
    return LaneDocuments(number, journal.root, journal.root, ("log",), TopicTemplate(topic))


def with_one_of(size: int) -> list[Made]:
    """Documents for two transactions of 1,000; one of the second has this size."""
    made = documents(2_000)
    made[1_500] = replace(made[1_500], text="x" * size)
    return made


def test_a_refusal_stays_once_something_was_sent(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(max_message_bytes=20_000)
    journal, manifest = committed(tmp_path / "journal", [with_one_of(20_000)])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        sent(replace(sink, still_mine=Stop(2)), journal, manifest)
    (first,) = records(journal.root)
    allow(kafka, topic, 100_000)
    sent(sink, journal, manifest)
    assert list(records(journal.root)) == [first]
    assert len(kafka.read(topic)) == 1_999
    sink.forget()
    sent(sink, journal, manifest)
    assert len(kafka.read(topic)) == 1_999 + 2_000


def test_what_is_refused_counts_once_where_sending_goes_on(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(max_message_bytes=20_000)
    journal, manifest = committed(tmp_path / "journal", [with_one_of(20_000)])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        run.sent(journal, manifest, replace(sink, still_mine=Stop(2)))
    told = run.sent(journal, manifest, sink)
    kept = json.loads((journal.root / "run.json").read_text())
    assert told.outcomes["rejected"] == 1
    assert kept["outcomes"] == told.outcomes
    assert kept["reasons"] == told.reasons == {"rejected": {"too-large": 1}}


def test_a_login_that_fails_shows_no_password(
    kafka: Topics, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "somebody-else",
        "sasl.password": "pa55-word",
    }
    sink = dispatcher(kafka, "xds", kafka=settings)
    quick = replace(sink, options=replace(sink.options, timeout=3))
    with pytest.raises((FatalError, UnreachableError)) as error:
        quick.check("run")
    shown = "".join(capfd.readouterr()) + str(error.value) + repr(quick)
    assert "pa55-word" not in shown
    assert "somebody-else" not in shown


def test_check_proves_brokers_settings_and_topics(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make()

    def found(more: str) -> CheckFinding:
        path = tmp_path / "job.toml"
        path.write_text(
            f'[job]\nname = "{topic}"\n[source]\nsnapshots = ["log.csv"]\n[dispatch]\nto = "kafka"\n'
            f'bootstrap = "{kafka.bootstrap}"\n{more}'
        )
        (sink,) = [finding for finding in check(load(path)) if finding.what == "sink"]
        return sink

    good = found(f'topic = "{topic}"\n')
    assert good.ok, good
    assert f"topics {topic}; to be made: xds-publisher.{topic}" in good.detail
    with pytest.raises(KafkaException):
        kafka.ends(f"xds-publisher.{topic}")
    assert "no topic test-missing" in found('topic = "test-missing"\n').detail
    assert not found('topic = "test-missing"\n').ok
    assert found('topic = "test-missing"\ncreate_topics = true\n').ok
    wrong = found(f'topic = "{topic}"\n[dispatch.kafka]\nlingr.ms = 5\n')
    assert not wrong.ok
    assert "lingr.ms: librdkafka has no such setting" in wrong.detail
    assert "replication: is 7" in found(f'topic = "{topic}"\nreplication = 7\n').detail


def test_a_newer_one_takes_its_lanes_back(kafka: Topics, tmp_path: Path) -> None:
    """An older instance that wakes up may fence the newer one before it sees that it is older."""
    topic = kafka.make()
    made = documents(3_000)
    journal, manifest = committed(tmp_path / "journal", [made])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    calls: list[None] = []

    def mine() -> None:
        calls.append(None)
        if len(calls) == 3:  # before the second transaction
            sink.prepare("of an older instance")

    sink.prepare(manifest.run)
    newer = replace(sink, still_mine=mine)
    told: list[LaneSent] = []

    def run(lanes: Sequence[LaneSending]) -> list[LaneSent]:
        told.extend(lane.send() for lane in lanes)
        return told

    replace(newer, run_lanes=run).dispatch(journal, manifest, report(journal, manifest))
    assert [lane.retries for lane in told] == [1]
    assert texts(kafka.read(topic)) == [document.text for document in made]


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_what_the_broker_refuses_after_all_fails_the_lane(
    kafka: Topics, tmp_path: Path, mode: str
) -> None:
    topic = kafka.make(max_message_bytes=20_000)
    made = with_one_of(15_000)
    journal, manifest = committed(tmp_path / "journal", [made])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000, mode=mode)
    with pytest.raises(FatalError, match="stop here"):
        sent(replace(sink, still_mine=Stop(2)), journal, manifest)
    allow(kafka, topic, 10_000)
    for _ in range(2):
        with pytest.raises(FatalError, match=r"compare max\.message\.bytes"):
            sent(sink, journal, manifest)
        assert not sink.dispatched(manifest.run)
    if mode == "exactly-once":
        assert len(kafka.read(topic)) == 1_000
    allow(kafka, topic, 20_000)
    sent(sink, journal, manifest)
    found = kafka.read(topic)
    assert set(texts(found)) == {document.text for document in made}
    assert len(found) == 2_000 or mode == "at-least-once"


def allow(kafka: Topics, topic: str, size: int) -> None:
    """Sets the size of the largest record of a topic."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
