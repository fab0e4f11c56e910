"""``--dry-run``: shows what a command would do, and changes nothing."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.ledger import storage
from publisher.ledger.job import Ledger
from tests.support.finished_runs import wait_again
from tests.unit.cli.test_commands import JOB, LOG, publish_live

pytestmark = pytest.mark.usefixtures("local_engine")

READERS = frozenset(
    [
        "check",
        "classes",
        "ddl",
        "diff",
        "explain",
        "inspect",
        "schema",
        "status",
        "validate",
    ]
)
"""Commands that only print."""
WRITERS = frozenset(["activity", "demo", "history", "manual", "report"])
"""Commands whose result is a file or directory that the user names, or an example."""

TABLE = """\
[[sources]]
format = "triggerless"
name = "hr"
snapshots = ["usr.csv"]
[tables.usr]
key = ["idu"]
[dispatch]
path = "out"
"""


def program(*words: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


def content(directory: Path) -> dict[str, tuple[int, bytes]]:
    """All files, folders and databases below a directory, with their times.

    SQLite has other files beside a ledger while it is open, so that the time of its folder changes."""
    ledgers = {path.parent for path in directory.rglob(storage.LEDGER)}
    for folder in ledgers:
        storage.close(folder)
    return {
        str(path.relative_to(directory)): (
            0 if path in ledgers else path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(directory.rglob("*"))
    }


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(LOG, "utf-8")
    Path("job.toml").write_text(JOB, "utf-8")
    return tmp_path


def publish_table(directory: Path) -> None:
    (directory / "usr.csv").write_text("idu,fname\n1,Ann\n2,Bob\n")
    (directory / "job.toml").write_text(TABLE)
    assert program("publish", "-c", "job.toml").exit_code == 0


def correct_reject(directory: Path) -> None:
    assert program("publish", "-c", "job.toml").exit_code == 4
    assert program("rejects", "-c", "job.toml", "--export", "fixed.jsonl").exit_code == 0
    path = directory / "fixed.jsonl"
    path.write_text(path.read_text().replace('"event_type": "9"', '"event_type": "1"'))


def correct_reject_wrongly(directory: Path) -> None:
    correct_reject(directory)
    path = directory / "fixed.jsonl"
    path.write_text(path.read_text().replace('"event_type": "1"', '"event_type": "0"'))


def plan_elsewhere(directory: Path) -> None:
    del directory
    assert program("replay", "log.csv", "--to", "replayed").exit_code == 0


def fill_target(directory: Path) -> None:
    plan_elsewhere(directory)
    (directory / "further").mkdir()
    (directory / "further" / "other.txt").write_text("x")


def lose_acknowledgement(directory: Path) -> None:
    """Makes a sent run wait for its statuses again."""
    publish_live(directory)
    with sqlite3.connect("hr.db") as database:
        database.execute("UPDATE log SET status = 'N' WHERE record_id <> 2")
    database.close()
    wait_again(Ledger(directory / ".xds-publisher" / "job", "job"))


def delete_processed_rows(directory: Path) -> None:
    lose_acknowledgement(directory)
    with (directory / "job.toml").open("a") as file:
        file.write("[acknowledge]\ndelete_processed_rows = true\n")


Prepare = Callable[[Path], None]
MIGRATE = ["migrate", "-c", "job.toml"]
RETRY = ["retry", "-c", "job.toml"]
REJECTS = ["rejects", "-c", "job.toml", "--retry", "fixed.jsonl"]
DISPATCH = ["dispatch", "replayed", "--to", "further"]
ACKNOWLEDGE = ["acknowledge", "-c", "job.toml", "--run"]


def test_every_command_that_changes_something_can_be_rehearsed() -> None:
    without = {
        name
        for name, command in cli.commands.items()
        if not any("--dry-run" in option.opts for option in command.params)
    }
    assert without == READERS | WRITERS


@pytest.mark.parametrize(
    ("prepare", "words", "exit_code"),
    [
        (publish_live, RETRY, 0),
        (publish_live, [*RETRY, "--reason", "event-type"], 0),
        (publish_live, [*RETRY, "--position", "3"], 0),
        (publish_table, MIGRATE, 0),
        (publish_table, [*MIGRATE, "--where", "fname=Bob"], 0),
        (correct_reject, REJECTS, 0),
        (correct_reject_wrongly, REJECTS, 4),
        (plan_elsewhere, DISPATCH, 0),
        (lose_acknowledgement, [*ACKNOWLEDGE, "job-000001", "--abandon"], 0),
        (delete_processed_rows, [*ACKNOWLEDGE, "job-000001", "--abandon"], 0),
    ],
)
def test_a_rehearsal_counts_what_the_command_does_and_changes_nothing(
    prepare: Prepare, words: list[str], exit_code: int, directory: Path
) -> None:
    prepare(directory)
    before = content(directory)
    rehearsed = program(*words, "--dry-run", "--json")
    assert rehearsed.exit_code == exit_code, rehearsed.output
    text = program(*words, "--dry-run")
    assert text.exit_code == exit_code
    assert text.stdout
    assert content(directory) == before
    done = program(*words, "--json")
    assert done.exit_code == exit_code, done.output
    expected, found = json.loads(done.stdout), json.loads(rehearsed.stdout)
    assert counts(found) == counts(expected)
    assert content(directory) != before


def counts(report: Any) -> Any:
    """What a report counts; a list is that of ``retry``."""
    if isinstance(report, list):
        return report
    names = ("read", "outcomes", "reasons", "documents", "operations", "bytes", "statuses")
    return [sorted(report), *(report[name] for name in names)]


@pytest.mark.parametrize(
    ("prepare", "words", "exit_code"),
    [
        (fill_target, DISPATCH, 2),
        (plan_elsewhere, ["dispatch", "log.csv", "--to", "further"], 2),
        (correct_reject, MIGRATE, 2),
        (correct_reject, RETRY, 2),
        (correct_reject, ["recover", "-c", "job.toml"], 2),
        (publish_table, [*MIGRATE, "--table", "dep"], 2),
        (publish_live, [*ACKNOWLEDGE, "job-000009", "--abandon"], 2),
        (plan_elsewhere, ["init", "log.csv", "-o", "job.toml"], 2),
        (plan_elsewhere, ["init", "log.csv", "-o", "none/job.toml"], 2),
    ],
)
def test_a_rehearsal_is_refused_like_the_command(
    prepare: Prepare, words: list[str], exit_code: int, directory: Path
) -> None:
    prepare(directory)
    before = content(directory)
    rehearsed = program(*words, "--dry-run")
    assert rehearsed.exit_code == exit_code
    assert content(directory) == before
    done = program(*words)
    assert (done.exit_code, done.stdout, done.stderr) == (exit_code, "", rehearsed.stderr)


def test_a_sink_of_another_ledger_is_refused(directory: Path) -> None:
    publish_table(directory)
    (directory / ".xds-publisher").rename(directory / "lost")
    before = content(directory)
    rehearsed = program(*MIGRATE, "--dry-run")
    assert rehearsed.exit_code == 1
    assert "does not fit the ledger" in rehearsed.stderr
    assert content(directory) == before


def test_planned_runs_are_named(directory: Path) -> None:
    publish_table(directory)
    wait_again(Ledger(directory / ".xds-publisher" / "job", "job"))
    before = content(directory)
    for words in (MIGRATE, ["publish", "-c", "job.toml"]):
        shown = program(*words, "--dry-run")
        assert shown.exit_code == 0
        assert (
            "note: run job-000001, which an earlier start had planned, would be sent first"
            in shown.stderr
        )
    assert content(directory) == before


def test_a_rehearsed_replay_has_the_minimal_modifies_of_the_replay(directory: Path) -> None:
    rows = [
        f"{n},idu=1,N,3,2026-01-01 00:00:00,ann,usr,fname,,{v}" for n, v in ((1, "a"), (2, "a"))
    ]
    (directory / "log.csv").write_text("\n".join([LOG.splitlines()[0], *rows]) + "\n")
    (directory / "job.toml").write_text("[documents]\nminimal = true\n")
    words = ["replay", "log.csv", "-c", "job.toml", "--json", "--to", "replayed"]
    rehearsed, done = (json.loads(program(*words, *more).stdout) for more in (["--dry-run"], []))
    assert rehearsed["reasons"] == done["reasons"] == {"ignored": {"unchanged": 1}}
    assert counts(rehearsed) == counts(done)


def test_a_finished_dispatch_has_nothing_to_send(directory: Path) -> None:
    plan_elsewhere(directory)
    assert program(*DISPATCH).exit_code == 0
    before = content(directory)
    assert "already published" in program(*DISPATCH, "--dry-run").stdout
    assert "to publish" in program(*DISPATCH, "--dry-run", "--again").stdout
    assert content(directory) == before


def test_a_job_file_is_printed_as_it_would_be_written(directory: Path) -> None:
    before = content(directory)
    shown = program("init", "log.csv", "-o", "new.toml", "--dry-run")
    assert shown.exit_code == 0, shown.stderr
    assert content(directory) == before
    assert program("init", "log.csv", "-o", "new.toml").exit_code == 0
    schema, _, written = (directory / "new.toml").read_text().partition("\n")
    assert shown.stdout == written
    assert (directory / schema.removeprefix("#:schema ")).exists()


@pytest.mark.parametrize("command", ["rejects", "verify"])
def test_commands_that_only_read_without_an_option_need_it(command: str, directory: Path) -> None:
    del directory
    result = program(command, "-c", "job.toml", "--dry-run")
    assert result.exit_code == 2
    assert "add it, or leave" in result.stderr
