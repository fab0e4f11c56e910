"""The trace of a following publisher, level by level."""

from __future__ import annotations

import io
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from publisher.ledger.job import Ledger
from publisher.ledger.runs import LedgerRun
from publisher.observing.compose import observe
from publisher.observing.contract import Poll
from publisher.observing.log_lines import LogLines
from publisher.observing.options import MetricsOptions
from publisher.observing.trace import MAX_CHARACTERS, MAX_LINES, Trace
from tests.support.event_log_files import Row, csv_text, event
from tests.support.planned_ledgers import commit_plan, manifest_of
from tests.support.poll_recorder import REPORT
from tests.support.task_runs import work_of

Lines = list[tuple[int, str]]


def event_of(record_id: int, kind: int, key: str, **values: object) -> Row:
    return event(record_id, event_type=kind, table_key=key, old_value=None, **values)


@pytest.fixture
def ledger_run(tmp_path: Path) -> LedgerRun:
    return plan_log(tmp_path)


def plan_log(tmp_path: Path) -> LedgerRun:
    """A run over two inserts of a row, a record of no known type, a delete."""
    path = tmp_path / "log.csv"
    rows = [
        event_of(1, 1, "idu=1", new_value="Zo\u00eb"),
        event_of(2, 1, "idu=1", column_name="lname", new_value="Doe\x85!"),
        event_of(3, 99, "idu=2", new_value="?"),
        event_of(4, 4, "idu=3", column_name=None, new_value=None),
    ]
    path.write_text(csv_text(rows))
    (tmp_path / "ledger").mkdir()
    work = work_of([path], lanes=2)
    return commit_plan(work, tmp_path / "ledger", manifest_of(2, table="log"))[0]


def poll_of(ledger_run: LedgerRun) -> Poll:
    return Poll(
        replace(REPORT, ledger=str(ledger_run.root)), 0.8, 3, 1.0, transactions=2, retries=0
    )


def trace_lines(level: int, ledger_run: LedgerRun) -> Lines:
    lines: Lines = []
    with Trace(level, lambda level, text: lines.append((level, text))) as trace:
        trace.on_start("hr", "kafka://broker:9092/xds", [])
        trace.on_poll(poll_of(ledger_run))
        trace.on_idle(0, None)
    return lines


def of(level: int, lines: Lines) -> list[str]:
    return [text for found, text in lines if found == level]


def test_nothing_on_level_0(ledger_run: LedgerRun) -> None:
    assert trace_lines(0, ledger_run) == []


@pytest.mark.parametrize("level", range(1, 8))
def test_each_level_adds_to_the_one_below(level: int, ledger_run: LedgerRun) -> None:
    lines = trace_lines(level, ledger_run)
    assert [line for line in lines if line[0] < level] == trace_lines(level - 1, ledger_run)
    assert {found for found, _ in lines} == set(range(1, min(level, 5) + 1))


def test_what_a_poll_took(ledger_run: LedgerRun) -> None:
    assert of(1, trace_lines(1, ledger_run)) == [
        "people-000017 took 0.80 s: plan 0.50 s, dispatch 0.20 s",
        "people-000017 documents 400, 80,000 bytes, transactions 2, retries 0",
        "people-000017 ignored: 15 no-change",
        "people-000017 rejected: 2 table-key, 3 event-time",
        "people-000017 statuses written: 5 E, 1,180 S, 15 W",
    ]


def test_no_values_below_level_3(ledger_run: LedgerRun) -> None:
    text = "\n".join(text for _, text in trace_lines(2, ledger_run))
    assert "source hr: event-log, table log: 3 published, 1 rejected" in text
    assert "Zo" not in text
    assert "idu" not in text


def test_records_and_documents_from_level_3(ledger_run: LedgerRun) -> None:
    lines = of(3, trace_lines(3, ledger_run))
    records = sorted(line for line in lines if " record " in line)
    assert records[0] == "hr-000001 record 1 of hr: type 1 (fname) of usr idu=1: published"
    assert "record 3 of hr: rejected (event-type)" in records[2]
    assert records[3] == "hr-000001 record 4 of hr: type 4 of usr idu=3: published"
    documents = sorted(line for line in lines if line not in records)
    assert len(documents) == 2
    assert documents[0].startswith("hr-000001 add of records 1,2: <nds")
    assert "Zo\u00eb" in documents[0]
    assert documents[1].startswith("hr-000001 delete of records 4: <nds")


def test_lanes_and_files(ledger_run: LedgerRun) -> None:
    lines = trace_lines(5, ledger_run)
    assert "nothing to read" in of(4, lines)
    assert sum("records" in text and "lane" in text for text in of(4, lines)) == 2
    assert any(text.startswith("hr-000001 run ") and "ledger.db" in text for text in of(5, lines))


def test_a_line_cannot_drive_a_terminal(ledger_run: LedgerRun) -> None:
    stream = io.StringIO()
    with Trace(3, LogLines(stream).trace) as trace:
        trace.on_poll(poll_of(ledger_run))
    assert "Doe\\x85!" in stream.getvalue()
    assert all(line.isprintable() for line in stream.getvalue().split("\n"))


def test_a_poll_gives_so_many_lines_and_no_longer_ones(
    ledger_run: LedgerRun, tmp_path: Path
) -> None:
    path = tmp_path / "many.csv"
    long = event_of(1, 1, "idu=1", new_value="x" * 2 * MAX_CHARACTERS)
    many = [event_of(n, 4, f"idu={n}", column_name=None, new_value=None) for n in range(2, 1202)]
    path.write_text(csv_text([long, *many]))
    (tmp_path / "again").mkdir()
    big, _ = commit_plan(work_of([path]), tmp_path / "again", manifest_of(1))
    lines = of(3, trace_lines(3, big))
    assert len(lines) == 2 * (MAX_LINES + 1)
    assert sum(text.startswith(f"… more than {MAX_LINES:,}") for text in lines) == 2
    (cut,) = [text for text in lines if "xxx" in text]
    assert len(cut) < MAX_CHARACTERS + 40
    assert cut.endswith(" characters)")


def test_documents_that_are_gone_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("publisher.ledger.runs.RECORDS_OF_SMALL_RUN", -1)
    ledger_run = plan_log(tmp_path)
    for part in ledger_run.root.glob("published/part-*"):
        part.unlink()
    lines = trace_lines(3, ledger_run)
    assert any("cannot be traced" in text for text in of(1, lines))


def test_statements_without_parameters_from_level_6(tmp_path: Path) -> None:
    lines: Lines = []
    logger = logging.getLogger("sqlalchemy.engine")
    before = logger.level
    for level in (5, 6):
        with Trace(level, lambda level, text: lines.append((level, text))):
            engine = sa.create_engine("sqlite://", hide_parameters=True)
            with engine.connect() as connection:
                connection.execute(sa.text("SELECT :secret"), {"secret": "hush"})
            engine.dispose()
        assert bool(lines) is (level == 6)
    assert any(text == "sqlalchemy.engine.Engine: SELECT ?" for _, text in lines)
    assert {level for level, _ in lines} == {6}
    assert "hush" not in str(lines)
    assert (logger.level, logger.handlers) == (before, [])


def test_all_that_watches_together(ledger_run: LedgerRun, tmp_path: Path) -> None:
    stream = io.StringIO()
    job = Ledger(tmp_path / "job", "hr")
    job.open_identity()
    for _ in range(7):
        job.begin_epoch()
    metrics = MetricsOptions(textfile=tmp_path / "hr.prom")
    with observe(stream, "hr", job.root, metrics, as_json=True, trace=3) as observer:
        observer.on_start("hr", "kafka://broker:9092/xds", [])
        observer.on_poll(poll_of(ledger_run))
        observer.on_stop("stop requested")
    events = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert events[0] == "begun"
    assert events[-1] == "ended"
    assert events.count("poll") == 1
    assert events.count("trace") > 5
    assert 'xds_publisher_epoch{job_name="hr"} 7.0' in (tmp_path / "hr.prom").read_text()
