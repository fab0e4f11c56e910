"""A masked job that compares tables of a real database: its topic is verified and repaired."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from confluent_kafka import Producer

from publisher.config.job_file import load
from publisher.consumer import Inbox, Objects
from publisher.consumer.operations import Value
from publisher.consumer.topics import TopicReader
from publisher.runs.repair import repair
from publisher.runs.verify import VerifyReport, VerifyRequest, verify
from tests.services.databases import Place
from tests.services.topics import Topics
from tests.support.planted_tables import (
    COLUMNS,
    KEY_CHANGES,
    MASKING,
    SOURCE,
    TABLES,
    PlantedTables,
)
from tests.support.planted_values import PlantedValues
from tests.support.retried_rejects import invoke

pytestmark = pytest.mark.usefixtures("local_engine")

CREATE = (
    "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, lname TEXT)",
    "ALTER TABLE usr ADD born TEXT, ADD manager INTEGER, ADD guid TEXT",
    "CREATE TABLE phone (idu INTEGER, phoneno TEXT)",
)
SINK = '[dispatch]\nto = "kafka"\nbootstrap = "{bootstrap}"\ntopic = "{topic}"\n'


def write_tables(place: Place, tables: PlantedTables) -> None:
    """Replaces the rows of the tables."""
    rows = [row | {"fname": (row["fname"] or "").replace("\x01", "")} for row in tables.rows]
    marks = ", ".join(f":{name}" for name in COLUMNS)
    with place.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM usr"))
        connection.execute(sa.text("DELETE FROM phone"))
        connection.execute(sa.text(f"INSERT INTO usr VALUES ({marks})"), rows)
        phones = [{"idu": key, "phoneno": text} for key, text in tables.phones]
        connection.execute(sa.text("INSERT INTO phone VALUES (:idu, :phoneno)"), phones)


def tamper(kafka: Topics, before: str, after: str) -> None:
    """Copies a topic; leaves out, repeats and alters some documents.

    A change of a key whose copy under one of the keys is gone would wait for it."""
    chance, producer = random.Random(7), Producer({"bootstrap.servers": kafka.bootstrap})
    for record in kafka.read(before):
        has_copy = any(name == "key-from" for name, _ in record.headers)
        match chance.randrange(1 if has_copy else 0, 8):
            case 0:
                continue
            case 1:
                copies = [record, record]
            case 2:
                value = re.sub(b">([0-9a-f]{32})</value>", rb">x\1</value>", record.value or b"")
                copies = [replace(record, value=value)]
            case _:
                copies = [record]
        for copy in copies:
            headers: Any = list(copy.headers)
            producer.produce(after, copy.value, copy.key, copy.partition, headers=headers)
    assert producer.flush(30) == 0


@dataclass
class DumpingConsumer:
    """Reads a topic, whose documents it ignores the second time, and writes its state into a file."""

    kafka: Topics
    topic: str
    objects: Objects = field(default_factory=Objects)
    inbox: Inbox = field(default_factory=Inbox)

    def read(self) -> None:
        with TopicReader({"bootstrap.servers": self.kafka.bootstrap}, self.topic) as reader:
            self.objects.apply_all(self.inbox.in_order(reader.deliveries(follow=False)))

    def write(self, path: Path) -> None:
        rows: list[dict[str, Any]] = [
            {"object": name, "attribute": attribute, "values": [*map(_value_text, values)]}
            for name, known in self.objects.items()
            for attribute, values in known.attributes.items()
        ]
        rows += [{"object": name, "attribute": None} for name in self.objects]
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _value_text(value: Value) -> str | None:
    return value.text or value.association_ref


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_expired_documents_of_masked_tables_are_no_findings(
    kafka: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setenv("MASK_KEY", "pvmaskingkey" * 3)
    planted, topic, data = PlantedValues(), kafka.make(partitions=2), tmp_path / "data"
    planted.tokens.add(b"pvmaskingkey")
    sink = SINK.format(bootstrap=kafka.bootstrap, topic=topic)
    job = TABLES.replace('[dispatch]\npath = "out"\n', sink)
    (tmp_path / "job.toml").write_text(f'{SOURCE}snapshots = ["{data}"]\n{job}{MASKING}')
    tables, dump = PlantedTables(planted, 60), tmp_path / f"state.{suffix}"
    consumer, shown = DumpingConsumer(kafka, topic), ""
    for is_expired in (False, True):
        if is_expired:
            tables.change()
            kafka.expire(topic)
        for row in tables.rows:
            row["fname"] = (row["fname"] or "").replace("\x01", "")
        tables.write_files(data)
        shown += invoke(tmp_path, "publish").output
        consumer.read()
        consumer.write(dump)
        result = invoke(tmp_path, "verify", "--consumer-dump", dump)
        shown += result.output
        # the file has two rows of one key, which are rejected
        (others,) = re.findall(r"(?m)^usr: \d+ equal, \d+ (.*)", result.output)
        assert others == ("perhaps expired" if is_expired else "missing")
        assert result.exit_code == (0 if is_expired else 3)
        (others,) = re.findall(r"(?m)^consumer: \d+ equal(.*)", result.output)
        assert ("perhaps expired" in others) is is_expired
        assert "different" not in others
    assert planted.find_in(shown) == set()
    assert planted.find_below(tmp_path / ".xds-publisher") == set()


def counts(report: VerifyReport) -> dict[str, int]:
    (table,) = report.outcome.tables
    return {**table.counts, "equal": table.equal}


def test_a_topic_of_masked_tables_is_repaired(
    postgres: Place, kafka: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASK_KEY", "pvmaskingkey" * 3)
    planted, path = PlantedValues(), tmp_path / "job.toml"
    planted.tokens.add(b"pvmaskingkey")
    postgres.execute(*CREATE)
    tables = PlantedTables(planted, 200)
    topics = [kafka.make(partitions=2) for _ in range(2)]
    place = f'tables = ["usr"]\nurl = "{postgres.url}"\n{KEY_CHANGES}'
    texts = []
    for topic in topics:
        sink = SINK.format(bootstrap=kafka.bootstrap, topic=topic)
        job = TABLES.replace('[dispatch]\npath = "out"\n', sink)
        texts.append(f"{SOURCE}{place}{job}{MASKING}")
    path.write_text(texts[0])
    shown = []
    for again in range(2):
        if again:
            tables.change()
        write_tables(postgres, tables)
        shown.append(invoke(tmp_path, "publish"))
        assert shown[-1].exit_code == 0, shown[-1].output
    assert {*counts(verify(VerifyRequest(load(path))))} == {"equal"}
    tamper(kafka, *topics)
    path.write_text(texts[1])
    shown.append(invoke(tmp_path, "verify", "--json"))
    shown.append(invoke(tmp_path, "verify"))
    assert shown[-1].exit_code == 3, shown[-1].output
    found = counts(verify(VerifyRequest(load(path))))
    assert {*found} == {"equal", "missing", "surplus", "different"}
    assert min(found.values()) > 2
    repaired = repair(VerifyRequest(load(path))).run
    assert repaired is not None
    assert repaired.documents == sum(found.values()) - found["equal"]
    assert counts(verify(VerifyRequest(load(path)))) == {"equal": len(tables.rows)}
    written = repr([kafka.read(topic) for topic in topics])
    assert "<add-value>" in written
    assert planted.find_in(written, *(each.output for each in shown)) == set()
    assert planted.find_below(tmp_path) == set()
