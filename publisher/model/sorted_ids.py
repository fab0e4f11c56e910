"""Sorted, distinct record ids on disk: gathered in any order, merged, with flat memory."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

_STORED = np.dtype("<i8")
_IDS_AT_ONCE = 1 << 20
"""Ids in memory before they are sorted and written."""
_FILES_AT_ONCE = 256
"""Files that are merged together."""


class IdFile(NamedTuple):
    """A file of sorted, distinct ids: its name in the folder, how many it has, the outer ones."""

    name: str
    size: int
    first: int
    last: int


class IdGatherer:
    """Gathers the ids of one split.  Ids in ascending order go straight to the file; others are sorted
    in runs, which are merged at the end."""

    def __init__(self, folder: Path, name: str) -> None:
        """``name`` is unique among the attempts of all tasks."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / name
        self._waiting: list[Ids] = []
        self._size = 0
        self._runs: list[Path] = []
        self._last = 0

    def add(self, ids: Ids) -> None:
        """Takes ids in any order, positive ones."""
        if not len(ids):
            return
        self._waiting.append(sort_distinct(ids))
        self._size += len(ids)
        if self._size >= _IDS_AT_ONCE:
            self._write()

    def close(self) -> IdFile | None:
        """Completes the file; ``None`` where there were no ids."""
        self._write()
        if not self._runs:
            return None
        if len(self._runs) == 1:
            self._runs[0].replace(self._path)
        else:
            merge(self._runs, self._path)
            for run in self._runs:
                run.unlink()
        ids = open_ids(self._path)
        return IdFile(self._path.name, len(ids), int(ids[0]), int(ids[-1]))

    def _write(self) -> None:
        if not self._waiting:
            return
        ids = sort_distinct(np.concatenate(self._waiting))
        self._waiting, self._size = [], 0
        if self._runs and ids[0] == self._last:  # the record that ended the last portion, again
            ids = ids[1:]
            if not len(ids):
                return
        if not self._runs or ids[0] < self._last:
            self._runs.append(self._path.with_name(f"{self._path.name}.run-{len(self._runs)}"))
        with _open_private(self._runs[-1]) as file:
            file.write(_bytes_of(ids))
        self._last = int(ids[-1])


def sort_distinct(ids: Ids) -> Ids:
    """The ids in ascending order, each once."""
    if np.all(ids[1:] > ids[:-1]):
        return np.array(ids, np.int64)
    return np.unique(ids)


def open_ids(path: Path) -> Ids:
    """The ids of a file, which the operating system reads as they are needed."""
    return np.memmap(path, _STORED, "r")


def find_ids(ids: Ids, wanted: Ids) -> npt.NDArray[np.int64]:
    """The place of each wanted id among sorted ones, -1 where it is not there."""
    places = np.full(len(wanted), -1, np.int64)
    if len(ids):
        near = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        there = ids[near] == wanted
        places[there] = near[there]
    return places


def merge(paths: Sequence[Path], target: Path) -> None:
    """Writes the ids of all files into one, each once.  The file appears when it is complete."""
    unfinished = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    level, between = list(paths), list[Path]()
    while len(level) > _FILES_AT_ONCE:
        starts = range(0, len(level), _FILES_AT_ONCE)
        merged = [unfinished.with_name(f"{unfinished.name}-{len(between) + at}") for at in starts]
        for start, path in zip(starts, merged, strict=True):
            _write_all(_merged(level[start : start + _FILES_AT_ONCE]), path)
        between += merged
        level = merged
    _write_all(_merged(level), unfinished)
    unfinished.replace(target)
    for path in between:
        path.unlink()


def _merged(paths: Sequence[Path]) -> Iterator[Ids]:
    """The ids of some files in ascending portions."""
    runs = [open_ids(path) for path in paths]
    step = max(1, _IDS_AT_ONCE // len(runs))
    while runs:
        # no run has more than ``step`` ids up to the least of their ``step``-th ones
        bound = min(run[:step][-1] for run in runs)
        ends = [int(np.searchsorted(run[:step], bound, "right")) for run in runs]
        yield sort_distinct(
            np.concatenate([run[:end] for run, end in zip(runs, ends, strict=True)])
        )
        runs = [run[end:] for run, end in zip(runs, ends, strict=True) if end < len(run)]


def _write_all(portions: Iterator[Ids], path: Path) -> None:
    with _open_private(path) as file:
        for ids in portions:
            file.write(_bytes_of(ids))


def _bytes_of(ids: Ids) -> bytes:
    return ids.astype(_STORED, copy=False).tobytes()


def _open_private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
