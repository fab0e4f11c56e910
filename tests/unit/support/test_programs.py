"""Programs that a server forks are processes like those that Python starts."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.support.process_tree import is_running
from tests.support.programs import ForkedProgram, start_program

PIPE = subprocess.PIPE
ECHO = "tests.support.echo_program"


def test_it_has_words_files_environment_and_exit_code_of_its_own() -> None:
    program = start_program(
        ["a", "b ö"], module=ECHO, environment={"ECHO": "7"}, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert isinstance(program, ForkedProgram)
    printed, message = program.communicate("line\n", timeout=60)
    own, session, *rest = printed.splitlines()
    assert (int(own), int(session)) == (program.pid, os.getsid(0))
    assert rest == ["['a', 'b ö']", ECHO, "line"]
    assert message == "ended\n"
    assert program.returncode == 7
    assert not is_running(program.pid)


def test_it_may_have_a_session_of_its_own_and_be_killed() -> None:
    with start_program([], module=ECHO, starts_session=True, stdin=PIPE, stdout=PIPE) as program:
        assert program.stdout is not None
        assert [int(program.stdout.readline()) for _ in range(2)] == [program.pid] * 2
        assert program.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.01)
        program.kill()
        assert program.wait(60) == program.poll() == -signal.SIGKILL


def test_a_signal_reaches_it_as_python_starts_it() -> None:
    with start_program([], module=ECHO, stdin=PIPE, stdout=PIPE, stderr=PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        program.send_signal(signal.SIGINT)
        _, message = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGINT
    assert message.endswith("KeyboardInterrupt\nended\n")


def test_the_program_reports_an_error_as_it_does() -> None:
    program = start_program(["publish"], stdout=PIPE, stderr=PIPE)
    printed, message = program.communicate(timeout=60)
    assert (program.returncode, printed) == (2, "")
    assert "--config" in message
