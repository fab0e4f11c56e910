"""Peak memory and processor time of a process and all that it starts, from ``/proc`` (Linux), and disk space.

The kernel keeps the peak resident size of each process (``VmHWM``), so sampling only has to see a
process once after its peak; a process that lives shorter than the interval may be missed.  Pages that
forked workers share are counted in each of them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from tests.support.process_tree import PROC, Process, process_table, process_tree

INTERVAL = 0.25
"""Seconds between two looks at ``/proc``."""
_PR_SET_CHILD_SUBREAPER = 36
"""A request of ``prctl(2)``."""


class Role(StrEnum):
    """The part that a process plays in a Spark program."""

    ROOT = "root"
    """The process that was asked for."""
    JVM = "jvm"
    DAEMON = "daemon"
    """The Python process that forks the workers; a child of the JVM."""
    WORKER = "worker"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Peak:
    """Peak resident size of one process, bytes."""

    pid: int
    role: Role
    size: int


def role(process: Process, root: int, table: Mapping[int, Process]) -> Role:
    """The role of ``process`` in the tree of ``root``."""
    if process.name.startswith("java"):
        return Role.JVM
    if process.pid == root:
        return Role.ROOT
    if not process.name.startswith("python"):
        return Role.OTHER
    parent = table.get(process.parent)
    if parent is not None and parent.name.startswith("java"):
        return Role.DAEMON
    grandparent = table.get(parent.parent) if parent is not None else None
    if grandparent is not None and (grandparent.name.startswith("java") or grandparent.pid == root):
        return Role.WORKER
    return Role.OTHER


def peak_size(pid: int) -> int | None:
    """``VmHWM`` in bytes; ``None`` when the process is gone or has no memory left (a zombie)."""
    try:
        text = (PROC / str(pid) / "status").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def adopt_orphans() -> None:
    """Makes this process the parent of orphans in its tree, so that their processor time stays in it.

    Spark's Python daemon, which has the time of all workers, may end after its JVM.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot adopt orphans")


def cpu_seconds(root: int) -> float:
    """Processor time of the tree so far, with that of children which have ended.

    Time of orphans is missing unless the root adopts them (``adopt_orphans``), and that of Spark's workers
    that have ended (see ``CpuWatch``).
    """
    tree = process_tree(root, process_table())
    return sum(sum(_ticks(process.pid)) for process in tree) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """Processor time of a process: user and system time, then the same of its ended children."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(value) for value in text.rpartition(")")[2].split()[11:15]]


class _Sampler(ABC):
    """Calls ``_look`` repeatedly from ``__enter__`` to ``__exit__``, and once in the end."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self._look()

    @abstractmethod
    def _look(self) -> None:
        """Takes one sample."""


class CpuWatch(_Sampler):
    """Measures the processor time of this process and its tree, from ``__enter__`` to ``__exit__``.

    Spark's daemon ignores the end of its workers, so that nobody counts their time, and Spark ends workers
    that are idle for a minute.  So the time of each process is read repeatedly, and its last value counts.
    Processes that live shorter than the interval are missed.
    """

    def __init__(self, without: Collection[int] = (), interval: float = 0.5) -> None:
        """``without`` are processes whose time does not count, nor that of their children."""
        super().__init__(interval)
        self._without = without
        self._before: dict[int, int] = {}
        self._last: dict[int, int] = {}

    def __enter__(self) -> Self:
        self._look()
        self._before = dict(self._last)
        return super().__enter__()

    @property
    def seconds(self) -> float:
        """Processor time so far."""
        ticks = sum(last - self._before.get(pid, 0) for pid, last in self._last.items())
        return ticks / os.sysconf("SC_CLK_TCK")

    def _look(self) -> None:
        table = process_table()
        table = {pid: each for pid, each in table.items() if pid not in self._without}
        for process in process_tree(os.getpid(), table):
            if ticks := _ticks(process.pid):
                self._last[process.pid] = sum(ticks[:2])


def reset_peaks(root: int) -> None:
    """Makes the present size the peak of every process in the tree."""
    for process in process_tree(root, process_table()):
        try:
            (PROC / str(process.pid) / "clear_refs").write_text("5")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended


class Watch(_Sampler):
    """Watches a tree of processes from ``__enter__`` to ``__exit__``."""

    def __init__(self, root: int | None = None, interval: float = INTERVAL) -> None:
        super().__init__(interval)
        self._root = os.getpid() if root is None else root
        self._peaks: dict[int, Peak] = {}
        self.cpu_seconds = 0.0
        """Processor time of the tree between beginning and end."""

    def __enter__(self) -> Self:
        reset_peaks(self._root)
        self.cpu_seconds = -cpu_seconds(self._root)
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        self.cpu_seconds += cpu_seconds(self._root)
        super().__exit__(*exc)

    def _look(self) -> None:
        table = process_table()
        for process in process_tree(self._root, table):
            size = peak_size(process.pid)
            if size is not None:
                # The kernel's peak only falls when the process becomes another program: until then
                # it has its parent's memory, and a JVM is "python" or "sh".  The last look counts.
                kind = role(process, self._root, table)
                self._peaks[process.pid] = Peak(process.pid, kind, size)

    def peaks(self, of: Role | None = None) -> list[Peak]:
        """The peaks seen so far, the greatest first."""
        seen = [p for p in self._peaks.values() if of is None or p.role is of]
        return sorted(seen, key=lambda p: -p.size)

    def greatest(self, of: Role) -> int:
        """Bytes of the greatest process of a role, 0 where there was none."""
        return max((p.size for p in self.peaks(of)), default=0)


class DiskWatch(_Sampler):
    """Watches how much the files below a folder grow from ``__enter__`` to ``__exit__``."""

    def __init__(self, folder: Path, interval: float = 1.0) -> None:
        super().__init__(interval)
        self._folder = folder
        self._before = 0
        self.greatest = 0
        """Greatest growth seen so far, bytes."""

    def __enter__(self) -> Self:
        self._before = _size_below(self._folder)
        return super().__enter__()

    def _look(self) -> None:
        self.greatest = max(self.greatest, _size_below(self._folder) - self._before)


def _size_below(folder: Path) -> int:
    """Bytes on disk of all files below a folder; files may vanish meanwhile."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                size += (Path(parent) / name).lstat().st_blocks * 512
            except FileNotFoundError:
                continue
    return size
