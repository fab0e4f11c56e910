"""Rejected records of each format come back from journals and from the dead-letter topic, with a real broker.

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
from tests.support.linkexpress_files import GROUP, JNL, OPEN, group_source, jack, mark, record
from tests.support.retried_jobs import COMPARED, EXTRACT, LOG, MESSAGES, ROWS
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
WAYS = pytest.mark.parametrize("words", [(), ("--dead-letters",)], ids=["journals", "letters"])

Raw = dict[str, Any]


def _bytes_of(options: Any, *records: tuple[int, int]) -> bytes:
    """Records of an extraction with these keys and operation codes; a key of 0 is a commit record."""
    return b"".join(
        record(options, *jack(number, code)) if number else mark(options)
        for number, code in records
    )


def _set_code(options: Any) -> Callable[[Raw], Raw]:
    """Corrects the operation code 0, which does not exist."""

    def correct(raw: Raw) -> Raw:
        wrong, right = _bytes_of(options, (3, 0)), _bytes_of(options, (3, 1))
        octets = bytes.fromhex(raw["hex"])
        return {"hex": (right if octets == wrong else octets).hex()}

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


def _extract(options: Any, *records: tuple[int, int]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(_bytes_of(options, *records))


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
        _extract(OPEN, (1, 1), (3, 0), (2, 1)),
        "operation-code",
        _set_code(OPEN),
        ["idu=3"],
    ),
    "linkexpress-jnl": Case(
        EXTRACT.replace('"OPEN"', '"JNL"'),
        "usr.dat",
        _extract(JNL, (1, 1), (3, 0), (2, 1)),
        "operation-code",
        _set_code(JNL),
        ["idu=3"],
    ),
    "linkexpress-group": Case(
        group_source('snapshots = ["in"]'),
        "group.dat",
        _extract(GROUP, (1, 1), (3, 0), (2, 1), (0, 0), (4, 1), (0, 0)),
        "operation-code",
        _set_code(GROUP),
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
    "triggerless-row": Case(
        COMPARED,
        "usr.csv",
        lambda path: path.write_text("idu,fname\n1,Ann\nx,Bob\n"),
        "table-key",
        lambda raw: raw | {"idu": "3"},
        ["idu=3"],
    ),
    "triggerless-change": Case(
        COMPARED,
        "usr.csv",
        lambda path: path.write_text("idu,fname\n1,Ann\n3,bell \x07\n"),
        "forbidden-character",
        _replace(" \\u0007", ""),
        ["idu=3"],
    ),
}


def _objects(records: list[Record]) -> list[str]:
    text = "".join((record.value or b"").decode() for record in records)
    return re.findall(r"<association>(\w+=\d+)", text)


def _event_ids(records: list[Record]) -> list[bytes | None]:
    return [dict(record.headers)["event-id"] for record in records]


@dataclass(frozen=True)
class LettersJob:
    """A job that sends rejected records to a topic, after its first run."""

    base: Path
    kafka: Topics
    topic: str
    letters: str

    @classmethod
    def publish(cls, base: Path, kafka: Topics, case: Case) -> LettersJob:
        job = cls(base, kafka, kafka.make(), kafka.make())
        sink = SINK.format(bootstrap=kafka.bootstrap, topic=job.topic, letters=job.letters)
        (base / "job.toml").write_text(case.job + sink)
        (base / "in").mkdir()
        case.content(base / "in" / case.file)
        invoke(base, "publish", "--engine", "local")
        return job

    def documents(self) -> list[Record]:
        return self.kafka.read(self.topic)

    def export(self, reason: str, *words: str) -> list[dict[str, Any]]:
        (self.base / "rejects.jsonl").unlink(missing_ok=True)
        return export(self.base, reason, *words)

    def list_rejects(self, *words: str) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(
            invoke(self.base, "rejects", "--json", *words).stdout
        )
        return listed

    def retry(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        result = retry(self.base, entries)
        assert result.exit_code in {0, 4}, result.stderr
        report: dict[str, Any] = json.loads(result.stdout)
        return report


@WAYS
@pytest.mark.parametrize("name", CASES)
def test_rejected_records_come_back(
    kafka: Topics, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    case = CASES[name]
    job = LettersJob.publish(tmp_path, kafka, case)
    before = job.documents()
    assert len(kafka.read(job.letters)) >= len(case.retried)
    entries = job.export(case.reason, *words)
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
    assert job.list_rejects(*words, "--reason", case.reason) == []
    assert job.export(case.reason, *words) == []


@WAYS
@pytest.mark.parametrize("name", ["linkexpress-group", "queue-binary", "queue-text"])
def test_a_transaction_without_one_of_its_records(
    kafka: Topics, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    case = CASES[name]
    job = LettersJob.publish(tmp_path, kafka, case)
    before = len(job.documents())
    entries = job.export(case.reason, *words)
    (wrong,) = [entry for entry in entries if entry["reason"] == case.reason]
    report = job.retry([entry for entry in entries if entry is not wrong])
    assert report["outcomes"]["published"] == len(entries) - 1
    (note,) = [note for note in report["notes"] if "stay rejected" in note]
    assert note.endswith(f": {wrong['id']}")
    # the removed record is a transaction of its own later
    (rest,) = job.export(case.reason, *words)
    assert rest["id"] == wrong["id"]
    assert job.retry([rest | {"raw": case.correct(rest["raw"])}])["outcomes"]["published"] == 1
    assert sorted(_objects(job.documents()[before:])) == sorted(case.retried)
    assert job.list_rejects(*words) == []


@WAYS
@pytest.mark.parametrize("name", ["linkexpress-group", "queue-binary", "queue-text"])
def test_a_transaction_that_stays_wrong_is_rejected_as_a_whole_again(
    kafka: Topics, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    case = CASES[name]
    job = LettersJob.publish(tmp_path, kafka, case)
    before = len(job.documents())
    entries = job.export(case.reason, *words)
    report = job.retry(entries)
    assert report["outcomes"]["rejected"] == len(entries)
    assert len(job.documents()) == before
    again = job.export(case.reason, *words)
    assert {entry["id"].partition(":")[0] for entry in again} == {report["run"]}
    fixed = [entry | {"raw": case.correct(entry["raw"])} for entry in again]
    assert job.retry(fixed)["outcomes"]["published"] == len(entries)
    assert sorted(_objects(job.documents()[before:])) == sorted(case.retried)


def test_letters_outlive_the_file_of_a_record_that_was_not_read(
    kafka: Topics, tmp_path: Path
) -> None:
    case = CASES["linkexpress-open"]
    job = LettersJob.publish(tmp_path, kafka, case)
    (tmp_path / "in" / case.file).unlink()
    (entry,) = job.export(case.reason, "--dead-letters")
    assert job.retry([entry | {"raw": case.correct(entry["raw"])}])["outcomes"]["published"] == 1
