"""All commands have one style: help, examples, errors, and what happens when a reader leaves."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from publisher.cli.command import Command
from publisher.cli.main import cli

ROOT = Path(__file__).parents[3]
LOG = """\
record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,new_value
"""
COMMANDS = {name: command for name, command in cli.commands.items() if isinstance(command, Command)}


def run(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs a line of a shell in which ``xds`` is the program."""
    program = f'xds() {{ {shlex.quote(sys.executable)} -m publisher.cli "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", program + script],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    row = "{0},idu={0},N,1,2026-01-01 00:00:00,anna,usr,fname,,Jack\n"
    path.write_text(LOG + "".join(map(row.format, range(1, 3_001))))
    return path


def test_every_command_has_the_common_options() -> None:
    assert COMMANDS.keys() == cli.commands.keys()
    for command in COMMANDS.values():
        names = {name for parameter in command.params for name in parameter.opts}
        assert {"-v", "--verbose", "-q", "--quiet"} <= names


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_80_columns_and_truncates_nothing(name: str) -> None:
    arguments = [name, "--help"] if name else ["--help"]
    shown = CliRunner().invoke(cli, arguments, terminal_width=80)
    assert shown.exit_code == 0
    assert not [line for line in shown.output.splitlines() if len(line) > 80]
    assert not re.search(r"[a-z ]\.\.\.", shown.output)  # names of arguments end with three dots


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_a_command_line_of_its_command(name: str) -> None:
    examples = COMMANDS[name].examples
    assert examples
    for example in examples:
        program, command, *words = shlex.split(example.partition(" > ")[0].partition(" | ")[0])
        assert (program, command) == ("xds-publisher", name)
        COMMANDS[name].make_context(name, words)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["publich"],
            "no such command 'publich' (did you mean 'publish'?); see xds-publisher --help",
        ),
        (["--nope"], "no such option '--nope'; see xds-publisher --help"),
        (["check"], "missing option '-c' / '--config'; see xds-publisher check --help"),
        (
            ["check", "-c", "a", "b"],
            "got unexpected extra argument (b); see xds-publisher check --help",
        ),
        (
            ["status", "-v", "-q"],
            "-v excludes -q: leave one of both out; see xds-publisher status --help",
        ),
        (
            ["-v", "status", "-q"],
            "-v excludes -q: leave one of both out; see xds-publisher status --help",
        ),
        (
            ["replay", "x", "--to", "y", "--engine", "z"],
            (
                "invalid value for '--engine': 'z' is not one of 'auto', 'spark', 'local'; "
                "see xds-publisher replay --help"
            ),
        ),
        (
            ["inspect", ""],
            (
                "invalid value for 'FILE...': it is empty: write . for the working directory; "
                "see xds-publisher inspect --help"
            ),
        ),
        (
            ["inspect", "/dev/null"],
            (
                "/dev/null is a device or a pipe, and input is read more than once: save it to a file "
                "first"
            ),
        ),
        (["inspect", "missing.csv"], "missing.csv does not exist; name a file or a directory"),
    ],
)
def test_every_error_is_one_line_of_the_same_style(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {message}\n"


def test_ctrl_c_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.commands["schema"], "callback", interrupt)
    result = CliRunner().invoke(cli, ["schema"])
    assert (result.exit_code, result.stderr) == (130, "error: interrupted\n")


def test_a_reader_that_leaves_ends_the_command_silently(log: Path) -> None:
    result = run("xds inspect log.csv | head -n 1; echo ${PIPESTATUS[0]}", log.parent)
    line, code = result.stdout.splitlines()
    assert line.startswith("{")
    assert (code, result.stderr) == ("141", "")
    both = run("xds inspect log.csv 2>&1 | head -n 1; echo ${PIPESTATUS[0]}", log.parent)
    assert both.stdout.splitlines() == [line, code]
    version = run("{ sleep 2; xds --version; echo $? >&2; } | true", log.parent)
    assert version.stderr == "141\n"


def test_a_pipe_that_is_not_the_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_a_connection() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(cli.commands["schema"], "callback", lose_a_connection)
    result = CliRunner().invoke(cli, ["schema"])
    assert result.exit_code == 1
    assert "Broken pipe" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("command", ["inspect log.csv", "--help", "--version"])
def test_a_full_disk_is_an_error(log: Path, command: str) -> None:
    result = run(f"xds {command} > /dev/full", log.parent)
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_quiet_leaves_notes_out(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        '[source]\nsnapshots = ["log.csv"]\n[dispatch]\npath = "out"\n[run]\nengine = "local"\n'
    )
    (tmp_path / "log.csv").write_text(
        LOG + "1,idu=1,N,1,2026-01-01 00:00:00,anna,usr,fname,,Jack\n"
    )
    loud = run("xds publish -c job.toml --dry-run", tmp_path)
    assert loud.stderr.startswith("note: ")
    quiet = run("xds publish -c job.toml --dry-run -q", tmp_path)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    verbose = run("xds -v publish -c job.toml --dry-run", tmp_path)
    assert "planning: " in verbose.stderr


def test_the_command_list_shows_whole_sentences() -> None:
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=80).output
    text = " ".join(shown.split())
    for name, command in COMMANDS.items():
        assert isinstance(command, click.Command)
        assert f"{name} {command.get_short_help_str(1_000)}" in text


def options_of(name: str) -> dict[str, click.Parameter]:
    return {option: parameter for parameter in COMMANDS[name].params for option in parameter.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_words_mean_the_same_in_every_command(name: str) -> None:
    options = options_of(name)
    assert ("--as" in options) == ("--json" in options)
    if "--as" in options:
        form = options["--as"].type
        assert isinstance(form, click.Choice)
        assert list(form.choices)[:2] == ["text", "json"]
    for option, others in (("--config", ["-c"]), ("--output", ["-o"])):
        assert option not in options or all(other in options for other in others)


def test_json_is_short_for_as_json(log: Path) -> None:
    job = '[source]\nsnapshots = ["log.csv"]\n[dispatch]\npath = "out"\n'
    (log.parent / "job.toml").write_text(job)
    short, long, text = (
        run(f"xds check -c job.toml {option}", log.parent)
        for option in ("--json", "--as json", "--as text")
    )
    assert json.loads(short.stdout) == json.loads(long.stdout)
    assert text.stdout.startswith("ok ")
    both = run("xds check -c job.toml --json --as text", log.parent)
    assert both.returncode == 2
    assert both.stderr.startswith("error: --json excludes --as text: leave one of both out; see ")


def test_a_dry_run_of_a_replay_leaves_nothing_behind(log: Path) -> None:
    before = sorted(log.parent.rglob("*"))
    result = run("xds replay log.csv --to out --engine local --dry-run --json", log.parent)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["state"], report["documents"], report["target"]) == ("planned", 3_000, "")
    assert len(report["samples"]) == 3
    assert "nothing was sent" in result.stderr
    assert sorted(log.parent.rglob("*")) == before
