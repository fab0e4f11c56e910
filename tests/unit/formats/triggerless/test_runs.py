"""Jobs that compare tables: real files, states, ledger and documents, but an engine without Spark."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from lxml import etree

from publisher.config.job_file import load
from publisher.consumer import Objects, part_files, read_files
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError, PublisherError, UnreachableError, UsageError
from publisher.ledger import storage
from publisher.reports import check, status
from publisher.reports.changes import inspect
from publisher.reports.explain import explain
from publisher.runs import replay as rehearsing
from publisher.runs.publish import publish as publish_job
from publisher.runs.rehearse import rehearse
from tests.support.compared_jobs import (
    Row,
    key_of,
    kinds_and_keys,
    operations_of,
    publish,
    table_row,
    write_job,
    write_table,
)
from tests.support.local_engine import EngineSwitch, ScriptedEngine

pytestmark = pytest.mark.usefixtures("local_engine")


def mirrored(objects: Objects) -> dict[str, dict[str, str]]:
    """Values by row and column; each column has one value."""
    rows = {}
    for association, known in objects.items():
        key = association.partition(",")[0].removeprefix("idu=")
        rows[key] = {name: value.text for name, (value,) in known.attributes.items()}
    return rows


def consumer_table(rows: Sequence[Row]) -> dict[str, dict[str, str]]:
    return {
        str(r["idu"]): {n: v for n, v in r.items() if n != "idu" and v is not None} for r in rows
    }


texts = st.none() | st.text("aé\"',\n\\<&; ", max_size=4)
tables = st.lists(
    st.builds(table_row, st.integers(-2, 9), texts, texts), unique_by=lambda r: r["idu"]
)


@hypothesis_settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(tables, tables, tables, st.sampled_from(["columns", "values"]), st.integers(0, 4))
@example([table_row(1, "a", "b")], [table_row(1, None, "")], [], "values", 0)
def test_documents_turn_one_table_into_the_next(
    first: list[Row],
    second: list[Row],
    third: list[Row],
    state: str,
    bits: int,
) -> None:
    consumer = Objects(strict=True)
    with TemporaryDirectory() as name:
        for number, rows in enumerate((first, second, third)):
            write_table(Path(name), rows)
            buckets = f"buckets = {1 << (bits + number) % 4}"  # it may differ from run to run
            report = publish(Path(name), f'state = "{state}"\n{buckets}')
            if report.run != "job":  # the file was as before
                run = Path(name) / "out" / "runs" / report.run
                consumer.apply_all(read_files(part_files(run)))
            assert mirrored(consumer) == consumer_table(rows)


def test_rows_that_are_as_they_were_are_counted(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(n) for n in range(100)])
    assert publish(tmp_path, "buckets = 4").outcomes["published"] == 100
    write_table(tmp_path, [table_row(n) for n in range(100, 0, -1)])
    report = publish(tmp_path)
    assert (report.read, report.reasons) == (101, {"ignored": {"unchanged": 99}})
    assert kinds_and_keys(report, tmp_path) == [("add", "100"), ("delete", "0")]


@pytest.mark.parametrize("state", ["columns", "values"])
def test_a_table_as_it_was_before_a_rejected_change_is_compared_once(
    tmp_path: Path, state: str
) -> None:
    more = f'state = "{state}"'
    rows = [table_row(1), table_row(2)]
    for first in (table_row(1), table_row(1, "bell \x07"), table_row(1)):
        write_table(tmp_path, [first, *rows[1:]])
        report = publish(tmp_path, more)
    assert report.reasons == {"ignored": {"unchanged": 2}}
    write_table(tmp_path, rows[::-1])
    assert publish(tmp_path, more).reasons == {"ignored": {"unchanged": 2}}


def test_the_same_files_are_not_compared_again(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)])
    publish(tmp_path)
    assert publish(tmp_path).state == "nothing new to read"


def test_only_tables_with_new_files_are_compared(tmp_path: Path) -> None:
    rest = '[tables.dep]\nkey = ["idu"]\n'
    write_table(tmp_path, [table_row(1)])
    write_table(tmp_path, [table_row(1)], "dep.csv")
    assert publish(tmp_path, rest=rest).documents == 2
    write_table(tmp_path, [table_row(1, "Eve")], "dep.csv")
    assert publish(tmp_path, rest=rest).read == 1
    write_table(tmp_path, [table_row(1, "Eve")])
    assert kinds_and_keys(publish(tmp_path, rest=rest), tmp_path) == [("modify", "1")]


def test_the_state_outlives_its_ledger(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1), table_row(2)])
    publish(tmp_path, rest="[ledger]\nretention_days = 0\n")
    publish(tmp_path, rest="[ledger]\nretention_days = 0\n")
    assert not (tmp_path / ".xds-publisher" / "job" / "job-000001").exists()
    write_table(tmp_path, [table_row(1)])
    assert kinds_and_keys(publish(tmp_path), tmp_path) == [("delete", "2")]


@pytest.mark.parametrize(
    ("option", "operations"),
    [
        ("all", [("add", "1"), ("add", "2")]),
        ("resynchronise", [("modify", "1"), ("modify", "2")]),
        ("future", []),
    ],
)
def test_the_first_comparison_does_what_the_startup_option_says(
    tmp_path: Path, option: str, operations: list[tuple[str, str]]
) -> None:
    more = f'startup_option = "{option}"'
    write_table(tmp_path, [table_row(1), table_row(2)])
    report = publish(tmp_path, more)
    assert kinds_and_keys(report, tmp_path) == operations
    assert report.read == 2
    write_table(tmp_path, [table_row(2, "Eve"), table_row(3)])
    later = [("add", "3"), ("delete", "1"), ("modify", "2")]
    assert kinds_and_keys(publish(tmp_path, more), tmp_path) == later


def test_an_earlier_snapshot_is_compared_with(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    write_table(tmp_path, [table_row(1), table_row(2)]).rename(tmp_path / "old" / "usr.csv")
    write_table(tmp_path, [table_row(1, "Eve")])
    report = publish(tmp_path, 'before = ["old"]')
    assert kinds_and_keys(report, tmp_path) == [("delete", "2"), ("modify", "1")]
    write_table(tmp_path, [table_row(1)])
    assert kinds_and_keys(publish(tmp_path, 'before = ["old"]'), tmp_path) == [("modify", "1")]


def test_an_unreadable_row_prevents_deletes(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1), table_row(2), table_row(3)])
    publish(tmp_path, "buckets = 4")
    path = write_table(tmp_path, [table_row(1, "Eve")])
    path.write_text(path.read_text() + '2,"Ann"\n,nobody,\nx,number,\n')
    report = publish(tmp_path)
    assert kinds_and_keys(report, tmp_path) == [("modify", "1")]
    assert report.reasons["rejected"] == {"broken-record": 1, "table-key": 2}
    assert any("2 known row(s) of usr are missing" in note for note in report.notes)
    rejects = (tmp_path / "out" / "runs" / report.run / "rejects.jsonl").read_text().splitlines()
    assert any("usr.csv, record 4" in json.loads(line)["detail"] for line in rejects)
    write_table(tmp_path, [table_row(1, "Eve")])
    assert kinds_and_keys(publish(tmp_path), tmp_path) == [("delete", "2"), ("delete", "3")]


def test_keys_are_canonical(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row("01"), table_row(2)])
    publish(tmp_path)
    write_table(tmp_path, [table_row("1"), table_row("+2")])
    assert publish(tmp_path).documents == 0


def test_a_run_that_fails_loses_no_change(local_engine: EngineSwitch, tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)])
    publish(tmp_path)
    write_table(tmp_path, [table_row(1, "Eve")])
    away = UnreachableError("away: try again")
    local_engine.use(lambda: ScriptedEngine(away))
    with pytest.raises(UnreachableError):
        publish(tmp_path)
    local_engine.use(LocalEngine)
    assert kinds_and_keys(publish(tmp_path), tmp_path) == [("modify", "1")]


KILLED = """
import os, signal, sys
from publisher.config.job_file import load
from publisher.runs import run as spine
from publisher.runs.publish import publish as publish_job
from pathlib import Path
spine.send = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
publish_job(load(Path(sys.argv[1])))
"""
ROOT = Path(__file__).parents[4]


def test_a_kill_between_ledger_and_dispatch_neither_loses_nor_repeats(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)])
    publish(tmp_path)
    write_table(tmp_path, [table_row(1, "Eve")])
    command = [sys.executable, "-c", KILLED, str(write_job(tmp_path))]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    write_table(tmp_path, [table_row(1, "Eve"), table_row(2)])
    report = publish(tmp_path)
    assert "job-000002" in report.notes[0]
    assert kinds_and_keys(report, tmp_path) == [("add", "2")]
    runs = sorted((tmp_path / "out" / "runs").iterdir())
    sent = [line for r in runs for p in r.glob("part-*.xds") for line in p.read_text().splitlines()]
    assert len(sent) == 3


@pytest.mark.parametrize(
    ("more", "rest", "words"),
    [
        ('state = "values"', "", "restore that setting, or remove the state"),
        ('key = { usr = ["lname"] }', "", "key of table usr changed since"),
    ],
)
def test_a_state_of_another_kind_is_refused(
    tmp_path: Path, more: str, rest: str, words: str
) -> None:
    write_table(tmp_path, [table_row(1, lname="Lee")])
    publish(tmp_path)
    write_table(tmp_path, [table_row(1, lname="Eve")])
    path = write_job(tmp_path, more)
    if "key" in more:
        path.write_text(path.read_text().replace('key = ["idu"]', ""))
    with pytest.raises(FatalError, match=words):
        publish_job(load(path))


def test_a_new_column_was_null_and_a_dropped_column_is_no_change(tmp_path: Path) -> None:
    path = write_table(tmp_path, [table_row(1), table_row(2)])
    publish(tmp_path)
    path.write_text("idu,fname,mail\n1,Ann,a@b\n2,Ann,\n")
    report = publish(tmp_path)
    (operation,) = operations_of(report, tmp_path)
    assert [a.attrib["attr-name"] for a in operation.iterfind("modify-attr")] == ["mail"]


def test_files_of_no_table_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)], "other.csv")
    with pytest.raises(FatalError, match="primary key of other is unknown"):
        publish(tmp_path)
    write_table(tmp_path, [table_row(1)])
    with pytest.raises(PublisherError, match="other is none of the tables"):
        publish(tmp_path, 'tables = ["usr", "dep"]')


def test_a_damaged_state_is_reported(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)])
    report = publish(tmp_path)
    (known,) = Path(report.ledger).parent.glob("state/hr/000001/known/*")
    known.write_bytes(known.read_bytes()[:-9])
    write_table(tmp_path, [table_row(2)])
    with pytest.raises(FatalError, match="is missing or was changed: what source hr remembers"):
        publish(tmp_path)


def test_explain_shows_a_change(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)])
    publish(tmp_path)
    write_table(tmp_path, [table_row(1, "Eve")])
    report = publish(tmp_path)
    (story,) = explain(Path(report.ledger), "usr:2:1")
    assert (
        story.place
        == f"{Path(report.ledger).parent / 'state' / 'hr' / '000002' / 'found'}, record 1"
    )
    assert json.loads(str(story.raw))["new"] == ["Eve"]


def test_inspect_shows_files_as_they_were_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path, [table_row(1), table_row("x")])
    settings = load(write_job(tmp_path))
    monkeypatch.chdir(tmp_path)
    records = [json.loads(line) for line in inspect(settings, [Path("in")])]
    assert [record["file"] for record in records] == ["in/usr.csv"] * 2


def test_the_old_value_is_published_if_it_is_stored(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1, "Ann", "Lee")])
    publish(tmp_path, 'state = "values"')
    write_table(tmp_path, [table_row(1, "Ann", None)])
    (operation,) = operations_of(publish(tmp_path, 'state = "values"'), tmp_path)
    assert operation.findtext("modify-attr/remove-value/value") == "Lee"
    assert operation.find("modify-attr/add-value") is None


def test_what_can_be_compared_is_checked(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)])
    found = {finding.what: finding for finding in check.check(load(write_job(tmp_path)))}
    assert found["source hr"].detail.startswith("1 table(s) in 1 file(s)")
    assert "first change usr:1:1: insert field of idu=1 in usr" in found["sample of hr"].detail
    write_table(tmp_path, [table_row(1)], "dep.csv")
    found = {finding.what: finding for finding in check.check(load(write_job(tmp_path)))}
    assert "primary key of dep is unknown" in found["source hr"].detail


def test_status_shows_pending_tables(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1)])
    (before,) = status.status(load(write_job(tmp_path))).files
    publish(tmp_path)
    (after,) = status.status(load(write_job(tmp_path))).files
    assert [(s.new, s.published, s.compared) for s in (before, after)] == [
        (1, 0, True),
        (0, 1, True),
    ]


def test_a_rehearsal_stores_nothing(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1), table_row(2)])
    publish(tmp_path)
    write_table(tmp_path, [table_row(1)])
    for _ in range(2):
        report = rehearse(load(write_job(tmp_path)))
        assert report.operations == {"delete": 1}
    assert kinds_and_keys(publish(tmp_path), tmp_path) == [("delete", "2")]


def test_rows_of_replaced_states_are_removed(tmp_path: Path) -> None:
    for number in range(3):
        write_table(tmp_path, [table_row(number)])
        publish(tmp_path)
    states = sorted((tmp_path / ".xds-publisher" / "job" / "state" / "hr").iterdir())
    assert [(state / "known").exists() for state in states] == [False, False, True]
    assert all((state / "found").exists() for state in states)


def test_a_crash_at_any_step_of_the_commit_neither_loses_nor_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, begin = Path.replace, storage.transaction
    for step in range(100):
        base = tmp_path / str(step)
        base.mkdir()
        write_table(base, [table_row(1), table_row(2)])
        publish(base)
        write_table(base, [table_row(1, "Eve"), table_row(3)])
        left = step

        def live_on() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        def dying(path: Path, target: Path) -> Path:
            live_on()
            return replace(path, target)

        def dying_transaction(folder: Path) -> AbstractContextManager[sqlite3.Connection]:
            live_on()
            return begin(folder)

        died = False
        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", dying)
            patched.setattr(storage, "transaction", dying_transaction)
            try:
                publish(base)
            except KeyboardInterrupt:
                died = True
        write_table(base, [table_row(1, "Eve"), table_row(3), table_row(4)])
        publish(base)
        operations = [
            (op.tag, key_of(op))
            for part in sorted((base / "out" / "runs").rglob("part-*.xds"))
            for line in part.read_text("utf-8").splitlines()
            for op in etree.fromstring(line.encode()).iterfind("input/*")
        ]
        wanted = [("add", n) for n in "1234"] + [("delete", "2"), ("modify", "1")]
        assert sorted(operations) == wanted, step
        if not died:
            break
    assert step >= 8


def test_a_replay_is_explained_and_repeated(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    write_table(tmp_path, [table_row(1), table_row(2)]).rename(tmp_path / "old" / "usr.csv")
    path = write_table(tmp_path, [table_row(1, "Eve")])
    settings = load(write_job(tmp_path, 'before = ["old"]'))
    target = tmp_path / "replayed"
    states = []
    for again in (False, False, True):
        report = rehearsing.replay(settings, [path], str(target), again=again)
        states.append(report.state)
        assert report.operations == {"delete": 1, "modify": 1}
    assert states == ["published", "already published", "published"]
    (story,) = explain(target, "idu=1")
    assert json.loads(str(story.raw))["new"] == ["Eve"]
    write_table(tmp_path, [table_row(1)]).rename(tmp_path / "old" / "usr.csv")
    with pytest.raises(UsageError, match="other input or settings"):
        rehearsing.replay(settings, [write_table(tmp_path, [table_row(1, "Eve")])], str(target))
