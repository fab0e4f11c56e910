"""Progress shows rate and remaining time on terminals, and phases as lines with -v."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from publisher.cli.progress import PhaseMeter
from publisher.console import Phase

ROOT = Path(__file__).parents[3]
SHOW = """
import time, click
from publisher.cli.command import command
from publisher.cli.progress import show_progress
from publisher.console import Phase

@command("show")
def show() -> None:
    with show_progress() as progress:
        click.echo(progress is not None)
        for done in range(11):
            if progress:
                progress(Phase.SENDING, done * 100, 1_000)
            time.sleep(0.02)

show()
"""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rate_and_remaining_time_are_of_the_current_phase() -> None:
    clock = Clock()
    lines: list[str] = []
    meter = PhaseMeter(clock, lines.append)
    meter.update(Phase.PLANNING, 0, 8)
    assert meter.text() == "0 of 8 lanes"
    clock.now += 2
    meter.update(Phase.PLANNING, 4, 8)
    assert meter.text() == "4 of 8 lanes, 0:02 left"
    clock.now += 1
    meter.update(Phase.SENDING, 0, 1_000_000)
    clock.now += 10
    meter.update(Phase.SENDING, 1_000, 1_000_000)
    assert meter.text() == "1,000 of 1,000,000 documents, 100/s, 2:46:30 left"
    meter.end()
    assert lines == [
        "planning: 4 of 8 lanes in 3.0 s",
        "sending: 1,000 of 1,000,000 documents in 10.0 s, 100/s",
    ]


def test_a_phase_that_begins_again_is_measured_again() -> None:
    clock = Clock()
    lines: list[str] = []
    meter = PhaseMeter(clock, lines.append)
    for done in (0, 8, 0, 4):
        meter.update(Phase.READING, done, 8)
        clock.now += 0.5
    assert meter.text() == "4 of 8 parts, 0:01 left"
    assert lines == ["reading: 8 of 8 parts in 1.0 s"]


def test_a_phase_that_resumes_is_measured_from_there() -> None:
    clock = Clock()
    meter = PhaseMeter(clock)
    meter.update(Phase.SENDING, 900, 1_000)
    assert meter.text() == "900 of 1,000 documents"
    clock.now += 1
    meter.update(Phase.SENDING, 950, 1_000)
    assert meter.text() == "950 of 1,000 documents, 50/s, 0:01 left"


def test_rows_that_are_pending_before_a_poll_stay_visible() -> None:
    meter = PhaseMeter(Clock())
    meter.update(Phase.WAITING, 0, 5_000)
    assert meter.text() == "0 of 5,000 rows"
    meter.update(Phase.PLANNING, 0, 8)
    assert meter.text() == "0 of 8 lanes, 5,000 rows pending"
    meter.update(Phase.WAITING, 0, 0)
    assert meter.text() == ""


def shown(*options: str, terminal: bool = True, **variables: str) -> tuple[str, str]:
    """Standard output, and what a terminal or pipe receives of standard error."""
    leader, follower = pty.openpty() if terminal else os.pipe()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **variables}
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *options],
        stdout=subprocess.PIPE,
        stderr=follower,
        check=True,
        env=environment,
        text=True,
    )
    os.close(follower)
    drawn = b""
    try:
        while part := os.read(leader, 100_000):
            drawn += part
    except OSError:  # a pseudo-terminal without writers
        pass
    os.close(leader)
    return done.stdout, drawn.decode()


def test_a_terminal_shows_a_bar_with_rate_and_remaining_time() -> None:
    output, drawn = shown(COLUMNS="80")
    assert output == "True\n"
    assert "sending" in drawn
    assert " of 1,000 documents, " in drawn
    assert " left" in drawn


def test_no_color_draws_without_colours() -> None:
    assert "\x1b[3" in shown()[1]
    assert "\x1b[3" not in shown(NO_COLOR="1")[1]


def test_neither_a_pipe_nor_a_quiet_terminal_shows_progress() -> None:
    assert shown(terminal=False) == ("False\n", "")
    assert shown("-q") == ("False\n", "")


@pytest.mark.parametrize("terminal", [True, False])
def test_verbose_prints_a_line_for_each_phase(terminal: bool) -> None:
    _, drawn = shown("-v", terminal=terminal)
    assert "sending: 1,000 of 1,000 documents in 0." in drawn
