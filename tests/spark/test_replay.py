"""Whole replays in Spark: what does not depend on how a log was stored, cut and spread."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from publisher.errors import PublisherError
from publisher.ledger.conservation import RunReport
from publisher.reports.explain import explain
from publisher.runs.replay import replay
from tests.support import whole_log as log

pytestmark = pytest.mark.usefixtures("spark")
"""The session is there, so the program works in it."""

Run = tuple[Path, RunReport]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replay")


@pytest.fixture(scope="module")
def csv_run(spark: object, base: Path) -> Run:
    """The log as one CSV file, replayed in one lane."""
    snapshot = log.write_csv(base / "log.csv")
    target = base / "csv"
    return target, replay(
        log.settings(base / "job.toml", lanes=1, engine="spark"), [snapshot], str(target)
    )


def test_every_record_has_the_outcome_that_it_must_have(csv_run: Run) -> None:
    target, report = csv_run
    expected = log.fates(broken=1)
    assert log.count_fates(target) == expected
    assert report.read == sum(report.outcomes.values()) == len(log.LOG) + 1
    reported = {
        f"{outcome} {reason}": count
        for outcome, reasons in report.reasons.items()
        for reason, count in reasons.items()
    }
    assert reported | {"published": report.outcomes["published"]} == dict(expected)
    assert json.loads((target / "run.json").read_text())["outcomes"] == report.outcomes


@pytest.mark.parametrize(
    ("suffix", "lanes", "cut"), [(".csv", 5, 3), (".jsonl", 2, 1), (".parquet", 4, 1)]
)
def test_result_depends_on_neither_kind_nor_cut_nor_lanes(
    csv_run: Run, base: Path, suffix: str, lanes: int, cut: int
) -> None:
    expected, _ = csv_run
    folder = base / f"cut{suffix}"
    folder.mkdir()
    write = {".csv": log.write_csv, ".jsonl": log.write_jsonl, ".parquet": log.write_parquet}[
        suffix
    ]
    size = len(log.ROWS) // cut + 1
    for number in range(cut):
        write(folder / f"{number}{suffix}", log.ROWS[number * size : (number + 1) * size])
    target = base / f"out{suffix}"
    options = log.settings(base / f"job{suffix}.toml", lanes=lanes)
    replay(options, [folder], str(target))
    assert log.by_object(log.lines(target)) == log.by_object(log.lines(expected))
    broken = {name: n for name, n in log.decisions(target).items() if log.BROKEN in name}
    assert log.decisions(target) - log.decisions(expected) <= Counter(broken)
    assert log.count_fates(target) == log.fates(broken=cut)
    assert len(list(target.glob("part-*.xds"))) == lanes

    again = base / f"again{suffix}"
    replay(options, [folder], str(again))
    assert log.published_files(again) == log.published_files(target)


def test_future_events_are_held_and_time_gives_the_order(csv_run: Run, base: Path) -> None:
    options = log.settings(base / "future.toml", source="future_events = true")
    target = base / "future"
    now = datetime(2024, 6, 1, tzinfo=UTC)
    replay(options, [base / "log.csv"], str(target), now=now)
    assert log.count_fates(target) == log.fates(broken=1, r42="held future")
    nine = log.by_object(log.lines(target))["idu=9,table=usr"]
    assert [line.split("v4")[1][0] for line in nine if "v4" in line] == ["1", "0"]
    (story,) = explain(target, "42")
    assert (story.outcome, story.status) == ("held", "N")

    later = base / "later"
    replay(options, [base / "log.csv"], str(later), now=datetime(2999, 1, 2, tzinfo=UTC))
    assert log.count_fates(later) == log.fates(broken=1)


@pytest.mark.parametrize("source", ["", "future_events = true"])
def test_error_of_a_task_is_one_clear_error(
    csv_run: Run, base: Path, tmp_path: Path, source: str
) -> None:
    options = log.settings(
        tmp_path / "job.toml", source, database=f"sqlite:///{tmp_path}/missing/log.db"
    )
    with pytest.raises(PublisherError) as raised:
        replay(options, [base / "log.csv"], str(tmp_path / "out"))
    assert raised.value.exit_code == 1
    assert "\n" not in raised.value.message
