"""Documents reach a real broker: exactly once, in order, with key and headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from publisher.config.job_file import load
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.refusals import read_records
from publisher.errors import FatalError, UnreachableError
from publisher.reports.check import CheckFinding, check
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
from tests.support.ledgers import PlannedDocument, commit_run, documents, report


def test_every_document_comes_once_in_the_order_of_its_key(kafka: Topics, tmp_path: Path) -> None:
    planned = documents(2_500)
    lanes = [planned[:1_200], planned[1_200:]]
    ledger_run, manifest = commit_run(tmp_path / "ledger", lanes)
    topic = kafka.make(partitions=3)
    sink = dispatcher(kafka, topic, transaction_size=500)
    reports = dispatch_run(sink, ledger_run, manifest)
    assert by_key(kafka.read(topic)) == texts_by_key(planned)
    assert [lane.documents for lane in reports] == [1_200, 1_300]
    assert [lane.transactions for lane in reports] == [3, 3]
    assert sink.has_run(manifest)
    assert dispatch_run(sink, ledger_run, manifest) == []
    assert len(kafka.read(topic)) == 2_500
    sink.forget()
    assert not sink.has_run(manifest)
    dispatch_run(sink, ledger_run, manifest)
    assert len(kafka.read(topic)) == 5_000


def test_a_producer_whose_queue_is_full_is_waited_for(kafka: Topics, tmp_path: Path) -> None:
    planned = documents(1_000)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    topic = kafka.make()
    small = {"queue.buffering.max.messages": "50"}
    sink = dispatcher(kafka, topic, 1, transaction_size=200, kafka=small)
    (reports,) = dispatch_run(sink, ledger_run, manifest)
    assert (reports.documents, reports.transactions, reports.retries) == (1_000, 5, 0)
    assert by_key(kafka.read(topic)) == texts_by_key(planned)


def test_a_record_has_key_and_headers(kafka: Topics, tmp_path: Path) -> None:
    planned = [
        PlannedDocument(
            7, "<nds>ä</nds>", key="idu=ü,table=usr", operation="add modify", records="7,8,9"
        ),
        PlannedDocument(10, "<nds/>", table="pürse", source=1, ordinal=2),
    ]
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned], sources=("log", "übrige"))
    topic = kafka.make()
    dispatch_run(dispatcher(kafka, topic, 1), ledger_run, manifest)
    first, second = kafka.read(topic)
    assert first.key == "idu=ü,table=usr".encode()
    assert first.value == "<nds>ä</nds>".encode()
    assert first.headers == (
        ("event-id", f"{ORIGIN.prefix('log')}:7".encode()),
        ("source", b"log"),
        ("position", b"7"),
        ("operation", b"add modify"),
        ("class-name", b"usr"),
        ("record-ids", b"7,8,9"),
    )
    assert dict(second.headers) == {
        "event-id": f"{ORIGIN.prefix('übrige')}:10.2".encode(),
        "source": "übrige".encode(),
        "position": b"10",
        "operation": b"modify",
        "class-name": "pürse".encode(),
        "record-ids": b"10",
    }


def test_a_change_of_a_key_is_sent_under_both_keys_and_counted_once(
    kafka: Topics, tmp_path: Path
) -> None:
    change = PlannedDocument(
        2, "<b/>", key="idu=1", operation="modify-association", new_key="idu=ü"
    )
    planned = [PlannedDocument(1, "<a/>", "idu=1"), change, PlannedDocument(3, "<c/>", "idu=ü")]
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    topic = kafka.make(partitions=1)
    sink = dispatcher(kafka, topic, 1)
    (report,) = dispatch_run(sink, ledger_run, manifest)
    assert report.documents == 3
    dispatch_run(sink, ledger_run, manifest)
    records = kafka.read(topic)
    assert [((record.key or b"").decode(), record.value) for record in records] == [
        ("idu=1", b"<a/>"),
        ("idu=1", b"<b/>"),
        ("idu=ü", b"<b/>"),
        ("idu=ü", b"<c/>"),
    ]
    assert records[1].headers == records[2].headers
    assert records[1].headers[-2:] == (("key-from", b"idu=1"), ("key-to", "idu=ü".encode()))
    assert dict(records[1].headers)["event-id"] == f"{ORIGIN.prefix('log')}:2".encode()


def test_topics_by_template_are_made_where_they_may_be(kafka: Topics, tmp_path: Path) -> None:
    planned = [
        PlannedDocument(1, "<a/>"),
        PlannedDocument(2, "<b/>", table="dpt"),
        PlannedDocument(3, "<c/>", table="dpt"),
    ]
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    prefix = kafka.make()
    sink = dispatcher(kafka, f"{prefix}.{{schema}}.{{table}}", 1)
    sink = replace(sink, job=prefix, owner=prefix)
    with pytest.raises(FatalError, match=rf"no topic {prefix}.indirect.dpt, .*nothing was sent"):
        dispatch_run(sink, ledger_run, manifest)
    making = replace(sink.options, create_topics=True, partitions=2)
    dispatch_run(replace(sink, options=making), ledger_run, manifest)
    assert texts(kafka.read(f"{prefix}.indirect.usr")) == ["<a/>"]
    assert texts(kafka.read(f"{prefix}.indirect.dpt")) == ["<b/>", "<c/>"]
    assert len(kafka.ends(f"{prefix}.indirect.dpt")) == 2


def test_documents_without_a_usable_topic_are_refused_and_the_rest_is_sent(
    kafka: Topics, tmp_path: Path
) -> None:
    prefix = kafka.make().replace("_", "-")
    tables = (
        *("usr", "x" * 250, "__consumer_offsets", "__transaction_state", ".", "u-s", "u_s", "u.s"),
        *(f"{prefix}-tokens", f"{prefix}-letters", "dpt"),
    )
    planned = [PlannedDocument(n, f"<{n}/>", table=table) for n, table in enumerate(tables, 1)]
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned[:6], planned[6:]])
    sink = dispatcher(
        kafka,
        "{table}",
        create_topics=True,
        partitions=1,
        token_topic=f"{prefix}-tokens",
        dead_letter_topic=f"{prefix}-letters",
    )
    dispatch_run(replace(sink, job=prefix, owner=prefix), ledger_run, manifest)
    (record,) = read_records(ledger_run.texts())
    refused = {entry.position: (entry.reason, entry.detail) for entry in record.refusals}
    # of u_s and u.s one collides with the other; of both only the first may be made
    assert set(refused) - {"7", "8"} == {"2", "3", "4", "5", "9", "10"}
    assert len({"7", "8"} & set(refused)) == 1
    assert {reason for reason, _ in refused.values()} == {"topic-name"}
    assert "at most 249 characters" in refused["2"][1]
    assert all("exclude table" in detail for _, detail in refused.values())
    assert texts(kafka.read("usr"))[-1] == "<1/>"
    assert texts(kafka.read("dpt"))[-1] == "<11/>"


def test_a_missing_topic_is_an_error_before_anything_is_made(kafka: Topics, tmp_path: Path) -> None:
    _, manifest = commit_run(tmp_path, [documents(1)])
    sink = dispatcher(kafka, "test-there-is-none")
    for work in (sink.check, sink.prepare):
        with pytest.raises(FatalError, match="create_topics"):
            work("run")
    assert not sink.has_run(manifest)
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
    planned = documents(60)
    for number, lanes in enumerate((1, 3, 2)):
        part = planned[number * 20 : number * 20 + 20]
        split = [part[lane::lanes] for lane in range(lanes)]
        run = f"job-00000{number}"
        ledger_run, manifest = commit_run(tmp_path / run, split, run=run)
        dispatch_run(dispatcher(kafka, topic, lanes), ledger_run, manifest)
    check_sink = texts(kafka.read(topic))
    assert sorted(check_sink) == sorted(document.text for document in planned)
    assert len(check_sink) == 60


def test_a_run_that_was_planned_anew_is_not_taken_for_the_first(
    kafka: Topics, tmp_path: Path
) -> None:
    topic = kafka.make()
    planned = documents(2_000)
    ledger_run, manifest = commit_run(tmp_path / "one", [planned])
    sink = dispatcher(kafka, topic, 2, transaction_size=1_000)
    with pytest.raises(FatalError, match="stop here"):
        dispatch_run(replace(sink, check_lease=DispatchStop(2)), ledger_run, manifest)
    assert len(kafka.read(topic)) == 1_000
    ledger_run, manifest = commit_run(tmp_path / "two", [planned[::2], planned[1::2]])
    with pytest.raises(FatalError, match="planned again"):
        dispatch_run(sink, ledger_run, manifest)
    assert len(kafka.read(topic)) == 1_000


def test_what_stopped_goes_on_from_the_token(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make()
    planned = documents(3_000)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    for stop, count in ((1, 0), (2, 1_000), (2, 2_000)):
        with pytest.raises(FatalError, match="stop here"):
            dispatch_run(replace(sink, check_lease=DispatchStop(stop)), ledger_run, manifest)
        assert len(kafka.read(topic)) == count
    (reports,) = dispatch_run(sink, ledger_run, manifest)
    assert reports.documents == 1_000
    assert by_key(kafka.read(topic)) == texts_by_key(planned)


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

    def check_sink(more: str) -> CheckFinding:
        path = tmp_path / "job.toml"
        path.write_text(
            f'[job]\nname = "{topic}"\n[source]\nsnapshots = ["log.csv"]\n[dispatch]\nto = "kafka"\n'
            f'bootstrap = "{kafka.bootstrap}"\n{more}'
        )
        (sink,) = [finding for finding in check(load(path)) if finding.what == "sink"]
        return sink

    good = check_sink(f'topic = "{topic}"\n')
    assert good.ok, good
    assert f"topics {topic}; to be created: xds-publisher.{topic}" in good.detail
    with pytest.raises(KafkaException):
        kafka.ends(f"xds-publisher.{topic}")
    assert "no topic test-missing" in check_sink('topic = "test-missing"\n').detail
    assert not check_sink('topic = "test-missing"\n').ok
    assert check_sink('topic = "test-missing"\ncreate_topics = true\n').ok
    wrong = check_sink(f'topic = "{topic}"\n[dispatch.kafka]\nlingr.ms = 5\n')
    assert not wrong.ok
    assert "lingr.ms: librdkafka has no such setting" in wrong.detail
    assert "replication: is 7" in check_sink(f'topic = "{topic}"\nreplication = 7\n').detail


def test_a_newer_one_takes_its_lanes_back(kafka: Topics, tmp_path: Path) -> None:
    """An older instance that wakes up may fence the newer one before it sees that it is older."""
    topic = kafka.make()
    planned = documents(3_000)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    sink = dispatcher(kafka, topic, 1, transaction_size=1_000)
    calls: list[None] = []

    def mine() -> None:
        calls.append(None)
        if len(calls) == 3:  # before the second transaction
            sink.prepare("of an older instance")

    sink.prepare(manifest.run)
    newer = replace(sink, check_lease=mine)
    reports: list[LaneSendReport] = []

    def run(lanes: Sequence[LaneSendTask]) -> list[LaneSendReport]:
        reports.extend(lane.send() for lane in lanes)
        return reports

    replace(newer, run_lanes=run).dispatch(ledger_run, manifest, report(ledger_run, manifest))
    assert [lane.retries for lane in reports] == [1]
    assert texts(kafka.read(topic)) == [document.text for document in planned]
