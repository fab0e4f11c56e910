"""Runs commands of the program in a folder and collects what they say: black-box tests need no more."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.support.programs import start_program


def open_folders(folder: Path) -> None:
    """Lets every user into a test's folder."""
    top = Path(tempfile.gettempdir()).resolve()
    for path in (folder, *folder.parents):
        if path.resolve() == top or top not in path.resolve().parents:
            return
        path.chmod(0o777)


class Ended(NamedTuple):
    """The end of a command."""

    code: int
    output: str
    errors: str

    @property
    def text(self) -> str:
        """Everything that the command wrote."""
        return self.output + self.errors


def run_program(*words: str | Path, **environment: str) -> Ended:
    """Runs ``xds-publisher words`` to its end."""
    process = start_program(
        [str(word) for word in words],
        environment=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = process.communicate(timeout=120)
    return Ended(process.returncode, output, errors)
