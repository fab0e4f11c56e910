"""Rejected records reach their own topic, each once, with what became of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from publisher.dispatch.kafka import dead_letters
from publisher.dispatch.kafka.dead_letters import DeadLetters
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.ledger.conservation import report_of
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from tests.services.topics import Record, Topics
from tests.support.event_ids import ORIGIN
from tests.support.planned_ledgers import plan_small_log


def send(sink: KafkaDispatcher, ledger_run: LedgerRun, manifest: Manifest) -> None:
    sink.prepare(manifest.run)
    report = report_of(
        manifest, state="published", ledger=str(ledger_run.root), target="", seconds={}
    )
    sink.dispatch(ledger_run, manifest, report)


def headers(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


def test_each_rejected_record_comes_once_with_reason_and_position(
    kafka: Topics, tmp_path: Path
) -> None:
    ledger_run, manifest = plan_small_log(tmp_path / "planned")
    ledger_run.commit(manifest)
    topic, letters = kafka.make(), kafka.make()
    options = KafkaOptions(
        bootstrap=kafka.bootstrap,
        topic=topic,
        dead_letter_topic=letters,
    )
    sink = KafkaDispatcher(options, job=topic, owner=topic, lanes=manifest.lanes)
    send(sink, ledger_run, manifest)
    first, second = kafka.read(letters)
    assert headers(first) | {"detail": ""} == {
        "reject-id": f"{manifest.run}:0:102",
        "event-id": f"{ORIGIN.prefix('log')}:51",
        "source": "log",
        "position": "51",
        "reason": "event-type",
        "detail": "",
    }
    assert "9" in headers(first)["detail"]
    assert json.loads(first.value or b"")["event_type"] == "9"
    assert headers(second)["reason"] == "table-key"
    send(sink, ledger_run, manifest)
    again = replace(sink, owner=f"{topic}-again")
    assert len(kafka.read(letters)) == 2
    send(again, ledger_run, manifest)
    assert len(kafka.read(letters)) == 4


def test_a_record_that_is_too_large_says_so_and_goes_without_its_text(tmp_path: Path) -> None:
    entry = {
        "source": "log",
        "position": "7",
        "reason": "value",
        "detail": "no",
        "raw": "x" * 5_000,
    }
    path = tmp_path / "rejects.jsonl"
    path.write_text((json.dumps(entry) + "\n") * 3)
    letters = DeadLetters(path, "letters", 4_000, id_prefixes={"log": "log"})
    assert letters.count() == 3
    first, second = letters.batches(1, 1)
    assert [batch.end for batch in (first, second)] == [2, 3]
    (_, value, found) = first.records[0]
    assert value == b""
    assert ("raw-bytes", b"5000") in found
    assert tuple(name for name, _ in found)[:6] == dead_letters.HEADERS
