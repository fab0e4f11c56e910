"""The history of an object over runs and ledgers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.config.job_file import load
from publisher.errors import UsageError
from publisher.ledger.job import Ledger
from publisher.model.change import Object
from publisher.reports.history import KnownValues, ValueChange, read_history
from publisher.reports.object_histories import AttributeDiff
from publisher.runs.publish import publish
from tests.support.event_ids import plain_ids
from tests.support.event_log_files import csv_text, event
from tests.support.finished_runs import close_hours, finish_run, make_ledgers


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return make_ledgers(tmp_path)


def test_shows_values_before_and_after_over_runs(ledger: Ledger) -> None:
    finish_run(ledger, [1, 2, 9], refused=False)
    finish_run(ledger, [13, 17], refused=False)
    [history] = read_history([ledger.root], "idu=1")
    assert history.object == Object(None, "usr", "idu=1")
    assert [entry.story.position for entry in history.entries] == ["1", "9", "13", "17"]
    assert [entry.changes and entry.changes[0] for entry in history.entries] == [
        None,  # the next record has the same document
        ValueChange("fname", None, ("Jack\n9",), (), ("Jack\n9",)),
        None,
        ValueChange("fname", ("Jack\n9",), ("Jack\n17",), (), ("Jack\n17",)),
    ]


def test_hours_have_the_same_history(ledger: Ledger) -> None:
    for first in (1, 11, 21, 31):
        finish_run(ledger, range(first, first + 10))
    before = read_history([ledger.root], "idu=1,table=usr")
    assert close_hours(ledger, fewest=3)
    [after] = read_history([ledger.root], "idu=1,table=usr")
    changes = [[entry.changes for entry in found.entries] for found in (*before, after)]
    assert changes[0] == changes[1]


def test_ledgers_are_read_in_the_given_order(ledger: Ledger, tmp_path: Path) -> None:
    finish_run(ledger, [1], refused=False)
    (tmp_path / "other").mkdir()
    other = make_ledgers(tmp_path / "other")
    finish_run(other, [2], refused=False)
    finish_run(other, [5, 9], refused=False)
    [history] = read_history([ledger.root, other.root], "idu=1")
    assert [entry.story.position for entry in history.entries] == ["1", "9"]
    last = history.entries[-1].changes
    assert last is not None
    assert last[0].before == ("Jack\n1",)


def test_an_unknown_object_is_refused_once(ledger: Ledger) -> None:
    finish_run(ledger, [1], refused=False)
    with pytest.raises(UsageError, match=r"has no record 'idu=77'"):
        read_history([ledger.root, ledger.root], "idu=77")
    with pytest.raises(UsageError, match="neither a key nor an association"):
        read_history([ledger.root], "4711")


def test_shows_the_records_of_one_source(ledger: Ledger) -> None:
    finish_run(ledger, [1, 2, 9], refused=False)
    assert read_history([ledger.root], "idu=1", source="log") == read_history(
        [ledger.root], "idu=1"
    )
    with pytest.raises(
        UsageError, match="idu=1 has no record of a source 'queue': choose one of log"
    ):
        read_history([ledger.root], "idu=1", source="queue")


def test_each_source_has_its_own_values(tmp_path: Path) -> None:
    sources = ""
    for name in ("hr", "crm"):
        rows = [event(1, event_type=3, new_value="Jack"), event(2, event_type=3, new_value="John")]
        (tmp_path / f"{name}.csv").write_text(csv_text(rows))
        sources += f'[[sources]]\nname = "{name}"\nsnapshots = ["{name}.csv"]\n'
        sources += "poll_size = 1\npoll_slack = 0\n"
    (tmp_path / "job.toml").write_text(
        f'{sources}[dispatch]\npath = "out"\n[run]\nengine = "local"\n'
    )
    settings = load(tmp_path / "job.toml")
    publish(settings)
    [history] = read_history([settings.ledger_folder], "idu=1")
    changes: dict[str, list[object]] = {"hr": [], "crm": []}
    for entry in history.entries:
        assert entry.changes is not None
        changes[entry.story.source] += [(change.before, change.after) for change in entry.changes]
    one = [(None, ("Jack",)), (("Jack",), ("John",))]
    assert changes == {"hr": one, "crm": one}


def test_the_command_prints_changes_of_values(ledger: Ledger) -> None:
    finish_run(ledger, [1, 2, 9], refused=False)
    finish_run(ledger, [13], refused=False)
    result = CliRunner().invoke(cli, ["history", "idu=1", str(ledger.root)])
    assert result.exit_code == 0
    assert plain_ids(result.output).splitlines() == [
        "idu=1 of usr: 3 record(s) in 2 run(s), 2 document(s)",
        "2026-01-01 10:00:00+00:00  3 update field (remove all values): fname",
        "  1 of log in job-000001: published, status S",
        "  in the document log:1",
        "2026-01-01 10:00:00+00:00  3 update field (remove all values): fname",
        "  9 of log in job-000001: published, status S",
        "  document log:1: modify",
        r"    fname: (unknown) → Jack\n9",
        "2026-01-01 10:00:00+00:00  3 update field (remove all values): fname",
        "  13 of log in job-000002: published, status S",
        "  document log:13: modify",
        r"    fname: Jack\n9 → Jack\n13",
    ]


def test_the_command_needs_a_ledger() -> None:
    result = CliRunner().invoke(cli, ["history", "idu=1"])
    assert result.exit_code == 2
    assert "no ledger is given: name directories with one, or a job file with -c" in result.output


def test_values_are_known_from_the_creation_on() -> None:
    values = KnownValues()
    values.apply("add", [AttributeDiff("phone", (), ("1", "2"))])
    [phone] = values.apply("modify", [AttributeDiff("phone", ("1",), ("3",))])
    assert (phone.before, phone.after) == (("1", "2"), ("2", "3"))
    [mail] = values.apply("modify", [AttributeDiff("mail", (), ("a",))])
    assert (mail.before, mail.after) == ((), ("a",))
    deleted = values.apply("delete", [])
    assert [(change.attribute, change.after) for change in deleted] == [("phone", ()), ("mail", ())]
    [again] = values.apply("modify", [AttributeDiff("mail", (), ("b",))])
    assert again.before == ()


def test_values_are_unknown_until_all_are_removed() -> None:
    values = KnownValues()
    [first] = values.apply("modify", [AttributeDiff("phone", ("1",), ("2",))])
    assert (first.before, first.after) == (None, None)
    [second] = values.apply("modify", [AttributeDiff("phone", (), ("3",), removes_all=True)])
    assert (second.before, second.after) == (None, ("3",))
