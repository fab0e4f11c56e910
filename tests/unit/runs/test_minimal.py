"""Jobs with minimal modifies: their consumers have the same objects as those of jobs without."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.consumer import Objects, part_files, read_files
from publisher.dispatch.refusals import Refusal
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError
from publisher.formats.migration import Migration
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import RetriedRecord
from publisher.ledger.read import read_runs
from publisher.ledger.source_state import PUBLISHED_OBJECTS
from publisher.ledger.stored_states import StoredStates, forget_refused, read_stored_states
from publisher.model.published_objects import PublishedObject
from publisher.runs.job import Job
from publisher.runs.migrate import migrate
from publisher.runs.publish import publish as publish_job
from publisher.runs.rehearse import rehearse
from publisher.runs.repair import repair
from publisher.runs.replay import replay
from publisher.runs.verify import VerifyRequest
from tests.support import compared_jobs, event_log_files
from tests.support.compared_jobs import kinds_and_keys, table_row, write_job, write_table
from tests.support.followed_jobs import (
    FILES,
    HEADER,
    TABLE,
    follow_until_idle,
    load_settings,
    write_rows,
)
from tests.support.local_engine import EngineSwitch
from tests.support.object_states import read_states
from tests.support.published_objects import ObjectValues, values_of
from tests.support.renamed_rows import SETTINGS as RENAMED
from tests.support.renamed_rows import renamed_rows
from tests.unit.runs.test_verify import COMPARED, TABLES
from tests.unit.runs.test_verify import Job as VerifiedJob

pytestmark = pytest.mark.usefixtures("local_engine")

MINIMAL = "[documents]\nminimal = true\n"


class Kill(BaseException):
    """The process is gone."""


def write_events(base: Path, name: str, events: Sequence[tuple[int, int, str, str, str]]) -> Path:
    """A file of events: type, object, column, old and new value."""
    first = 1000 * len(list((base / "in").glob("*.csv"))) if (base / "in").exists() else 0
    rows = [
        f"{first + number},idu={obj},N,{type_},2026-05-04 08:00:00,hr,usr,{column},{old},{new}\n"
        for number, (type_, obj, column, old, new) in enumerate(events, 1)
    ]
    path = base / "in" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(HEADER + "".join(rows))
    return path


def random_events(chance: random.Random, count: int) -> list[tuple[int, int, str, str, str]]:
    return [
        (
            chance.choice([1, 2, 3, 3, 3, 3, 4]),
            chance.randint(1, 6),
            chance.choice(["a", "b"]),
            chance.choice(["u", "v"]),
            chance.choice(["", "u", "v", "w"]),
        )
        for _ in range(count)
    ]


def settings_of(base: Path, more: str = MINIMAL, lanes: int = 3) -> Settings:
    settings = load_settings(base, FILES, more)
    return replace(settings, run=replace(settings.run, lanes=lanes))


def publish(base: Path, more: str = MINIMAL, lanes: int = 3) -> RunReport:
    return publish_job(settings_of(base, more, lanes))


def consumed(base: Path) -> ObjectValues:
    objects = Objects()
    objects.apply_all(read_files(part_files(base / "out")))
    return values_of(objects)


def ledgers_of(base: Path) -> Ledger:
    return Ledger(base / ".xds-publisher" / "job", "job")


def stored(base: Path) -> StoredStates:
    ledger = ledgers_of(base)
    target = str((base / "out").absolute())
    return read_stored_states(ledger, ledger.last_number() + 1, target, by_source=False)


def states(base: Path) -> dict[str, PublishedObject]:
    return read_states([path for path, _ in stored(base).files])


@pytest.mark.parametrize("seed", range(6))
def test_minimal_and_full_jobs_lead_to_the_same_objects(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    full, minimal, unchanged = tmp_path / "full", tmp_path / "minimal", 0
    for number in range(5):
        events = random_events(chance, 30)
        for base in (full, minimal):
            write_events(base, f"{number}.csv", events)
        whole = publish(full, "")
        report = publish(minimal, lanes=chance.randint(1, 5))
        assert (report.run, report.read) == (whole.run, whole.read)
        assert consumed(minimal) == consumed(full)
        assert sum(report.outcomes.values()) == report.read
        assert report.documents <= whole.documents
        unchanged += report.reasons.get("ignored", {}).get("unchanged", 0)
        assert set(states(minimal)) <= set(consumed(minimal))
    assert unchanged > 10


def test_a_job_reports_what_changed_nothing(tmp_path: Path) -> None:
    write_events(tmp_path, "1.csv", [(1, 1, "a", "", "u"), (1, 2, "a", "", "u")])
    publish(tmp_path)
    write_events(tmp_path, "2.csv", [(3, 1, "a", "", "u"), (3, 2, "a", "", "v")])
    report = publish(tmp_path)
    assert report.reasons["ignored"] == {"unchanged": 1}
    (document,) = [
        line
        for part in (tmp_path / "out" / "runs" / "job-000002").glob("part-*.xds")
        for line in part.read_text().splitlines()
    ]
    assert "<remove-value>" in document
    assert "<remove-all-values/>" not in document


@contextmanager
def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Ends the process before the given renaming of a file or folder, as ``kill -9`` may."""
    steps: list[int] = []
    rename = Path.replace

    def replace_or_die(self: Path, target: Path) -> Path:
        steps.append(len(steps))
        if len(steps) > step:
            raise Kill
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replace_or_die)
        yield steps


@pytest.mark.parametrize("part", range(3))
def test_a_killed_job_continues_with_the_right_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """Kills the second run at each of its steps; a third run shows what the states are."""
    chance = random.Random(7)
    rounds = [random_events(chance, 25) for _ in range(3)]
    expected = tmp_path / "expected"
    for number, events in enumerate(rounds):
        write_events(expected, f"{number}.csv", events)
        publish(expected)
    step, is_finished = part, False
    while not is_finished:
        base = tmp_path / str(step)
        write_events(base, "0.csv", rounds[0])
        publish(base)
        write_events(base, "1.csv", rounds[1])
        with killed_at(step, monkeypatch):
            try:
                publish(base)
                is_finished = True
            except Kill:
                pass
        publish(base)
        write_events(base, "2.csv", rounds[2])
        publish(base)
        assert consumed(base) == consumed(expected), step
        assert states(base) == states(expected), step
        step += 3
    assert step > 10


def test_a_run_without_the_setting_makes_all_states_unknown(tmp_path: Path) -> None:
    write_events(tmp_path, "1.csv", [(3, 1, "a", "", "u")])
    publish(tmp_path)
    assert stored(tmp_path).is_complete
    write_events(tmp_path, "2.csv", [(3, 1, "a", "", "v")])
    publish(tmp_path, "")
    assert stored(tmp_path) == replace(stored(tmp_path), files=(), is_complete=False)
    write_events(tmp_path, "3.csv", [(3, 1, "a", "", "u")])
    assert publish(tmp_path).outcomes["published"] == 1
    assert not stored(tmp_path).is_complete
    assert set(states(tmp_path)) == {"idu=1,table=usr"}
    assert consumed(tmp_path) == {"idu=1,table=usr": ("usr", {"a": frozenset({repr(_value("u"))})})}


def _value(text: str) -> object:
    from publisher.consumer import Value, ValueType

    return Value(text, ValueType.STRING)


def test_another_sink_makes_all_states_unknown(tmp_path: Path) -> None:
    write_events(tmp_path, "1.csv", [(3, 1, "a", "", "u")])
    publish(tmp_path)
    ledger = ledgers_of(tmp_path)
    other = read_stored_states(ledger, 2, "elsewhere", by_source=False)
    assert other == StoredStates("elsewhere")
    assert read_stored_states(ledger, 3, str(tmp_path / "out"), by_source=False).files == ()


def test_a_refused_document_makes_its_object_unknown(tmp_path: Path) -> None:
    write_events(tmp_path, "1.csv", [(3, n, "a", "", "u") for n in (1, 2, 3)])
    publish(tmp_path, lanes=1)
    (run,) = read_runs(ledgers_of(tmp_path))
    ledger_run, manifest = run.handle, run.manifest
    refusal = Refusal(0, 1, "hr", "2", "2", "too-large", "")
    forget_refused(ledger_run, manifest, [(refusal.lane, refusal.document)])
    assert states(tmp_path)["idu=2,table=usr"] == PublishedObject()
    write_events(tmp_path, "2.csv", [(3, n, "a", "", "u") for n in (1, 2, 3)])
    report = publish(tmp_path)
    assert (report.outcomes["published"], report.outcomes["ignored"]) == (1, 2)
    assert states(tmp_path)["idu=2,table=usr"].exists


def test_only_the_newest_state_keeps_files_and_outlives_its_ledger(tmp_path: Path) -> None:
    for number in range(4):
        write_events(tmp_path, f"{number}.csv", [(3, number, "a", "", "u")])
        publish(tmp_path, MINIMAL + "[ledger]\nretention_days = 0\n")
        folders = list((tmp_path / ".xds-publisher").rglob("%objects/**/files"))
        assert len(folders) == 1
    assert len(states(tmp_path)) == 4
    assert all(path.stat().st_mode & 0o077 == 0 for path, _ in stored(tmp_path).files)


def test_a_missing_file_of_states_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    write_events(tmp_path, "1.csv", [(3, 1, "a", "", "u")])
    publish(tmp_path)
    for path, _ in stored(tmp_path).files:
        path.unlink()
    write_events(tmp_path, "2.csv", [(3, 1, "a", "", "u")])
    with pytest.raises(FatalError, match="publish once with minimal = false"):
        publish(tmp_path)
    assert publish(tmp_path, "").outcomes["published"] == 1


def test_a_rehearsal_reads_the_states_and_writes_none(tmp_path: Path) -> None:
    write_events(tmp_path, "1.csv", [(3, 1, "a", "", "u")])
    publish(tmp_path)
    before = states(tmp_path)
    write_events(tmp_path, "2.csv", [(3, 1, "a", "", "u"), (3, 1, "a", "", "v")])
    report = rehearse(settings_of(tmp_path))
    assert (report.outcomes["published"], report.outcomes["ignored"]) == (1, 1)
    assert states(tmp_path) == before


def test_a_replay_keeps_no_state_and_trusts_none_when_it_is_repeated(tmp_path: Path) -> None:
    path = write_events(tmp_path, "1.csv", [(1, 1, "a", "", "u"), (3, 1, "a", "", "v")])
    settings, out = settings_of(tmp_path), tmp_path / "replayed"
    replay(settings, [path], str(out))
    assert "<remove-all-values/>" not in _texts(out)
    replay(settings, [path], str(out), again=True)
    assert "<remove-all-values/>" in _texts(out)
    assert not list(out.rglob("*objects*"))


def _texts(directory: Path) -> str:
    return "".join(part.read_text() for part in part_files(directory))


def test_a_followed_log_keeps_its_states_in_few_files(
    tmp_path: Path, local_engine: EngineSwitch
) -> None:
    write_rows(tmp_path, 1, 2)
    settings = load_settings(tmp_path, TABLE, MINIMAL)
    rounds = iter(range(3, 23))
    follow_until_idle(
        settings, LocalEngine(), *[lambda: write_rows(tmp_path, next(rounds), 1)] * 20
    )
    files = stored(tmp_path).files
    assert len(files) <= 4
    assert len(states(tmp_path)) == 22
    assert ledgers_of(tmp_path).state_of(PUBLISHED_OBJECTS) is not None


@pytest.mark.parametrize("runs", [1, 2, 5])
@pytest.mark.parametrize("poll_size", [10_000, 3])
def test_changes_of_keys_move_states_from_lane_to_lane_and_run_to_run(
    tmp_path: Path, runs: int, poll_size: int
) -> None:
    """The hash of the new key gives a renamed object another lane in the next run."""
    table = renamed_rows(runs * 10 + poll_size, 200)
    rows = list(table.event_log())
    source = (
        f'[[sources]]\nname = "hr"\n{RENAMED["event-log"]}snapshots = ["in"]\n'
        f'key_change = "modify-association"\npoll_size = {poll_size}\npoll_slack = 0\n'
    )
    (tmp_path / "in").mkdir()
    documents = []
    for number in range(runs):
        part = rows[number * len(rows) // runs : (number + 1) * len(rows) // runs]
        event_log_files.write(tmp_path / "in" / f"{number}.csv", part)
        report = publish_job(load_settings(tmp_path, source, MINIMAL))
        documents.append(report.documents)
    objects = Objects(strict=True)
    objects.apply_all(read_files(part_files(tmp_path / "out")))
    assert {name: objects[name].text("lname") for name in objects} == {
        f"idu={key},table=usr,schema=hr": text for key, text in table.rows.items()
    }
    assert "<remove-all-values/>" not in _texts(tmp_path / "out")
    known = {name: state.values["lname"] for name, state in states(tmp_path).items()}
    assert known == {
        f"idu={key},table=usr,schema=hr": (f'<value type="string">{text}</value>',)
        for key, text in table.rows.items()
    }


def test_a_migration_publishes_in_full(tmp_path: Path) -> None:
    rows = [table_row(1), table_row(2)]
    write_table(tmp_path, rows)
    compared_jobs.publish(tmp_path, rest=MINIMAL)
    settings = load(write_job(tmp_path, rest=MINIMAL))
    report = migrate(settings, Migration(keys=("idu=1",)))
    assert kinds_and_keys(report, tmp_path) == [("add", "1")]
    assert not states(tmp_path)["idu=1,table=usr"].exists
    assert states(tmp_path)["idu=2,table=usr"].is_whole
    write_table(tmp_path, [table_row(1, "Eve"), table_row(2, "Eve")])
    compared_jobs.publish(tmp_path, rest=MINIMAL)
    objects = Objects()
    objects.apply_all(read_files(part_files(tmp_path / "out")))
    assert {objects[name].text("fname") for name in objects} == {"Eve"}


def test_documents_that_were_damaged_are_repaired_and_continued(tmp_path: Path) -> None:
    """Objects with several values and references; the sink loses and repeats documents."""
    job = VerifiedJob(tmp_path, COMPARED + MINIMAL)
    job.execute(*TABLES, "INSERT INTO dep VALUES ('Bonn', 'HR', 1)")
    job.execute(*(f"INSERT INTO usr VALUES ({n}, 'Ann', 1, NULL, x'00')" for n in range(1, 30)))
    job.execute(*(f"INSERT INTO phone (idu, number) VALUES ({n}, '1')" for n in range(1, 30)))
    job.publish()
    for path, lines in job.lines().items():
        path.write_text("".join(f"{line}\n" for line in [*lines[2:], *lines[3:5]]))
    assert job.verify().outcome.has_findings
    assert repair(VerifyRequest(load(job.path))).run is not None
    assert not job.verify().outcome.has_findings
    for number in range(3):
        job.execute(
            f"UPDATE usr SET fname = 'Eve {number}', boss = {number + 1} WHERE idu % 3 = {number}",
            f"INSERT INTO phone (idu, number) VALUES (7, '{number}'), (8, '1')",
            f"DELETE FROM phone WHERE idu = {number + 10}",
        )
        job.publish()
        report = job.verify()
        assert not report.outcome.has_findings
        assert {table.table: table.equal for table in report.outcome.tables} == {
            "usr": 29,
            "dep": 1,
        }


def test_a_run_of_retried_records_keeps_the_states(tmp_path: Path) -> None:
    path = write_events(tmp_path, "1.csv", [(3, 1, "a", "", "u"), (3, 2, "a", "", "v")])
    publish(tmp_path)
    settings = settings_of(tmp_path)
    retried = [("hr", RetriedRecord("job-000001:0:1", 0, str(path), 1))]
    with LocalEngine() as engine, Job(settings, engine) as job:
        job.publish_sources(settings.sources, retried=retried)
    assert set(states(tmp_path)) == {"idu=1,table=usr", "idu=2,table=usr"}
