"""Rejected records of each format of files are corrected and published as what they were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from publisher.dispatch.files import FileDispatcher
from publisher.ledger.runs import LedgerRun
from publisher.runs.retry import read_corrections
from tests.support.change_table_files import seq, write
from tests.support.event_log_files import csv_text, event
from tests.support.linkexpress_files import OPEN, WRONG_NAME, jack, record
from tests.support.local_engine import EngineSwitch
from tests.support.retried_jobs import EXTRACT, LOG, MESSAGES, ROWS
from tests.support.retried_rejects import documents, export, invoke, retry
from tests.support.samples.change_table import CHANGES, messages

SINK = '\n[dispatch]\npath = "out"\n'


def _correct_sequence(raw: Any) -> Any:
    return raw | {"header__change_seq": seq(7)}


def _correct_mask(raw: Any) -> Any:
    return raw | {"headers": raw["headers"] | {"changeMask": "02"}}


def _correct_name(raw: Any) -> Any:
    assert bytes.fromhex(raw["hex"]) == record(OPEN, *jack(3, name=WRONG_NAME))
    return {"hex": record(OPEN, *jack(3)).hex()}


def _write_extract(path: Path) -> Path:
    records = (jack(1), jack(3, name=WRONG_NAME), jack(2))
    path.write_bytes(b"".join(record(OPEN, *each) for each in records))
    return path


@dataclass(frozen=True)
class Case:
    """A job whose file has a record that is rejected for a reason, and its correction."""

    job: str
    file: str
    make: Callable[[Path], Path]
    reason: str
    correct: Callable[[Any], Any]
    document: str


CASES = {
    "rows": Case(
        ROWS,
        "usr__ct.csv",
        lambda path: write(path, CHANGES),
        "change-seq",
        _correct_sequence,
        "<delete",
    ),
    "messages": Case(MESSAGES, "usr.jsonl", messages, "change-mask", _correct_mask, "<modify"),
    "extract": Case(EXTRACT, "usr.dat", _write_extract, "value", _correct_name, "idu=3"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_corrected_record_is_published_once(
    tmp_path: Path, local_engine: EngineSwitch, name: str
) -> None:
    del local_engine
    case = CASES[name]
    (tmp_path / "job.toml").write_text(case.job + SINK)
    (tmp_path / "in").mkdir()
    case.make(tmp_path / "in" / case.file)
    invoke(tmp_path, "publish", "--engine", "local")
    (entry,) = export(tmp_path, case.reason)
    entry["raw"] = case.correct(entry["raw"])
    result = retry(tmp_path, [entry])
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["read"], report["outcomes"]["published"]) == (1, 1)
    (text,) = [
        line
        for part in (tmp_path / "out" / "runs" / "job-000002").glob("part-*.xds")
        for line in part.read_text().splitlines()
    ]
    assert case.document in text
    again = retry(tmp_path, [entry])
    assert again.exit_code == 2
    assert "retried in run job-000002: published" in again.stderr
    # the next files are read as if there had been no retry
    assert invoke(tmp_path, "publish", "--engine", "local").exit_code == 0
    assert not (tmp_path / "out" / "runs" / "job-000003").exists()


def test_a_record_that_no_document_can_hold_is_exported_as_it_was(
    tmp_path: Path, local_engine: EngineSwitch
) -> None:
    del local_engine
    (tmp_path / "job.toml").write_text(LOG + SINK)
    (tmp_path / "in").mkdir()
    log = tmp_path / "in" / "log.csv"
    log.write_text(csv_text([event(1, new_value="bell \x07"), event(2)]))
    invoke(tmp_path, "publish", "--engine", "local")
    (entry,) = export(tmp_path, "forbidden-character")
    assert (entry["raw"]["record_id"], entry["raw"]["new_value"]) == ("1", "bell \x07")
    entry["raw"]["new_value"] = "bell"
    result = retry(tmp_path, [entry])
    assert result.exit_code == 0, result.stderr
    (text,) = documents(tmp_path, "job-000002")
    assert ">bell<" in text

    # without its file the record is only known as a change, which is no record
    log.unlink()
    (tmp_path / "rejects.jsonl").unlink()
    for run in (tmp_path / ".xds-publisher").rglob("job-000002"):
        shutil.rmtree(run)
    assert export(tmp_path, "forbidden-character") == []


@pytest.mark.parametrize("raw", [{}, {"hex": "0"}, {"hex": ""}, {"hex": 7}, "00", [], None])
def test_binary_records_without_bytes_are_refused(
    tmp_path: Path, local_engine: EngineSwitch, raw: object
) -> None:
    del local_engine
    (tmp_path / "job.toml").write_text(EXTRACT + SINK)
    (tmp_path / "in").mkdir()
    _write_extract(tmp_path / "in" / "usr.dat")
    invoke(tmp_path, "publish", "--engine", "local")
    (entry,) = export(tmp_path, "value")
    result = retry(tmp_path, [entry | {"raw": raw}])
    assert result.exit_code == 2
    assert "fixed.jsonl:1: raw has" in result.stderr


def test_a_retry_that_crashes_before_sending_is_finished_by_the_next_start(
    tmp_path: Path, local_engine: EngineSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    del local_engine
    (tmp_path / "job.toml").write_text(ROWS + SINK)
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "usr__ct.csv", CHANGES)
    invoke(tmp_path, "publish", "--engine", "local")
    (entry,) = export(tmp_path, "change-seq")
    entry["raw"] = _correct_sequence(entry["raw"])

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileDispatcher, "dispatch", crash)
        retry(tmp_path, [entry])
    runs = tmp_path / "out" / "runs"
    assert not (runs / "job-000002" / "run.json").exists()
    result = retry(tmp_path, [entry])
    assert result.exit_code == 2
    assert "retried in run job-000002: published" in result.stderr
    assert (runs / "job-000002" / "run.json").exists()
    assert not (runs / "job-000003").exists()


def test_a_retry_that_crashes_before_its_plan_may_be_repeated(
    tmp_path: Path, local_engine: EngineSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    del local_engine
    (tmp_path / "job.toml").write_text(ROWS + SINK)
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "usr__ct.csv", CHANGES)
    invoke(tmp_path, "publish", "--engine", "local")
    (entry,) = export(tmp_path, "change-seq")
    entry["raw"] = _correct_sequence(entry["raw"])

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LedgerRun, "commit", crash)
        retry(tmp_path, [entry])
    result = retry(tmp_path, [entry])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["outcomes"]["published"] == 1


def test_corrections_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "fixed.jsonl"
    path.write_text('{"id": "hr-000001:0:3", "source": "hr", "raw": {}}\n', "utf-8-sig")
    (correction,) = read_corrections(path)
    assert correction.record.id == "hr-000001:0:3"
