"""Output cannot drive a terminal; an output that is closed is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.cli.print_report import show
from publisher.ledger.conservation import empty_report

HEADER = (
    "record_id,table_key,status,event_type,event_time,perpetrator,"
    "table_name,column_name,old_value,new_value\n"
)
ROW = "1,idu=1,N,3,2026-01-01 00:00:00,anna,usr,fname,,{}\n"
HOSTILE = "a\x1b[31m\nb\u202e\x9bc\x7f"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def program(directory: Path, *args: str | bytes) -> subprocess.CompletedProcess[str]:
    """The program as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "publisher.cli", *args],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        cwd=directory,
    )


def assert_tame(text: str) -> None:
    assert all(c.isprintable() or c == "\n" for c in text), ascii(text)


def test_a_file_name_cannot_drive_the_terminal_through_an_error(here: Path) -> None:
    done = run("inspect", f"{HOSTILE}.csv")
    assert done.exit_code == 2
    assert_tame(done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert r"a\x1b[31m\nb\u202e\x9bc\x7f.csv does not exist" in done.stderr


def test_a_word_of_the_command_line_cannot_drive_the_terminal(here: Path) -> None:
    done = run("status", "-c", "job.toml", HOSTILE)
    assert done.exit_code == 2
    assert_tame(done.stderr)


def test_inspect_escapes_values_and_names_as_json_does(here: Path) -> None:
    path = here / f"{HOSTILE}.csv"
    value = "\U000e0001\x85\u2066x"
    path.write_text(HEADER + ROW.format(value), encoding="utf-8")
    done = run("inspect", path.name)
    assert done.exit_code == 0, done.stderr
    assert_tame(done.stdout)
    (line,) = done.stdout.splitlines()
    shown = json.loads(line)
    assert shown["file"] == path.name
    assert shown["columns"][0]["new"] == value


def test_notes_escape_file_names() -> None:
    @click.command()
    def command() -> None:
        show(replace(empty_report(HOSTILE), notes=(HOSTILE,)), False, None)

    result = CliRunner().invoke(command)
    assert_tame(result.output)
    assert r"note: a\x1b[31m\nb" in result.stderr


@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_a_name_that_is_no_text_is_refused(tmp_path: Path, command: str) -> None:
    name = b"bad\xff.csv"
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text(HEADER, encoding="utf-8")
    done = program(tmp_path, command, name)
    assert done.returncode == 2
    assert "has bytes that are not UTF-8: rename it" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_is_no_text_is_refused_when_a_directory_is_listed(here: Path) -> None:
    (here / "in").mkdir()
    Path(os.fsdecode(os.fsencode(here) + b"/in/bad\xff.csv")).write_text(HEADER, "utf-8")
    done = run("inspect", "in")
    assert done.exit_code == 2
    assert (
        r"in/bad\udcff.csv: the name of the file or of a directory above it has bytes"
        in done.stderr
    )
    (here / "job.toml").write_text('[source]\nsnapshots = ["in"]\n[dispatch]\npath = "out"\n')
    done = run("check", "-c", "job.toml")
    assert r"bad\udcff.csv: the name of the file" in done.stdout
    assert done.exit_code == 3


@pytest.mark.parametrize("number", ["99999999999999999999999", "9" * 5_000])
def test_a_huge_position_is_an_error_of_usage(here: Path, number: str) -> None:
    (here / "log.csv").write_text(HEADER + ROW.format("x"))
    done = run("replay", "log.csv", "--to", "out", "--from", number)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: position '9999")
    assert "is too large" in done.stderr
    job = '[source]\ntable = "log"\n[database]\nurl = "sqlite:///hr.db"\n[dispatch]\npath = "out"\n'
    (here / "job.toml").write_text(job)
    done = run("retry", "-c", "job.toml", "--position", number)
    assert (done.exit_code, "is too large" in done.stderr) == (2, True)


def test_a_closed_standard_output_is_said(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m publisher.cli --version >&-"
    done = subprocess.run(
        command, shell=True, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == ("error: standard output is closed: redirect it to a file or /dev/null\n")


def test_closed_other_streams_take_nothing_away(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(HEADER + ROW.format("x"))
    command = f"exec {sys.executable} -m publisher.cli inspect log.csv 2>&- <&-"
    done = subprocess.run(
        command, shell=True, env=ENVIRONMENT, stdout=subprocess.PIPE, cwd=tmp_path, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["key"] == "idu=1"
