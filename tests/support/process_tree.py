"""The processes of the system and their parents, from ``/proc`` (Linux)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    name: str
    """The kernel's name of it, 15 characters at most."""
    session: int = 0
    has_ended: bool = False
    """True if only its exit code remains, until its parent asks for it."""


def process_table() -> dict[int, Process]:
    """Reads every process there is, by its id."""
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    return {pid: process for pid in pids if (process := _process(pid)) is not None}


def process_tree(root: int, table: Mapping[int, Process]) -> list[Process]:
    """Returns ``root`` and its descendants; nothing if it is gone."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    tree = [table[root]] if root in table else []
    for process in tree:
        tree += children.get(process.pid, [])
    return tree


def descendants(root: int) -> set[int]:
    """Returns the processes that ``root`` has started, directly or not."""
    return {process.pid for process in process_tree(root, process_table())} - {root}


def is_running(pid: int) -> bool:
    """Returns whether a process exists and has not ended."""
    process = _process(pid)
    return process is not None and not process.has_ended


def running_in(session: int) -> set[int]:
    """Returns the processes of a session that have not ended."""
    table = process_table().values()
    return {each.pid for each in table if each.session == session and not each.has_ended}


def _process(pid: int) -> Process | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # it is gone
        return None
    # the name is in brackets and may itself contain blanks and brackets
    name, _, rest = text[text.index("(") + 1 :].rpartition(")")
    state, parent, _, session = rest.split()[:4]
    return Process(pid, int(parent), name, int(session), has_ended=state in "ZX")
