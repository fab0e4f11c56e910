"""Messages of the real program about a wrong job file, path or database."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.cli.output import run_text
from publisher.cli.status import age_text
from publisher.ledger.conservation import PLANNED, RunReport, SourceCounts
from publisher.runs.rehearse import REHEARSAL_NOTE
from tests.support.event_log_files import csv_text, event

Run = Callable[..., Result]
SINK = '[dispatch]\npath = "out"\n'


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(csv_text([event()]))

    def invoke(*args: str, job: str | None = None) -> Result:
        if job is not None:
            Path("job.toml").write_text(job)
        return CliRunner().invoke(cli, args)

    return invoke


@pytest.mark.parametrize(
    ("job", "messages"),
    [
        (
            '[[source]]\nsnapshots = ["log.csv"]\n',
            ["[source]: is written [[source]]; write [[sources]], or [source] (line 1)"],
        ),
        (
            '[documents]\ntime_syntax = 2\ntime_zone = "Nowhere"\nproduct = "a\\u0001"\n',
            ["[documents] time_zone: 'Nowhere' is not known", "(line 3)", "(line 4)"],
        ),
        (
            '[follow]\npublication_times = ["25:00", "12:00", "noon"]\ntime_zone = "Nowhere"\n',
            ["'25:00' is not a time of day", "'noon' is not a time of day", "[follow] time_zone"],
        ),
        (
            (
                '[source]\nformat = "linkexpress"\nunit = "table"\nextract = "diff"\nnulls = true\n'
                '[[source.tables]]\nname = "t"\nkey = ["c"]\nitems = ["a FOO", "b BAR", "c INTEGER"]\n'
            ),
            [
                "tables 1 (t) items: a: 'FOO' is not a type",
                "tables 1 (t) items: b: 'BAR' is not a type",
            ],
        ),
        (
            (
                '[source]\nformat = "linkexpress"\nunit = "table"\nextract = "diff"\nnulls = true\n'
                '[[source.tables]]\nname = "t"\nkey = ["c"]\nitems = ["c CHARACTER(3)"]\n'
            ),
            ["[source] difftype: is required", "[source] charset: is required"],
        ),
        (
            '[[sources]]\nsnapshots = "log.csv"\n[run]\nlanes = "a"\n[tables]\nusr = 3\n',
            [
                'snapshots: should be a list in brackets, as ["A", "B"], not "log.csv" (line 2)',
                'lanes: should be a whole number, not "a" (line 4)',
                "[tables.usr]: should be a table, write [tables.usr] (line 6)",
            ],
        ),
        (
            '[[sources]]\nsnapshots = ["log.csv"]\n',
            ['[dispatch]: names no sink; set path = "DIRECTORY" for files, or to = "kafka" with'],
        ),
        (
            f'[[sources]]\ntable = "log"\n[database]\nurl = "sqlit:///x.db"\n{SINK}',
            ["[database] url: sqlit is not a known kind of database: write sqlite (line 4)"],
        ),
    ],
)
def test_a_wrong_job_file_is_explained(run: Run, job: str, messages: list[str]) -> None:
    result = run("check", "-c", "job.toml", job=job)
    assert result.exit_code == 2
    for message in messages:
        assert message in result.stderr
    assert "valid" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("format_", ["linkexpress", "dispatch-queue"])
def test_a_format_that_must_be_described_asks_for_a_job_file(run: Run, format_: str) -> None:
    result = run("inspect", "log.csv", "--format", format_)
    needs_file = format_ == "linkexpress"
    assert result.exit_code == (2 if needs_file else result.exit_code)
    assert ("needs a job file" in result.stderr) is needs_file


def test_a_missing_file_does_not_keep_others_from_being_validated(run: Run) -> None:
    Path("wrong.xds").write_text("<nds/>\n")
    only = run("validate", "nope.xds")
    assert only.exit_code == 2
    assert "nope.xds: no such file" in only.stderr
    both = run("validate", "nope.xds", "wrong.xds")
    assert both.exit_code == 3
    assert "nope.xds: no such file" in both.stderr
    assert "wrong.xds:1" in both.stdout
    Path("out").mkdir()
    folder = run("validate", "out")
    assert folder.exit_code == 2
    assert "out: is a directory: name its files, as out/part-*.xds" in folder.stderr


def test_an_option_of_another_format_is_no_unknown_key(run: Run) -> None:
    words = ("replay", "log.csv", "--to", "out", "--format", "change-table", "--status", "any")
    result = run(*words)
    assert (result.exit_code, result.stderr) == (
        2,
        "error: --status: the format of the source has no such setting; leave the option out\n",
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_utf_16_names_the_setting(run: Run, encoding: str, name: str) -> None:
    Path(name).write_text('{"record_id": 1}\n' if "json" in name else csv_text([event()]), encoding)
    result = run("inspect", name)
    assert result.exit_code == 1
    assert f'is text in UTF-16: set encoding = "{encoding}"' in result.stderr


def live(url: str) -> str:
    return f'[[sources]]\ntable = "log"\n[database]\nurl = "{url}"\nretries = 0\n{SINK}'


def test_a_missing_sqlite_file_is_reported_once(run: Run) -> None:
    job = live("sqlite:///none.db")
    result = run("check", "-c", "job.toml", job=job)
    assert result.exit_code == 3
    assert result.stdout.count("none.db does not exist") == 1
    assert "source event-log: not checked: see database" in result.stdout
    assert "ok      tables" not in result.stdout
    assert run("publish", "-c", "job.toml", "--dry-run").exit_code == 1
    assert run("status", "-c", "job.toml").exit_code == 1


def test_tables_that_nobody_described_are_not_reported_as_there(run: Run) -> None:
    job = f'[[sources]]\nsnapshots = ["log.csv"]\n[database]\nurl = "sqlite:///x.db"\n{SINK}'
    sqlite3.connect("x.db").close()
    assert " tables:" not in run("check", "-c", "job.toml", job=job).stdout


def test_wrong_columns_of_a_live_table_speak_of_no_header(run: Run) -> None:
    with sqlite3.connect("x.db") as database:
        database.execute("CREATE TABLE log (a, b)")
    database.close()
    result = run("check", "-c", "job.toml", job=live("sqlite:///x.db"))
    assert "table log: the columns do not fit" in result.stdout
    assert "header" not in result.stdout


def test_ddl_of_a_missing_table_names_that_table(run: Run) -> None:
    with sqlite3.connect("x.db") as database:
        database.execute("CREATE TABLE event_log (a, b)")
    database.close()
    ddl = ("ddl", "--database", "sqlite:///x.db", "--style", "per-field", "--table", "nope")
    result = run(*ddl)
    assert result.exit_code == 1
    assert "has no table nope" in result.stderr


def test_a_sink_that_the_kernel_owns_fails_the_check(run: Run) -> None:
    job = '[[sources]]\nsnapshots = ["log.csv"]\n[dispatch]\npath = "/proc/out"\n'
    result = run("check", "-c", "job.toml", job=job)
    assert result.exit_code == 3
    assert "FAILED  sink: /proc is a file system of the kernel" in result.stdout


def test_brokers_that_nobody_reaches_are_reported_soon(run: Run) -> None:
    job = (
        '[[sources]]\nsnapshots = ["log.csv"]\n'
        '[dispatch]\nto = "kafka"\nbootstrap = "127.0.0.1:9"\ncreate_topics = true\n'
    )
    for command, code, more in (("check", 3, ""), ("status", 5, "timeout = 1\n")):
        began = time.monotonic()
        result = run(command, "-c", "job.toml", job=job + more)
        assert time.monotonic() - began < 12
        assert result.exit_code == code
        assert "127.0.0.1:9" in result.stdout
        assert "security.protocol" in result.stdout


def test_a_rehearsal_does_not_say_that_anything_was_published() -> None:
    counts = {"published": 5, "rejected": 1}
    sources = (SourceCounts("a", 6, counts), SourceCounts("b", 0, {"published": 0}))
    report = RunReport("job-rehearsal", PLANNED, "", "", 6, counts, {}, sources, 4, {}, 100)
    assert "published" not in "".join([*run_text(report), REHEARSAL_NOTE])
    assert "6 read = 5 to publish + 1 rejected" in "".join(run_text(report))
    assert "5 published" in "".join(run_text(replace(report, state="published")))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.51, "2.5 s"),
        (250, "4 min 10 s"),
        (7_260, "2 h 1 min"),
        (15_042_525.1, "174 d 2 h"),
    ],
)
def test_an_age_is_readable(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_a_job_without_runs_is_told_from_an_unknown_record(run: Run) -> None:
    job = f'[[sources]]\nsnapshots = ["log.csv"]\n{SINK}[run]\nengine = "local"\n'
    for words in (["explain", "1"], ["history", "idu=1"]):
        result = run(*words, "-c", "job.toml", job=job)
        assert result.exit_code == 2
        assert (
            "job has no ledger: it does not exist; publish first, or give another" in result.stderr
        )
    Path("log.csv").rename("away.csv")
    assert run("publish", "-c", "job.toml").exit_code == 5
    result = run("explain", "1", "-c", "job.toml")
    assert result.stderr == "error: job job has no run: publish first, or name another ledger\n"
    Path("away.csv").rename("log.csv")
    assert run("publish", "-c", "job.toml").exit_code == 0
    assert "has no record '99': give a position as" in run("explain", "99", "-c", "job.toml").stderr


def test_files_of_rejects_are_checked_before_anything_is_done(run: Run) -> None:
    job = f'[[sources]]\nsnapshots = ["log.csv"]\n{SINK}[run]\nengine = "local"\n'
    missing = run("rejects", "-c", "job.toml", "--retry", "none.jsonl", job=job)
    assert missing.exit_code == 2
    assert "none.jsonl does not exist; name a file that rejects --export wrote" in missing.stderr
    assert run("publish", "-c", "job.toml").exit_code == 0
    existing = run("rejects", "-c", "job.toml", "--export", "log.csv")
    assert (existing.exit_code, existing.stderr) == (
        2,
        "error: log.csv exists already: name a new file\n",
    )
    Path("latin.jsonl").write_bytes('{"id": "é"}'.encode("latin-1"))
    latin = run("rejects", "-c", "job.toml", "--retry", "latin.jsonl")
    assert (latin.exit_code, latin.stderr) == (
        2,
        "error: latin.jsonl is not UTF-8: save it as UTF-8\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--retry", "log.csv", "--export", "new.jsonl"], "--retry excludes LEDGER, --source"),
        (["--retry", "log.csv", "--reason", "value"], "--retry excludes LEDGER, --source"),
        (["--export", "new.jsonl", "--json"], "--export writes JSON lines anyway"),
    ],
)
def test_options_of_rejects_that_would_have_no_effect_are_refused(
    run: Run, words: list[str], message: str
) -> None:
    job = f'[[sources]]\nsnapshots = ["log.csv"]\n{SINK}[run]\nengine = "local"\n'
    result = run("rejects", "-c", "job.toml", *words, job=job)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("new.jsonl").exists()
