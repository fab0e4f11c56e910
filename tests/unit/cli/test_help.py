"""Ways to ask for help, and for the version."""

from __future__ import annotations

import pytest

from tests.support.programs import start_program


def run(*words: str) -> tuple[int, str, str]:
    process = start_program(words, stdout=-1, stderr=-1)
    output, messages = process.communicate(timeout=60)
    return process.returncode, output, messages


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ([], ["--help"]),
        (["help"], ["--help"]),
        (["help", "publish"], ["publish", "--help"]),
        (["-V"], ["--version"]),
    ],
)
def test_everybody_asks_in_another_way(words: list[str], same: list[str]) -> None:
    code, output, messages = run(*words)
    assert (code, messages) == (0, "")
    assert output == run(*same)[1]
    assert "\\n" not in output


def test_help_of_an_unknown_command_is_an_error() -> None:
    code, output, messages = run("help", "publich")
    assert (code, output) == (2, "")
    assert messages.startswith("error: no such command 'publich' (did you mean 'publish'?)")
