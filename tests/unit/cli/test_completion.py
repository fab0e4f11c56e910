"""Shells complete commands, options, formats and job files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from publisher.cli.main import PROGRAM, cli
from publisher.dispatch.refusals import RefusalReason
from publisher.formats.registry import FORMATS
from publisher.model.change import Reason

VARIABLE = "_XDS_PUBLISHER_COMPLETE"
"""Asks the program for the script of a shell, and for words; click derives it from the name."""


def complete(*words: str, incomplete: str = "") -> list[str]:
    items = ShellComplete(cli, {}, PROGRAM, VARIABLE).get_completions([*words], incomplete)
    return [item.value for item in items]


def test_commands_and_options_are_completed() -> None:
    assert complete(incomplete="re") == sorted(
        name for name in cli.commands if name.startswith("re")
    )
    assert "--lanes" in complete("replay", incomplete="--l")
    assert complete("replay", "--engine", incomplete="s") == ["spark"]


@pytest.mark.parametrize("command", ["replay", "inspect"])
def test_formats_are_completed(command: str) -> None:
    assert complete(command, "--format") == list(FORMATS)
    assert complete(command, "--format", incomplete="li") == ["linkexpress"]


@pytest.mark.parametrize("command", ["retry", "rejects"])
def test_reasons_are_completed(command: str) -> None:
    assert complete(command, "--reason") == [*Reason, *RefusalReason]
    assert complete(command, "--reason", incomplete="no-") == [
        reason for reason in Reason if reason.startswith("no-")
    ]


def test_statuses_are_completed() -> None:
    assert complete("inspect", "--status") == ["N", "any"]


def test_every_choice_is_completed() -> None:
    choices = [
        (name, option)
        for name, command in cli.commands.items()
        for option in command.params
        if isinstance(option, click.Option) and isinstance(option.type, click.Choice)
    ]
    assert choices
    for name, option in choices:
        assert isinstance(option.type, click.Choice)
        assert complete(name, option.opts[-1]) == list(option.type.choices)


def test_job_files_and_directories_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    for name in ("hr.toml", "hr.csv", "jobs/payroll.toml", "jobs/notes.md"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert complete("check", "-c") == ["hr.toml", "jobs/"]
    assert complete("check", "-c", incomplete="h") == ["hr.toml"]
    assert complete("check", "-c", incomplete="jobs/") == ["jobs/payroll.toml"]
    assert complete("check", "-c", incomplete=f"{tmp_path}/jo") == [f"{tmp_path}/jobs/"]
    assert complete("check", "-c", incomplete="missing/") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_by_the_script(tmp_path: Path) -> None:
    (tmp_path / "hr.toml").touch()
    program = Path(sys.executable).with_name(PROGRAM)
    script = f"""
        source <({VARIABLE}=bash_source {program})
        COMP_WORDS=(xds-publisher check -c h) COMP_CWORD=3
        _xds_publisher_completion {program}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert result.stdout.split() == ["hr.toml"], result.stderr
