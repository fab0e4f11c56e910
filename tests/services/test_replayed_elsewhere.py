"""Replays and dispatched ledger go to a topic once, whatever directory their ledger are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import Overrides, load
from publisher.errors import FatalError
from publisher.ledger.conservation import PLANNED, RunReport
from publisher.runs import replay as job
from publisher.runs.publish import publish as publish_job
from tests.services.topics import Topics
from tests.support.followed_jobs import FILES, SINK, write_file

pytestmark = pytest.mark.usefixtures("local_engine")


def job_file(base: Path) -> Path:
    path = base / "job.toml"
    path.write_text(FILES + SINK)
    return path


def test_a_replay_repeated_on_another_machine_sends_nothing_more(
    kafka: Topics, tmp_path: Path
) -> None:
    topic = kafka.make()
    log, path = write_file(tmp_path, "1.csv", *range(1, 21)), job_file(tmp_path)

    def replay(machine: str, lanes: int = 8, *, again: bool = False) -> RunReport:
        settings = load(path, Overrides(ledger=tmp_path / machine, lanes=lanes))
        return job.replay(settings, [log], f"kafka://{kafka.bootstrap}/{topic}", again=again)

    first = replay("a")
    assert len(kafka.read(topic)) == 20
    assert replay("a").state == "already published"
    assert replay("b").run == first.run
    assert len(kafka.read(topic)) == 20
    with pytest.raises(FatalError, match=r"was planned again.*start with --again"):
        replay("c", lanes=3)
    target, settings = f"kafka://{kafka.bootstrap}/{topic}", load(path)
    (ledger,) = (tmp_path / "c").rglob("ledger.db")
    for dry_run in (True, False):
        with pytest.raises(FatalError, match=r"was planned again.*start with --again"):
            job.dispatch(ledger.parent, target, settings, dry_run=dry_run)
    dry = job.dispatch(ledger.parent, target, settings, again=True, dry_run=True)
    assert dry.state == PLANNED
    assert len(kafka.read(topic)) == 20
    replay("c", lanes=3, again=True)
    assert len(kafka.read(topic)) == 40


def test_runs_of_two_jobs_with_one_name_are_dispatched_each_once(
    kafka: Topics, tmp_path: Path
) -> None:
    topic = kafka.make()
    for number, name in enumerate(("a", "b")):
        base = tmp_path / name
        base.mkdir()
        write_file(base, "1.csv", *range(1, 6))
        settings = load(job_file(base))
        report = publish_job(settings)
        assert report.run == "job-000001"
        target, ledger_run = f"kafka://{kafka.bootstrap}/{topic}", Path(report.ledger)
        rehearsed = job.dispatch(ledger_run, target, settings, dry_run=True)
        assert (rehearsed.state, rehearsed.documents) == (PLANNED, 5)
        assert len(kafka.read(topic)) == 5 * number
        for state in ("published", "already published"):
            assert job.dispatch(ledger_run, target, settings).state == state
        rehearsed = job.dispatch(ledger_run, target, settings, dry_run=True)
        assert rehearsed.state == "already published"
        assert len(kafka.read(topic)) == 5 * (number + 1)
