"""Runs the program on a terminal, as people see it."""

from __future__ import annotations

import os
import pty
import re
import struct
import termios
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path

from tests.support.programs import ROOT, start_program

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(
    *words: str, directory: Path, columns: int = 80, environment: Mapping[str, str] = {}
) -> tuple[str, int]:
    """Runs a command whose standard output is a terminal; returns what it shows, and the exit code."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    place = {"PYTHONPATH": str(ROOT), "TERM": "xterm", "NO_COLOR": "", "COLUMNS": str(columns)}
    with Path(os.devnull).open("w") as errors:
        program = start_program(
            words,
            environment=place | dict(environment),
            directory=directory,
            stdout=theirs,
            stderr=errors,
        )
        os.close(theirs)
        shown = _read(ours)
    return shown.replace("\r\n", "\n"), program.wait(60)


def _read(terminal: int) -> str:
    """Reads until the program closes its end, which Linux reports as an error."""
    data = b""
    with open(terminal, "rb", buffering=0) as file:
        try:
            while part := file.read(1 << 16):
                data += part
        except OSError:
            pass
    return data.decode()


def plain(text: str) -> str:
    """Text without its styles."""
    return _STYLE.sub("", text)
