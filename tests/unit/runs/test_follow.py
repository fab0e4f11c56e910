"""Following a job: real files, tables, ledger and sinks, but an engine without Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from publisher.cli.status import status_text
from publisher.console import Phase
from publisher.dispatch.files import FileDispatcher
from publisher.dispatch.refusals import Refusal
from publisher.engine.local import LocalEngine
from publisher.engine.local_rows import LocalRows
from publisher.errors import FatalError, PublisherError, SettingsError, UnreachableError
from publisher.ledger.hours import Closing, hours_of
from publisher.ledger.job import Ledger
from publisher.ledger.read import read_runs
from publisher.observing.contract import Poll
from publisher.reports.explain import explain
from publisher.reports.status import status
from publisher.runs import follow
from publisher.runs.follow import Follower
from publisher.runs.job import Job
from publisher.runs.job_sink import JobSink
from publisher.runs.publish import publish
from tests.support.followed_jobs import (
    FILES,
    TABLE,
    InstantStop,
    PollWatcher,
    follow_until_idle,
    load_settings,
    published_values,
    write_file,
    write_rows,
)
from tests.support.local_engine import ScriptedEngine

AWAY = UnreachableError("the database does not answer: try again later")


def test_a_directory_that_grows_is_published_file_by_file(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1, 2)
    settings = load_settings(tmp_path, FILES)
    watcher = follow_until_idle(
        settings,
        LocalEngine(),
        lambda: write_file(tmp_path, "2.csv", 3),
        lambda: None,
        lambda: (write_file(tmp_path, "4.csv", 5), write_file(tmp_path, "3.csv", 4)),
    )
    runs = [f"job-{number:06d}" for number in (1, 2, 3)]
    assert watcher.events == ["begun", *runs, "stop requested"]
    assert [poll.report.read for poll in watcher.polls] == [2, 1, 2]
    assert published_values(tmp_path) == ["1", "2", "3", "4", "5"]
    again = follow_until_idle(settings, LocalEngine())
    assert again.events == ["begun", "stop requested"]


def test_a_directory_may_be_empty_at_first(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    settings = load_settings(tmp_path, FILES)
    watcher = follow_until_idle(settings, LocalEngine(), lambda: write_file(tmp_path, "1.csv", 1))
    assert len(watcher.polls) == 1


def test_an_input_that_is_absent_is_waited_for(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, FILES.replace('["in"]', '["in", "one.csv"]'))
    stop = InstantStop()
    watcher = PollWatcher(stop.set)
    errors: list[str] = []
    steps = [
        lambda: write_file(tmp_path, "1.csv", 1),
        lambda: write_file(tmp_path, "../one.csv", 2),
    ]

    def on_failure(error: PublisherError, again_in: float | None) -> None:
        assert error.exit_code == 5
        errors.append(error.message)
        steps.pop(0)()

    watcher.on_failure = on_failure  # type: ignore[method-assign]
    Follower(settings, LocalEngine(), watcher, stop).run()
    absent = [f"source hr: {tmp_path / name} does not exist" for name in ("in", "one.csv")]
    advice = ": mount or create it, or fix the job file"
    assert errors == ["; ".join(absent) + advice, absent[1] + advice]
    assert published_values(tmp_path) == ["1", "2"]


def test_a_directory_that_goes_for_a_while_is_waited_for(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1)
    settings = load_settings(tmp_path, FILES)
    stop = InstantStop()
    steps = [lambda: (tmp_path / "in").rename(tmp_path / "away"), lambda: None, stop.set]

    def on_idle() -> None:
        steps.pop(0)()

    watcher = PollWatcher(on_idle)
    pauses: list[float | None] = []

    def on_failure(error: PublisherError, again_in: float | None) -> None:
        pauses.append(again_in)
        if len(pauses) == 3:
            (tmp_path / "away").rename(tmp_path / "in")
            write_file(tmp_path, "2.csv", 2)

    watcher.on_failure = on_failure  # type: ignore[method-assign]
    Follower(settings, LocalEngine(), watcher, stop).run()
    assert pauses == [1, 2, 4]
    assert published_values(tmp_path) == ["1", "2"]


@pytest.mark.parametrize("gone", ["in", "in/1.csv"])
def test_an_input_that_goes_while_it_is_read_is_waited_for(tmp_path: Path, gone: str) -> None:
    """Also where the directory stays, as an empty mount point does."""
    write_file(tmp_path, "1.csv", 1)
    settings = load_settings(tmp_path, FILES)
    stop, away = InstantStop(), tmp_path / "away"
    watcher = PollWatcher(stop.set)
    errors: list[str] = []

    class UnmountingEngine(LocalEngine):
        def read(self, *args: Any, **named: Any) -> LocalRows:
            if not errors:
                (tmp_path / gone).rename(away)
            return super().read(*args, **named)

    def on_failure(error: PublisherError, again_in: float | None) -> None:
        errors.append(error.message)
        away.rename(tmp_path / gone)

    watcher.on_failure = on_failure  # type: ignore[method-assign]
    Follower(settings, UnmountingEngine(), watcher, stop).run()
    assert errors == [
        f"source hr: {tmp_path / 'in' / '1.csv'} does not exist: mount or create it, or fix the job file"
    ]
    assert published_values(tmp_path) == ["1"]


def test_a_published_file_that_grows_ends_it(tmp_path: Path) -> None:
    file = write_file(tmp_path, "1.csv", 1)
    settings = load_settings(tmp_path, FILES)
    with pytest.raises(FatalError, match=r"1\.csv had .* bytes when it was published, and has"):
        follow_until_idle(settings, LocalEngine(), lambda: write_file(tmp_path, file.name, 1, 2))
    assert published_values(tmp_path) == ["1"]


def test_rows_are_acknowledged_and_read_once(tmp_path: Path) -> None:
    write_rows(tmp_path, 10, 11)
    settings = load_settings(tmp_path, TABLE)
    # 5 was committed later: rows are picked by status, not by a watermark
    watcher = follow_until_idle(settings, LocalEngine(), lambda: write_rows(tmp_path, 12, 5))
    assert [poll.report.read for poll in watcher.polls] == [2, 2]
    assert [poll.waiting for poll in watcher.polls] == [2, 2]
    assert [poll.report.statuses for poll in watcher.polls] == [{"S": 2}, {"S": 2}]


def test_small_polls_use_few_lanes(tmp_path: Path) -> None:
    write_rows(tmp_path, *range(1, 2_002))
    engine = ScriptedEngine()
    follow_until_idle(
        load_settings(tmp_path, TABLE, "[run]\nlanes = 3\n"),
        engine,
        lambda: write_rows(tmp_path, 3_000),
        lambda: write_rows(tmp_path, *range(4_000, 12_000)),
    )
    assert engine.lanes == [2, 1, 3]
    assert Ledger(tmp_path / ".xds-publisher" / "job", "job").raise_lanes(1) == 3


def test_pauses_double_up_to_a_minute_and_begin_anew(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    engine = ScriptedEngine(*[AWAY] * 8, None, *[AWAY] * 2)
    watcher = follow_until_idle(
        load_settings(tmp_path, TABLE, "[follow]\npolling_interval = 0\n"),
        engine,
        lambda: write_rows(tmp_path, 2),
    )
    assert watcher.failures == [1, 2, 4, 8, 16, 32, 60, 60, 1, 2]
    assert [poll.report.read for poll in watcher.polls] == [1, 1]
    # nothing is left of what could not be planned
    runs = {path.name for path in (tmp_path / "out" / "runs").iterdir()}
    assert runs == {poll.report.run for poll in watcher.polls}


def cut_short(monkeypatch: pytest.MonkeyPatch, *at: int) -> None:
    """Dispatching fails at these times, counted from 1, after all was planned."""
    dispatch, count = FileDispatcher.dispatch, 0

    def failing(self: FileDispatcher, *arguments: object) -> Sequence[Refusal]:
        nonlocal count
        count += 1
        if count in at:
            raise AWAY
        return dispatch(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(FileDispatcher, "dispatch", failing)


def test_a_poll_that_was_cut_short_counts_when_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path, 1, 2)
    cut_short(monkeypatch, 1, 2)
    watcher = follow_until_idle(
        load_settings(tmp_path, TABLE), LocalEngine(), lambda: write_rows(tmp_path, 3)
    )
    assert watcher.events == ["begun", "job-000001", "job-000002", "stop requested"]
    assert [poll.report.statuses for poll in watcher.polls] == [{"S": 2}, {"S": 1}]
    assert [poll.waiting for poll in watcher.polls] == [None, 1]
    assert watcher.failures == [1, 2]


def test_what_an_earlier_start_had_planned_counts_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path, 1, 2)
    settings = load_settings(tmp_path, TABLE)
    cut_short(monkeypatch, 1)
    with Job(settings, LocalEngine()) as job, pytest.raises(UnreachableError):
        job.run()
    watcher = follow_until_idle(settings, LocalEngine())
    first = "run job-000001, which an earlier start had planned, was sent first"
    assert watcher.events == ["begun", first, "job-000001", "stop requested"]
    (poll,) = watcher.polls
    assert (poll.report.read, poll.report.documents, poll.report.notes) == (2, 2, (first,))


def test_what_waiting_does_not_mend_ends_it(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    engine = ScriptedEngine(AWAY, FatalError("the table is gone: restore it"))
    with pytest.raises(FatalError, match="the table is gone"):
        follow_until_idle(load_settings(tmp_path, TABLE), engine)


def test_it_stops_after_the_poll_in_hand(tmp_path: Path) -> None:
    write_rows(tmp_path, 1, 2)
    stop = InstantStop()

    class StoppingEngine(LocalEngine):
        def read(self, *args: Any, **named: Any) -> LocalRows:
            stop.set()
            return super().read(*args, **named)

    watcher = PollWatcher(lambda: None)
    Follower(load_settings(tmp_path, TABLE), StoppingEngine(), watcher, stop).run()
    assert watcher.events == ["begun", "job-000001", "stop requested"]
    assert watcher.polls[0].report.statuses == {"S": 2}


def test_told_before_it_begins_it_takes_nothing_over(tmp_path: Path) -> None:
    stop = InstantStop()
    stop.set()
    watcher = PollWatcher(lambda: None)
    Follower(load_settings(tmp_path, TABLE), LocalEngine(), watcher, stop).run()
    assert watcher.events == ["stop requested"]
    assert not (tmp_path / ".xds-publisher").exists()


def test_a_newer_instance_ends_it(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)

    def replace_instance() -> None:
        Ledger(tmp_path / ".xds-publisher" / "job", "job").begin_epoch()
        write_rows(tmp_path, 2)

    with pytest.raises(FatalError, match="a newer instance of the job"):
        follow_until_idle(load_settings(tmp_path, TABLE), LocalEngine(), replace_instance)
    with sqlite3.connect(tmp_path / "hr.db") as connection:
        found = connection.execute("SELECT record_id, status FROM log ORDER BY 1").fetchall()
    connection.close()
    assert found == [(1, "S"), (2, "N")]


class WallClock:
    """A clock that goes on by what a ``Stop`` should have waited for; ``jump`` sets it."""

    def __init__(self, stop: InstantStop, now: str) -> None:
        self._stop = stop
        self._begun = datetime.fromisoformat(now)
        self.jump = timedelta()

    def __call__(self) -> datetime:
        return self._begun + self.jump + timedelta(seconds=sum(self._stop.pauses))


def test_at_times_of_day_it_waits_for_the_first(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    stop = InstantStop()
    clock = WallClock(stop, "2026-10-25T00:20:00Z")
    polled: list[datetime] = []

    def on_idle() -> None:
        polled.append(clock())
        clock.jump += timedelta(hours=23, minutes=50)
        if len(polled) == 3:
            stop.set()

    watcher = PollWatcher(on_idle)
    more = '[follow]\npublication_times = ["02:30"]\ntime_zone = "Europe/Berlin"\n'
    settings = load_settings(tmp_path, TABLE, more)
    note_poll = watcher.on_poll

    def on_poll(poll: Poll) -> None:
        note_poll(poll)
        on_idle()

    watcher.on_poll = on_poll  # type: ignore[method-assign]
    Follower(settings, LocalEngine(), watcher, stop, clock).run()
    assert [f"{moment:%d. %H:%M:%S}" for moment in polled] == [
        "25. 00:30:00",
        "26. 01:30:00",
        "27. 01:30:00",
    ]
    assert max(stop.pauses) == 60


def test_a_poll_that_fails_at_its_time_is_repeated_soon(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    stop = InstantStop()
    clock = WallClock(stop, "2026-05-04T05:59:00Z")
    watcher = PollWatcher(lambda: None)
    watcher.on_poll = lambda poll: stop.set()  # type: ignore[method-assign]
    settings = load_settings(tmp_path, TABLE, '[follow]\npublication_times = ["06:00"]\n')
    Follower(settings, ScriptedEngine(AWAY, AWAY), watcher, stop, clock).run()
    assert watcher.failures == [1, 2]
    assert stop.pauses == [60, 1, 2, 60]


def test_a_pause_between_polls_is_the_interval(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    stop = InstantStop()
    settings = load_settings(tmp_path, TABLE, "[follow]\npolling_interval = 7\n")
    Follower(settings, LocalEngine(), PollWatcher(stop.set), stop).run()
    assert stop.pauses == [7, 7]


def change_rows(base: Path, statement: str) -> None:
    with sqlite3.connect(base / "hr.db") as connection:
        connection.execute(statement)
    connection.close()


def kept_runs(base: Path) -> list[str]:
    """The runs that have left anything, in the ledger and in the sink."""
    ledger = [run.place.name for run in read_runs(Ledger(base / ".xds-publisher" / "job", "job"))]
    sink = sorted(path.name for path in (base / "out" / "runs").iterdir())
    assert ledger == sink
    return ledger


FUTURE = TABLE.replace("[database]", "future_events = true\n[database]")


def test_notes_of_the_last_poll_reach_status(tmp_path: Path) -> None:
    write_rows(tmp_path, 10, 11)
    settings = load_settings(tmp_path, TABLE)
    watcher = follow_until_idle(settings, LocalEngine(), lambda: write_rows(tmp_path, 5))
    (note,) = watcher.polls[-1].report.notes
    assert note.startswith("late: 1 published record(s) of hr")
    found = status(settings)
    assert found.last is not None
    assert found.last.notes == (note,)
    assert f"  note       {note}" in list(status_text(found))


def test_rows_that_stay_make_one_run_and_are_looked_at_with_a_breath(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    change_rows(tmp_path, "UPDATE log SET event_time = '2999-01-01 00:00:00'")
    stop = InstantStop()
    idle = iter([lambda: None, lambda: None, stop.set])

    def on_idle() -> None:
        next(idle)()

    watcher = PollWatcher(on_idle)
    settings = load_settings(tmp_path, FUTURE, "[follow]\npolling_interval = 0\n")
    Follower(settings, LocalEngine(), watcher, stop).run()
    assert [poll.report.outcomes["held"] for poll in watcher.polls] == [1]
    assert stop.pauses == [1, 1, 1, 1]
    assert len(kept_runs(tmp_path)) == 1


def test_a_held_row_is_published_when_its_time_comes(tmp_path: Path) -> None:
    write_rows(tmp_path, 1, 2)
    change_rows(tmp_path, "UPDATE log SET event_time = '2999-01-01 00:00:00' WHERE record_id = 1")
    watcher = follow_until_idle(
        load_settings(tmp_path, FUTURE),
        LocalEngine(),
        lambda: None,
        lambda: change_rows(
            tmp_path, "UPDATE log SET event_time = '2026-01-01' WHERE record_id = 1"
        ),
    )
    assert [poll.report.outcomes["held"] for poll in watcher.polls] == [1, 0]
    assert [poll.report.statuses for poll in watcher.polls] == [{"S": 1}, {"S": 1}]


def test_another_held_row_makes_a_run_of_its_own(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    later = "UPDATE log SET event_time = '2999-01-01 00:00:00'"
    change_rows(tmp_path, later)

    def more() -> None:
        write_rows(tmp_path, 2)
        change_rows(tmp_path, later)

    watcher = follow_until_idle(
        load_settings(tmp_path, FUTURE), LocalEngine(), lambda: None, more, lambda: None
    )
    assert [poll.report.outcomes["held"] for poll in watcher.polls] == [1, 2]


def test_a_row_without_record_id_is_reported_once(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    nameless = "INSERT INTO log SELECT NULL, table_key, 'N', event_type, event_time, perpetrator,"
    nameless += " table_name, column_name, old_value, '{}' FROM log LIMIT 1"
    change_rows(tmp_path, nameless.format("Joe"))
    settings = load_settings(tmp_path, TABLE)
    watcher = follow_until_idle(
        settings,
        LocalEngine(),
        lambda: None,
        lambda: write_rows(tmp_path, 2),
        lambda: None,
        lambda: change_rows(tmp_path, nameless.format("Jim")),
        lambda: None,
    )
    reasons = [poll.report.reasons for poll in watcher.polls]
    assert reasons == [
        {"rejected": {"record-id": 1}},
        {"ignored": {"reported-before": 1}},
        {"ignored": {"reported-before": 1}, "rejected": {"record-id": 1}},
    ]
    rejects = [path.read_text() for path in sorted((tmp_path / "out").glob("runs/*/rejects.jsonl"))]
    assert ["Joe" in text for text in rejects] == [True, False, False]
    assert len(kept_runs(tmp_path)) == 3
    # another start remembers it, too
    assert follow_until_idle(settings, LocalEngine()).polls == []
    with Job(settings, LocalEngine()) as job:
        report = job.run()
    assert report is not None
    assert (report.run, report.state, report.rejected) == ("job", "nothing new to read", 0)
    assert report.reasons == {"ignored": {"reported-before": 2}}


def test_small_polls_move_into_the_files_of_their_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = 8
    closing = partial(Closing, seconds=-1, fewest=3)
    monkeypatch.setattr("publisher.ledger.hours.Closing", closing)
    monkeypatch.setattr("publisher.runs.job._SECONDS_BETWEEN_STEPS", 0.0)
    settings = load_settings(tmp_path, TABLE)
    write_rows(tmp_path, 1)
    later = [partial(write_rows, tmp_path, number) for number in range(2, polls + 1)]
    follow_until_idle(settings, LocalEngine(), *later)
    runs = [f"job-{number:06d}" for number in range(1, polls + 1)]
    job = tmp_path / ".xds-publisher" / "job"
    assert hours_of(job)[0].last >= 3
    assert not [*job.glob("job-*")]
    assert len(published_values(tmp_path)) == polls
    (story,) = explain(job, "3")
    assert (story.run, story.outcome) == (runs[2], "published")
    assert story.document is not None
    assert "Jack" in story.document.text
    (same,) = explain(tmp_path / "out" / "runs" / runs[2], "3")
    assert same == replace(story, run=None)
    write_rows(tmp_path, polls + 1)
    report = publish(settings)
    assert (report.run, report.read) == (f"job-{polls + 1:06d}", 1)


def test_polls_that_find_only_rows_that_stay_use_no_number(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    settings = load_settings(tmp_path, FUTURE)
    later = "UPDATE log SET event_time = '2999-01-01 00:00:00' WHERE status = 'N'"

    def held_row() -> None:
        write_rows(tmp_path, 2)
        change_rows(tmp_path, later)

    follow_until_idle(settings, LocalEngine(), held_row, *[lambda: None] * 20)
    with Job(settings, LocalEngine()) as job:
        job.expire()
    assert kept_runs(tmp_path) == ["job-000001", "job-000002"]
    write_rows(tmp_path, 3)
    with Job(settings, LocalEngine()) as job:
        report = job.run()
    assert report is not None
    assert report.run == "job-000003"  # polls that kept no run used no number


def test_without_statuses_it_would_publish_the_same_for_ever(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, TABLE, "[acknowledge]\nwrite_status = false\n")
    with pytest.raises(SettingsError, match="each poll would publish rows that are still N again"):
        follow.follow(settings, PollWatcher(lambda: None), InstantStop())


def test_rows_of_any_status_would_be_published_at_each_poll(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, TABLE.replace("[database]", 'status = "any"\n[database]'))
    with pytest.raises(SettingsError, match="status: each poll would publish all rows"):
        follow.follow(settings, PollWatcher(lambda: None), InstantStop())


class Clock:
    """A minute passes at each look."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 60
        return self.now


def test_a_heartbeat_comes_after_quiet_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path, 1)
    beats: list[float] = []
    clock = Clock()

    monkeypatch.setattr(JobSink, "heartbeat", lambda _: beats.append(clock.now))
    monkeypatch.setattr(follow, "time", clock)
    quiet = [lambda: None] * 40
    follow_until_idle(
        load_settings(tmp_path, TABLE, "[follow]\nheartbeat_minutes = 10\n"), LocalEngine(), *quiet
    )
    assert len(beats) >= 3
    assert all(10 <= (later - before) / 60 <= 14 for before, later in pairwise(beats))
    beats.clear()
    follow_until_idle(load_settings(tmp_path, TABLE), LocalEngine(), *quiet)
    assert beats == []


def test_progress_covers_pending_rows_and_all_phases(tmp_path: Path) -> None:
    write_rows(tmp_path, 1, 2, 3)
    settings = load_settings(tmp_path, TABLE)
    reports: list[tuple[Phase, int, int]] = []
    stop = InstantStop()

    def progress(phase: Phase, done: int, total: int) -> None:
        reports.append((phase, done, total))

    Follower(settings, LocalEngine(), PollWatcher(stop.set), stop, progress=progress).run()
    assert reports[0] == (Phase.WAITING, 0, 3)
    assert (Phase.ACKNOWLEDGING, 3, 3) in reports
    phases = list(dict.fromkeys(phase for phase, _, _ in reports))
    assert phases == [Phase.WAITING, Phase.READING, Phase.PLANNING, Phase.ACKNOWLEDGING]
    assert reports[-1] == (Phase.WAITING, 0, 0)
