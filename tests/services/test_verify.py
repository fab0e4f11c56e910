"""Topics compared with the tables of a real database: documents left out, doubled and altered."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from publisher.config.job_file import load
from publisher.console import Phase
from publisher.consumer import Inbox, KnownObject, Objects
from publisher.consumer.topics import TopicReader
from publisher.engine.local import LocalEngine
from publisher.engine.local_rows import LocalRows
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job
from publisher.runs.repair import repair
from publisher.runs.verify import VerifyReport, VerifyRequest, compare, verify
from publisher.triggers import Refs, Style, TableRef, install, plan
from publisher.verify.documents import CopiedPart, DocumentPart
from publisher.verify.work import VerifyWork
from tests.services.databases import Place
from tests.services.topics import Record, Topics
from tests.support.local_engine import EngineSwitch

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[[sources]]
name = "hr"
table = "event_log"
{source}
[database]
url = "{url}"
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
[run]
lanes = 3
"""
TABLES = (
    "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(64), pay DECIMAL(9, 2), hired DATE)",
    "ALTER TABLE usr ADD boss INTEGER REFERENCES usr (idu) ON DELETE SET NULL",
    "CREATE TABLE usr_phone (idu INTEGER REFERENCES usr (idu) ON DELETE CASCADE, phoneno VARCHAR(64))",
)
OR_SKIP = "ON CONFLICT DO NOTHING"
REKEY = (
    "UPDATE usr SET idu = idu + 100 WHERE idu % 7 = 1"
    " AND idu NOT IN (SELECT idu FROM usr_phone UNION SELECT boss FROM usr WHERE boss IS NOT NULL)"
)


class Job:
    """A job that publishes the log of two tables to a topic."""

    def __init__(self, place: Place, kafka: Topics, folder: Path, source: str = "") -> None:
        self.place, self.kafka, self.path = place, kafka, folder / "hr.toml"
        self.source, self.topic = source, ""
        self.chance = random.Random(3)
        self.use(kafka.make(partitions=4))

    def use(self, topic: str) -> None:
        self.topic = topic
        values = {"url": self.place.url, "bootstrap": self.kafka.bootstrap, "topic": topic}
        self.path.write_text(JOB.format(source=self.source, **values))

    def log(self, style: Style) -> None:
        refs = Refs((TableRef(None, "usr"),), TableRef(None, "event_log"))
        database = self.place.database()
        install(database, plan(database, refs, style))

    def change(self, count: int) -> None:
        """Inserts, updates and deletes random rows."""
        for _ in range(count):
            key, text = self.chance.randrange(1, 40), self.chance.randrange(1_000)
            self.place.execute(
                self.chance.choice(
                    (
                        f"INSERT INTO usr VALUES ({key}, 'A<{text}>', {text}.50, '2024-05-06') {OR_SKIP}",
                        f"UPDATE usr SET fname = 'B {text}', pay = NULL WHERE idu = {key}",
                        f"UPDATE usr SET boss = (SELECT max(idu) FROM usr) WHERE idu = {key}",
                        f"INSERT INTO usr_phone SELECT idu, '{text}' FROM usr WHERE idu = {key}",
                        f"DELETE FROM usr_phone WHERE idu = {key}",
                        f"DELETE FROM usr WHERE idu = {key} AND random() < 0.3",
                    )
                )
            )

    def publish(self) -> RunReport:
        return publish_job(load(self.path))

    def verify(self) -> VerifyReport:
        return verify(VerifyRequest(load(self.path), examples=1_000))

    def objects(self) -> dict[str, KnownObject]:
        """The objects of a consumer of the topic."""
        objects = Objects()
        with TopicReader({"bootstrap.servers": self.kafka.bootstrap}, self.topic) as opened:
            objects.apply_all(Inbox().in_order(opened.deliveries(follow=False)))
        return dict(objects)

    def tamper(self) -> None:
        """Continues with a copy of the topic that lacks, repeats and alters some documents."""
        records = self.kafka.read(self.topic)
        self.use(self.kafka.make(partitions=4))
        send(self.kafka, self.topic, tampered(self.chance, records))


def tampered(chance: random.Random, records: Iterable[Record]) -> Iterable[Record]:
    for record in records:
        match chance.randrange(12):
            case 0:
                continue
            case 1:
                yield record
                yield record
            case 2:
                value = (record.value or b"").replace(b">A&lt;", b">X&lt;").replace(b">B ", b">Y ")
                value = re.sub(b">([0-9a-f]{32})</value>", rb">x\1</value>", value)
                yield replace(record, value=value)
            case _:
                yield record


def send(kafka: Topics, topic: str, records: Iterable[Record]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for record in records:
        producer.produce(
            topic, record.value, record.key, record.partition, headers=list(record.headers)
        )
    assert producer.flush(30) == 0


def kinds(report: VerifyReport) -> dict[str, str]:
    """The result of each object that is not equal."""
    return {
        example.association: example.kind
        for table in report.outcome.tables
        for example in table.examples
    }


def expected_kinds(right: dict[str, KnownObject], wrong: dict[str, KnownObject]) -> dict[str, str]:
    def values(known: KnownObject) -> dict[str, set[object]]:
        return {name: set(values) for name, values in known.attributes.items()}

    expected = dict.fromkeys(right.keys() - wrong.keys(), "missing")
    expected |= dict.fromkeys(wrong.keys() - right.keys(), "surplus")
    return expected | {
        name: "different"
        for name in right.keys() & wrong.keys()
        if values(right[name]) != values(wrong[name])
    }


@pytest.mark.parametrize(
    ("style", "source"),
    [
        (Style.PER_FIELD, ""),
        (Style.PER_FIELD, 'key_change = "modify-association"'),
        (Style.QUERY_BACK, ""),
    ],
)
def test_tampered_documents_are_found_exactly(
    postgres: Place,
    kafka: Topics,
    tmp_path: Path,
    style: Style,
    source: str,
) -> None:
    job = Job(postgres, kafka, tmp_path, source)
    postgres.execute(*TABLES)
    job.log(style)
    for _ in range(3):
        job.change(150)
        postgres.execute(REKEY)
        job.publish()
    report = job.verify()
    assert kinds(report) == {}
    assert sum(table.equal for table in report.outcome.tables) == len(job.objects()) > 20
    right = job.objects()
    job.tamper()
    report = job.verify()
    assert kinds(report) == expected_kinds(right, job.objects()) != {}
    assert report.outcome.repeated > 5
    repaired = repair(VerifyRequest(load(job.path))).run
    assert repaired is not None
    assert repaired.documents == len(kinds(report))
    headers = [dict(record.headers) for record in kafka.read(job.topic)]
    assert sum(header.get("reason") == b"repair" for header in headers) == repaired.documents
    assert kinds(job.verify()) == {}
    job.change(50)
    job.publish()
    assert kinds(job.verify()) == {}


class LatePublisher(LocalEngine):
    """An engine; after its first comparison the job publishes what waited meanwhile."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self.has_published = False
        self.parts: list[tuple[DocumentPart, ...]] = []
        """The documents of each comparison."""

    def read(self, splits: Any, decode: Any, name: str) -> LocalRows:
        work = getattr(decode, "__self__", None)
        if isinstance(work, VerifyWork):
            self.parts.append(work.documents)
        return super().read(splits, decode, name)

    def each(self, *args: Any, **named: Any) -> Any:
        results = super().each(*args, **named)
        if args[2][0] is Phase.PLANNING and len(self.parts) == 1 and not self.has_published:
            self.has_published = True
            self.job.publish()
        return results


def test_only_new_records_are_read_again(postgres: Place, kafka: Topics, tmp_path: Path) -> None:
    job = Job(postgres, kafka, tmp_path)
    postgres.execute(*TABLES)
    job.log(Style.PER_FIELD)
    job.change(60)
    job.publish()
    before = len(kafka.read(job.topic))
    job.change(30)
    engine = LatePublisher(job)
    with compare(VerifyRequest(load(job.path).for_publish(), examples=1_000), engine) as result:
        assert kinds(result.report) == {}
        first, second = engine.parts
        assert second[: len(first)] == first
        sizes = [
            sum(rows.num_rows for part in parts for rows in part.read()) for parts in engine.parts
        ]
        assert sizes == [before, len(kafka.read(job.topic))]
        assert before < sizes[1]
        copies = {part.path for part in second if isinstance(part, CopiedPart)}
        assert copies == {*(result.folder / "documents").glob("*.arrow")}
    assert not result.folder.exists()


def test_rows_whose_documents_have_expired_are_results_of_their_own(
    postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    postgres.execute(*TABLES, "INSERT INTO usr (idu, fname) VALUES (1000, 'older than the log')")
    job = Job(postgres, kafka, tmp_path)
    job.log(Style.PER_FIELD)
    postgres.execute(*(f"INSERT INTO usr (idu, fname) VALUES ({n}, 'A')" for n in range(1, 21)))
    job.publish()
    assert kinds(job.verify()) == {association_of(1000): "never-published"}
    kafka.expire(job.topic)
    postgres.execute(
        "UPDATE usr SET fname = 'B' WHERE idu IN (3, 4)", "DELETE FROM usr WHERE idu = 5"
    )
    job.publish()
    report = job.verify()
    gone = {association_of(n): "expired" for n in (*range(1, 21), 1000) if n not in (3, 4, 5)}
    assert kinds(report) == gone
    assert report.has_expired
    assert not report.outcome.has_findings
    assert repair(VerifyRequest(load(job.path))).run is None
    report = job.verify()
    repaired = repair(VerifyRequest(load(job.path)), baseline=True).run
    assert repaired is not None
    assert repaired.operations == {"add": len(gone)}
    assert kinds(job.verify()) == {}


def association_of(number: int) -> str:
    return f"idu={number},table=usr,schema=public"


def test_a_topic_for_each_table_is_compared_on_spark(
    spark: object, postgres: Place, kafka: Topics, tmp_path: Path, local_engine: EngineSwitch
) -> None:
    prefix = kafka.make()
    job = Job(postgres, kafka, tmp_path)
    job.use(f"{prefix}.{{table}}")
    job.path.write_text(
        job.path.read_text().replace("[run]", "create_topics = true\npartitions = 2\n[run]")
    )
    postgres.execute(*TABLES, "CREATE TABLE dep (id BIGINT PRIMARY KEY, name CHAR(8))")
    job.log(Style.QUERY_BACK)
    refs = Refs((TableRef(None, "dep"),), TableRef(None, "event_log"))
    install(postgres.database(), plan(postgres.database(), refs, Style.QUERY_BACK))
    job.change(60)
    postgres.execute("INSERT INTO dep VALUES (1, 'IT'), (2, NULL)")
    job.publish()
    local_engine.use_spark()
    report = job.verify()
    assert kinds(report) == {}
    assert {table.table for table in report.outcome.tables} == {"public.usr", "public.dep"}
    postgres.execute(
        "UPDATE dep SET name = 'HR' WHERE id = 1", "DELETE FROM event_log WHERE status = 'N'"
    )
    assert kinds(job.verify()) == {"id=1,table=dep,schema=public": "different"}
    repaired = repair(VerifyRequest(load(job.path))).run
    assert repaired is not None
    assert repaired.documents == 1
    assert kinds(job.verify()) == {}
