"""The report of a following job: when it is written, and by which process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from publisher.journal.conservation import report_of
from publisher.journal.job_journals import Journals
from publisher.journal.manifest import Journal
from publisher.observing.contract import Poll
from publisher.reports.report_writer import (
    DAY,
    PAUSE_AFTER_FAILURE,
    SHORTEST_PAUSE,
    ReportSchedule,
    ReportWriter,
)
from tests.support.finished_runs import finish_run, make_journals

NOW = 1_780_000_000.0


def write(schedule: ReportSchedule, now: float, seconds: float = 1.0) -> None:
    schedule.start()
    schedule.finish(now, seconds)


def test_the_first_run_gives_a_report() -> None:
    schedule = ReportSchedule(written=None)
    assert not schedule.is_due(NOW)
    schedule.add_run(rejected=0)
    assert schedule.is_due(NOW)


def test_runs_without_rejects_give_a_report_a_day() -> None:
    schedule = ReportSchedule(written=NOW)
    assert not schedule.is_due(NOW + 2 * DAY)  # it would show the same runs
    schedule.add_run(rejected=0)
    assert not schedule.is_due(NOW + DAY - 1)
    assert schedule.is_due(NOW + DAY)
    write(schedule, NOW + DAY)
    assert not schedule.is_due(NOW + 3 * DAY)
    schedule.add_run(rejected=0)
    assert schedule.is_due(NOW - 5 * DAY)  # the clock was set back


def test_rejects_give_a_report_soon() -> None:
    schedule = ReportSchedule(written=NOW)
    schedule.add_run(rejected=3)
    assert schedule.is_due(NOW)
    schedule.start()
    schedule.add_run(rejected=1)  # while the report is written, which may not show it
    schedule.finish(NOW + 1, 1.0)
    assert not schedule.is_due(NOW + SHORTEST_PAUSE)
    assert schedule.is_due(NOW + 1 + SHORTEST_PAUSE)
    write(schedule, NOW + 100, seconds=30.0)
    schedule.add_run(rejected=1)
    assert not schedule.is_due(NOW + 399)
    assert schedule.is_due(NOW + 400)


def test_a_failed_report_is_repeated() -> None:
    schedule = ReportSchedule(written=None)
    schedule.add_run(rejected=0)
    schedule.start()
    schedule.fail(NOW)
    assert not schedule.is_due(NOW + PAUSE_AFTER_FAILURE - 1)
    assert schedule.is_due(NOW + PAUSE_AFTER_FAILURE)


@pytest.fixture
def journals(tmp_path: Path) -> Journals:
    return make_journals(tmp_path)


def finish_poll(journals: Journals, *ids: int) -> Poll:
    run = finish_run(journals, ids, refused=False)
    manifest = Journal(journals.root / run).manifest()
    assert manifest is not None
    report = report_of(manifest, state="published", journal="", target="", seconds={})
    return Poll(report, 0.1, None, None, 0, 0)


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def writer(tmp_path: Path, journals: Journals, warnings: list[str]) -> Iterator[ReportWriter]:
    with ReportWriter(tmp_path / "report.html", journals.root, warnings.append) as writer:
        yield writer


def wait(writer: ReportWriter, done: Path | list[str]) -> None:
    deadline = time.monotonic() + 60
    while not (done.exists() if isinstance(done, Path) else done):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        writer.on_idle(0, None)


def test_another_process_writes_the_report(
    writer: ReportWriter, journals: Journals, tmp_path: Path, warnings: list[str]
) -> None:
    writer.on_idle(0, None)
    poll = finish_poll(journals, 1, 2, 5)
    started = time.monotonic()
    writer.on_poll(poll)
    assert time.monotonic() - started < 0.5  # a poll does not wait
    page = tmp_path / "report.html"
    wait(writer, page)
    assert "job-000001" in page.read_text("utf-8")
    assert page.stat().st_mode & 0o777 == 0o600
    assert warnings == []


def test_a_failure_is_a_warning_with_advice(
    journals: Journals, tmp_path: Path, warnings: list[str]
) -> None:
    target = tmp_path / "absent" / "report.html"
    with ReportWriter(target, journals.root, warnings.append) as writer:
        writer.on_poll(finish_poll(journals, 1))
        wait(writer, warnings)
        [warning] = warnings
        assert warning == (
            f"the report {target} was not written: {target}: there is no directory {target.parent}: create"
            " it, or name another file. Polls continue; the next attempt follows in 60 minutes"
        )
        writer.on_poll(finish_poll(journals, 5))  # rejected, but the pause is not over
        assert len(warnings) == 1


def test_a_process_that_cannot_start_is_a_warning(
    writer: ReportWriter, journals: Journals, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_command", ["/nonexistent/python"])
    writer.on_poll(finish_poll(journals, 1))
    assert "no process can be started" in warnings[0]


def test_a_report_that_takes_too_long_is_ended(
    journals: Journals, tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([NOW, NOW, NOW + 3_601, NOW + 3_601, NOW + 3_601])
    with ReportWriter(
        tmp_path / "r.html", journals.root, warnings.append, times.__next__
    ) as writer:
        monkeypatch.setattr(writer, "_command", ["sleep", "100"])
        writer.on_poll(finish_poll(journals, 1))
        process = writer._process
        assert process is not None
        writer.on_idle(0, None)
        assert process.returncode == -9
        assert "it took more than 60 minutes" in warnings[0]


def test_the_end_of_the_publisher_ends_the_process(
    journals: Journals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ReportWriter(tmp_path / "r.html", journals.root, lambda _: None) as writer:
        monkeypatch.setattr(writer, "_command", ["sleep", "100"])
        writer.on_poll(finish_poll(journals, 1))
        process = writer._process
        assert process is not None
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 10
        writer.on_stop("stop requested")
        assert process.returncode == -9
