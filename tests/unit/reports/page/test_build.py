"""Reports of runs: numbers equal those of the runs, wherever their rows are."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.errors import UsageError
from publisher.ledger import storage
from publisher.ledger.job import Ledger
from publisher.ledger.read import read_runs
from publisher.ledger.run_reader import RunReader
from publisher.reports.page import chosen_objects, histories
from publisher.reports.page.build import Report, build_report
from publisher.reports.page.overview import PhaseSeconds
from tests.support import finished_runs
from tests.support.event_ids import plain_ids
from tests.support.finished_runs import LANES, close_hours, finish_run, finish_runs, make_ledgers

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return make_ledgers(tmp_path)


def data_of(report: Report) -> dict[str, Any]:
    match = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', report.page, re.DOTALL
    )
    assert match is not None
    data: dict[str, Any] = json.loads(match[1])
    return data


def decisions_of(ledger: Ledger) -> Counter[tuple[str, str | None]]:
    """Outcomes and reasons, read record by record."""
    counts = Counter[tuple[str, str | None]]()
    for run in read_runs(ledger):
        for record in RunReader(run).records():
            counts[record.outcome.label, record.reason] += 1
    return counts


def test_counts_equal_the_decisions(ledger: Ledger) -> None:
    for first in (1, 31, 61):
        finish_run(ledger, range(first, first + 30), refused=False)
    view = build_report([ledger.root], NOW).overview
    assert view.runs == 3
    assert view.read == 90 == sum(view.outcomes.values())
    flows = {(flow.outcome, flow.reason): flow.records for flow in view.flows}
    assert flows == decisions_of(ledger)
    assert sum(sum(table.outcomes.values()) for table in view.tables) == 90
    operations = sum(sum(table.operations.values()) for table in view.tables)
    assert operations == view.documents == sum(lane.documents for lane in view.lanes)
    assert sum(sum(i.counts.values()) for i in view.operations.intervals) == view.documents
    assert {group.reason: group.records for group in view.rejects} == {"event-type": 18}
    assert all(len(group.samples) == 5 for group in view.rejects)


def test_the_seconds_of_lanes_are_summed_over_runs(ledger: Ledger) -> None:
    for first in (1, 31):
        finish_run(ledger, range(first, first + 30), refused=False)
    report = build_report([ledger.root], NOW)
    seconds = dict.fromkeys(range(LANES), 0.0)
    for run in read_runs(ledger):
        for result in run.manifest.results:
            seconds[result.lane] += result.seconds
    assert all(seconds.values())
    assert {lane.lane: lane.seconds for lane in report.overview.lanes} == pytest.approx(seconds)
    slowest = max(seconds.values()) * LANES / sum(seconds.values())
    assert report.overview.skew_of_seconds == pytest.approx(slowest)
    assert f"the slowest took {slowest:.2f} times its seconds" in report.page


def test_refused_documents_count_as_rejected(ledger: Ledger) -> None:
    finish_run(ledger, range(1, 31))
    view = build_report([ledger.root], NOW).overview
    assert sum(view.outcomes.values()) == 30
    [refused] = [group for group in view.rejects if group.reason == "too-large"]
    assert refused.records == 1
    assert refused.samples[0].detail == "longer than 1 byte"
    by_table = Counter[str]()
    for table in view.tables:
        by_table.update(table.outcomes)
    assert by_table == Counter({k: n for k, n in view.outcomes.items() if n})


def test_hours_give_the_same_report(ledger: Ledger) -> None:
    finish_runs(ledger, 5)
    finish_run(ledger, range(100, 130))
    before = build_report([ledger.root], NOW)
    assert close_hours(ledger, fewest=4)
    after = build_report([ledger.root], NOW)
    assert after == before


def test_a_single_run_of_an_hour_can_be_reported(ledger: Ledger) -> None:
    runs = finish_runs(ledger, 3)
    assert close_hours(ledger)
    view = build_report([ledger.root / runs[0]], NOW).overview
    assert (view.runs, view.read, view.newest[0].run) == (1, 3, runs[0])


def test_objects_have_their_histories(ledger: Ledger) -> None:
    finish_run(ledger, [1, 2, 3, 5, 9], refused=False)
    data = data_of(build_report([ledger.root], NOW))
    objects = {entry[0]: entry for entry in data["objects"]}
    assert set(objects) == {f"idu={n},table=usr" for n in (1, 2, 3)}
    events = objects["idu=1,table=usr"][2]
    assert [(event[2], data["outcomes"][event[7]]) for event in events] == [
        ("1", "published"),
        ("9", "published"),
    ]
    assert events[0][10] == events[1][10]  # one document of both, in which the first value is gone
    operation, event_id, diffs = data["documents"][events[0][10]]
    assert (operation, plain_ids(event_id)) == ("modify", "log:1")
    assert diffs == [["fname", [], ["Jack\n9"], 1]]


def test_histories_stay_within_their_limit(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    finish_run(ledger, range(1, 61), refused=False)
    whole = build_report([ledger.root], NOW)
    monkeypatch.setattr(histories, "MAX_CHARACTERS", 6_000)
    report = build_report([ledger.root], NOW)
    data = data_of(report)
    assert 0 < len(data["objects"]) < len(data_of(whole)["objects"])
    assert "of about 4 objects" in report.page
    assert "All 4 objects" in whole.page


def test_a_job_without_a_complete_run_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="no complete run: publish first"):
        build_report([ledger.root], NOW)


def test_another_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no ledger"):
        build_report([tmp_path], NOW)


def test_documents_that_were_deleted_at_the_sink_are_named_so(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("publisher.ledger.runs.RECORDS_OF_SMALL_RUN", 0)
    run = finish_run(ledger, range(1, 31), refused=False)
    for part in (ledger.root / run / "documents").glob("part-*"):
        part.unlink()
    data = data_of(build_report([ledger.root], NOW))
    assert data["documents"]
    assert all(diffs is None for _, _, diffs in data["documents"])


def test_the_sample_of_many_objects_is_random_but_repeatable(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen_objects, "SAMPLED", 2)
    monkeypatch.setattr(chosen_objects, "BUSIEST", 1)
    finish_run(ledger, [n for n in range(1, 40) if n % 5], refused=False)
    first, second = (build_report([ledger.root], NOW) for _ in range(2))
    assert first == second
    assert len(data_of(first)["objects"]) in (2, 3)
    assert "a random sample" in first.page


def test_a_refused_document_counts_in_its_lane_only(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finished_runs, "LANES", 5)
    run = finish_run(ledger, [1, 2, 3, 4])
    manifest = ledger.run(run).manifest()
    assert manifest is not None
    assert sum(result.documents > 0 for result in manifest.results) > 1
    [table] = build_report([ledger.root], NOW).overview.tables
    assert table.outcomes == {"published": 3, "rejected": 1}


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("absent/report.html", "there is no directory .*absent: create it, or name another file"),
        ("job", "is a directory: name a file in it, such as"),
    ],
)
def test_the_target_is_checked_before_ledgers_are_read(
    ledger: Ledger, tmp_path: Path, target: str, problem: str
) -> None:
    (ledger.root / "job-000001").mkdir()  # without a complete run, which is found later
    words = ["report", str(ledger.root), "--to", str(tmp_path / target)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert re.search(problem, result.output)


def test_phases_name_the_run_where_they_took_longest(ledger: Ledger) -> None:
    runs = [finish_run(ledger, [number], refused=False) for number in (1, 2, 3)]
    for run, seconds in zip(runs, (0.5, 2.0, 1.0), strict=True):
        end = json.dumps({"seconds": {"plan": seconds}})
        with storage.transaction(ledger.root) as connection:
            connection.execute("UPDATE run SET outcome = ? WHERE name = ?", (end, run))
    report = build_report([ledger.root], NOW)
    assert report.overview.phases == (PhaseSeconds("plan", 3.5, 2.0, runs[1]),)
    assert '<td>plan</td><td class="n">3.5</td>' in report.page
