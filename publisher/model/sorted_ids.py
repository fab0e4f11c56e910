"""Sorted, distinct record ids on disk: collected in any order and merged in bounded memory."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.integer[Any])

_STORED = np.dtype("<i8")
IDS_AT_ONCE = 1 << 20
"""Number of ids in memory before they are sorted and written."""
_ASCENDING_SHARE = 8
"""Ids that only ascend are written after this part of ``IDS_AT_ONCE``: they leave no runs to merge."""
FILES_AT_ONCE = 256
"""Maximum number of files that are merged at once."""
_FEW = 10_000
"""Maximum number of ids without gaps that are not written: their first and last id tell all."""


class IdFile(NamedTuple):
    """A file of sorted, distinct ids: name, number of ids, first and last id.

    Few ids without gaps have no file."""

    name: str
    size: int
    first: int
    last: int

    @property
    def has_gaps(self) -> bool:
        """True if some ids between the first and the last are missing."""
        return self.last - self.first + 1 != self.size

    @property
    def is_written(self) -> bool:
        """False if there is no file."""
        return self.has_gaps or self.size > _FEW


class IdGatherer:
    """Gathers the ids of one split.

    Ids that arrive in ascending order go to one file, other ids to sorted runs, which ``close`` merges."""

    def __init__(self, folder: Path, name: str) -> None:
        """``name`` must be unique among the attempts of all tasks."""
        self._path = folder / name
        self._waiting: list[Ids] = []
        self._size = 0
        self._runs: list[Path] = []
        self._last = 0
        """The last id that was written."""
        self._ascends = True

    def add(self, ids: Ids) -> None:
        """Adds positive ids in any order."""
        if not len(ids):
            return
        previous = self._waiting[-1][-1] if self._waiting else self._last
        ids = sort_distinct(ids)
        self._ascends = self._ascends and bool(ids[0] >= previous)
        self._waiting.append(ids)
        self._size += len(ids)
        if self._size >= (IDS_AT_ONCE // _ASCENDING_SHARE if self._ascends else IDS_AT_ONCE):
            self._write()

    def close(self) -> IdFile | None:
        """Completes the file; returns ``None`` if no ids were added."""
        if self._waiting and not self._runs and self._size <= _FEW:
            ids = sort_distinct(np.concatenate(self._waiting))
            file = IdFile(self._path.name, len(ids), int(ids[0]), int(ids[-1]))
            if not file.is_written:
                return file
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
        if self._runs and ids[0] == self._last:  # the last id of the previous portion, repeated
            ids = ids[1:]
            if not len(ids):
                return
        if not self._runs:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._runs or ids[0] < self._last:
            self._runs.append(self._path.with_name(f"{self._path.name}.run-{len(self._runs)}"))
        with _open_private(self._runs[-1]) as file:
            file.write(_bytes_of(ids))
        self._last = int(ids[-1])


def sort_distinct(numbers: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Sorts integers and removes repetitions; ``np.unique`` would hash them first, for five times as long."""
    if np.all(numbers[1:] > numbers[:-1]):
        return numbers.copy()
    numbers = np.sort(numbers)
    distinct: npt.NDArray[Number] = numbers[np.append(True, numbers[1:] != numbers[:-1])]
    return distinct


def open_ids(path: Path) -> Ids:
    """Maps the ids of a file into memory."""
    return np.memmap(path, _STORED, "r")


def ids_in(file: IdFile, folder: Path) -> Ids:
    """Returns the ids of a file in a folder."""
    if file.is_written:
        return open_ids(folder / file.name)
    return file.first + np.arange(file.size, dtype=np.int64)


def write_few_ids(file: IdFile, folder: Path) -> Path:
    """Returns the path of a file of ids; writes few ids without gaps, which had no file.

    Several tasks may write it at the same time."""
    path = folder / file.name
    if not (file.is_written or path.exists()):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        _write_all(iter([ids_in(file, folder)]), unfinished)
        unfinished.replace(path)
    return path


def find_ids(ids: Ids, wanted: Ids) -> npt.NDArray[np.int64]:
    """Finds the index of each wanted id among sorted ids; -1 for ids that are missing."""
    places = np.full(len(wanted), -1, np.int64)
    if len(ids):
        near = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        matches = ids[near] == wanted
        places[matches] = near[matches]
    return places


def merge(paths: Sequence[Path], target: Path) -> None:
    """Merges files of ids into one, which appears when it is complete."""
    unfinished = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    level, intermediate = list(paths), list[Path]()
    while len(level) > FILES_AT_ONCE:
        starts = range(0, len(level), FILES_AT_ONCE)
        merged = [
            unfinished.with_name(f"{unfinished.name}-{len(intermediate) + at}") for at in starts
        ]
        for start, path in zip(starts, merged, strict=True):
            _write_all(_merge(level[start : start + FILES_AT_ONCE]), path)
        intermediate += merged
        level = merged
    _write_all(_merge(level), unfinished)
    unfinished.replace(target)
    for path in intermediate:
        path.unlink()


def _merge(paths: Sequence[Path]) -> Iterator[Ids]:
    """Merges files of ids; yields ascending portions."""
    runs = [open_ids(path) for path in paths]
    step = max(1, IDS_AT_ONCE // len(runs))
    while runs:
        # no run has more than ``step`` ids up to the smallest of the runs' ``step``-th ids
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
