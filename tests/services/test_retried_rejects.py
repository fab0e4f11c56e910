"""Rejected records of each format come back from ledger, with a real broker.

They are exported, corrected and published as what they were, each once; what became of them stays visible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.services.topics import Record, Topics
from tests.support.change_table_files import record as change
from tests.support.change_table_files import seq
from tests.support.change_table_files import write as write_changes
from tests.support.dispatch_queue_files import binary, delimited_text
from tests.support.dispatch_queue_jobs import JOB as QUEUE_JOB
from tests.support.dispatch_queue_jobs import transactions
from tests.support.event_log_files import csv_text, event
from tests.support.linkexpress_files import (
    GROUP,
    JNL,
    OPEN,
    WRONG_NAME,
    group_source,
    jack,
    mark,
    record,
)
from tests.support.retried_jobs import EXTRACT, LOG, MESSAGES, ROWS
from tests.support.retried_rejects import export, invoke, retry
from tests.support.samples.change_table import CHANGES, messages

pytestmark = pytest.mark.usefixtures("local_engine")

SINK = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
dead_letter_topic = "{letters}"
"""

Raw = dict[str, Any]


def _bytes_of(options: Any, *keys: int) -> bytes:
    """Records of an extraction with these keys, of which 3 has a wrong name; 0 is a commit record."""
    return b"".join(
        record(options, *(jack(key, name=WRONG_NAME) if key == 3 else jack(key)))
        if key
        else mark(options)
        for key in keys
    )


def _set_name(options: Any) -> Callable[[Raw], Raw]:
    """Corrects a name that is not text in its character code."""

    def correct(raw: Raw) -> Raw:
        octets = bytes.fromhex(raw["hex"])
        right = record(options, *jack(3))
        return {"hex": (right if octets == _bytes_of(options, 3) else octets).hex()}

    return correct


def _replace(old: str, new: str) -> Callable[[Raw], Raw]:
    def correct(raw: Raw) -> Raw:
        changed: Raw = json.loads(json.dumps(raw).replace(old, new))
        return changed

    return correct


@dataclass(frozen=True)
class Case:
    """A job whose file has records that are rejected for a reason, and their correction.

    ``retried`` has the keys of the documents of the retry."""

    job: str
    file: str
    content: Callable[[Path], object]
    reason: str
    correct: Callable[[Raw], Raw]
    retried: list[str]
    records: int = 0
    """Number of exported records, if each has not one document."""


def _events(*rows: Raw) -> Callable[[Path], object]:
    return lambda path: path.write_text(csv_text(list(rows)))


def _extract(options: Any, *keys: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(_bytes_of(options, *keys))


QUEUE = QUEUE_JOB.format(more="").replace('[dispatch]\npath = "out"\n', "")
KEY_CHANGE = [
    change(1, "I", [0, 1], idu="1", fname="Ann"),
    change(2, "B", idu="1", fname="Ann"),
    change(2, "U", [0, 1], idu="4", fname="bell \x07"),
]
KEYS_OF_QUEUE = ["idu=1", "idu=2", *(f"idu={10 + number}" for number in range(5))]
CASES = {
    "event-log": Case(
        LOG,
        "log.csv",
        _events(event(1, event_type="9", table_key="idu=8"), event(2)),
        "event-type",
        lambda raw: raw | {"event_type": "1"},
        ["idu=8"],
    ),
    "event-log-text": Case(
        LOG,
        "log.csv",
        _events(event(1, new_value="bell \x07", table_key="idu=8"), event(2)),
        "forbidden-character",
        _replace(" \\u0007", ""),
        ["idu=8"],
    ),
    "change-table": Case(
        ROWS,
        "usr__ct.csv",
        lambda path: write_changes(path, CHANGES),
        "change-seq",
        lambda raw: raw | {"header__change_seq": seq(7)},
        ["idu=2"],
    ),
    "change-table-key": Case(
        ROWS,
        "usr__ct.csv",
        lambda path: write_changes(path, KEY_CHANGE),
        "forbidden-character",
        _replace(" \\u0007", ""),
        ["idu=1", "idu=4"],
        records=1,
    ),
    "change-messages": Case(
        MESSAGES,
        "usr.jsonl",
        messages,
        "change-mask",
        lambda raw: raw | {"headers": raw["headers"] | {"changeMask": "02"}},
        ["idu=1"],
    ),
    "linkexpress-open": Case(
        EXTRACT,
        "usr.dat",
        _extract(OPEN, 1, 3, 2),
        "value",
        _set_name(OPEN),
        ["idu=3"],
    ),
    "linkexpress-jnl": Case(
        EXTRACT.replace('"OPEN"', '"JNL"'),
        "usr.dat",
        _extract(JNL, 1, 3, 2),
        "value",
        _set_name(JNL),
        ["idu=3"],
    ),
    "linkexpress-group": Case(
        group_source('snapshots = ["in"]'),
        "group.dat",
        _extract(GROUP, 1, 3, 2, 0, 4, 0),
        "value",
        _set_name(GROUP),
        ["idu=1", "idu=3", "idu=2"],
    ),
    "queue-binary": Case(
        QUEUE,
        "queue.dat",
        lambda path: path.write_bytes(binary(transactions())),
        "forbidden-character",
        _replace("420162", "426f62"),
        KEYS_OF_QUEUE,
    ),
    "queue-text": Case(
        QUEUE,
        "queue.csv",
        lambda path: path.write_text(delimited_text(transactions())),
        "forbidden-character",
        _replace("420162", "426f62"),
        KEYS_OF_QUEUE,
    ),
}


def _objects(records: list[Record]) -> list[str]:
    text = "".join((record.value or b"").decode() for record in records)
    return re.findall(r"<association>(\w+=\d+)", text)


def _event_ids(records: list[Record]) -> list[bytes | None]:
    return [dict(record.headers)["event-id"] for record in records]


@dataclass(frozen=True)
class RetriedJob:
    """A job that sends rejected records to a topic, after its first run."""

    base: Path
    kafka: Topics
    topic: str
    letters: str

    @classmethod
    def publish(cls, base: Path, kafka: Topics, case: Case) -> RetriedJob:
        job = cls(base, kafka, kafka.make(), kafka.make())
        sink = SINK.format(bootstrap=kafka.bootstrap, topic=job.topic, letters=job.letters)
        (base / "job.toml").write_text(case.job + sink)
        (base / "in").mkdir()
        case.content(base / "in" / case.file)
        invoke(base, "publish", "--engine", "local")
        return job

    def documents(self) -> list[Record]:
        return self.kafka.read(self.topic)

    def export(self, reason: str) -> list[dict[str, Any]]:
        (self.base / "rejects.jsonl").unlink(missing_ok=True)
        return export(self.base, reason)

    def list_rejects(self, *words: str) -> list[dict[str, Any]]:
        result = invoke(self.base, "rejects", "--json", *words)
        listed: list[dict[str, Any]] = json.loads(result.stdout)
        return listed

    def retry(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        result = retry(self.base, entries)
        assert result.exit_code in {0, 4}, result.stderr
        report: dict[str, Any] = json.loads(result.stdout)
        return report


@pytest.mark.parametrize("name", CASES)
def test_rejected_records_come_back(kafka: Topics, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    job = RetriedJob.publish(tmp_path, kafka, case)
    before = job.documents()
    assert len(kafka.read(job.letters)) >= len(case.retried)
    entries = job.export(case.reason)
    assert len(entries) == (case.records or len(case.retried))  # with the others of a transaction
    fixed = [entry | {"raw": case.correct(entry["raw"])} for entry in entries]
    report = job.retry(fixed[::-1])
    assert report["outcomes"]["published"] == len(case.retried)
    assert not report["outcomes"]["rejected"]

    after = job.documents()
    assert sorted(_objects(after[len(before) :])) == sorted(case.retried)
    assert len(set(_event_ids(after))) == len(after)
    again = retry(tmp_path, fixed)
    assert again.exit_code == 2
    assert again.stderr.count(f"retried in run {report['run']}: published") == len(fixed)
    assert invoke(tmp_path, "publish", "--engine", "local").exit_code == 0
    assert len(job.documents()) == len(after)
    assert job.list_rejects("--reason", case.reason) == []
    assert job.export(case.reason) == []


@pytest.mark.parametrize("name", ["linkexpress-group", "queue-binary", "queue-text"])
def test_a_transaction_without_one_of_its_records(kafka: Topics, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    job = RetriedJob.publish(tmp_path, kafka, case)
    before = len(job.documents())
    entries = job.export(case.reason)
    (wrong,) = [entry for entry in entries if entry["reason"] == case.reason]
    report = job.retry([entry for entry in entries if entry is not wrong])
    assert report["outcomes"]["published"] == len(entries) - 1
    (note,) = [note for note in report["notes"] if "stay rejected" in note]
    assert note.endswith(f": {wrong['id']}")
    # the removed record is a transaction of its own later
    (rest,) = job.export(case.reason)
    assert rest["id"] == wrong["id"]
    assert job.retry([rest | {"raw": case.correct(rest["raw"])}])["outcomes"]["published"] == 1
    assert sorted(_objects(job.documents()[before:])) == sorted(case.retried)
    assert job.list_rejects() == []


@pytest.mark.parametrize("name", ["linkexpress-group", "queue-binary", "queue-text"])
def test_a_transaction_that_stays_wrong_is_rejected_as_a_whole_again(
    kafka: Topics, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    job = RetriedJob.publish(tmp_path, kafka, case)
    before = len(job.documents())
    entries = job.export(case.reason)
    report = job.retry(entries)
    assert report["outcomes"]["rejected"] == len(entries)
    assert len(job.documents()) == before
    again = job.export(case.reason)
    assert {entry["id"].partition(":")[0] for entry in again} == {report["run"]}
    fixed = [entry | {"raw": case.correct(entry["raw"])} for entry in again]
    assert job.retry(fixed)["outcomes"]["published"] == len(entries)
    assert sorted(_objects(job.documents()[before:])) == sorted(case.retried)
