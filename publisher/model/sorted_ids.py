"""Sorted, distinct record ids on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.integer[Any])

_STORED = np.dtype("<i8")
IDS_AT_ONCE = 1 << 17
"""Number of ids in memory before they are sorted and written."""
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
    """Gathers the ids of one split: ascending ids go to its file at once, earlier ones wait in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        """``name`` must be unique among the attempts of all tasks."""
        self._path = folder / name
        self._waiting: list[Ids] = []
        self._size = 0
        self._late: list[Ids] = []
        self._last = 0
        """The last id that was written."""

    def add(self, ids: Ids) -> None:
        """Adds positive ids in any order."""
        if not len(ids):
            return
        self._waiting.append(sort_distinct(ids))
        self._size += len(self._waiting[-1])
        if self._size >= IDS_AT_ONCE:
            self._write()

    def close(self) -> IdFile | None:
        """Completes the file; returns ``None`` if no ids were added."""
        if self._waiting and not self._last and self._size <= _FEW:
            file = _describe(self._path.name, sort_distinct(np.concatenate(self._waiting)))
            if not file.is_written:
                return file
        self._write()
        if not self._last:
            return None
        ids = open_ids(self._path)
        if self._late:
            ids = sort_distinct(np.concatenate([ids, *self._late]))
            self._path.unlink()
            write_ids(ids, self._path)
        return _describe(self._path.name, ids)

    def _write(self) -> None:
        if not self._waiting:
            return
        ids = sort_distinct(np.concatenate(self._waiting))
        self._waiting, self._size = [], 0
        start = int(np.searchsorted(ids, self._last, "right"))
        if start:
            self._late.append(ids[:start])
        if start < len(ids):
            write_ids(ids[start:], self._path)
            self._last = int(ids[-1])


def sort_distinct(numbers: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Sorts integers and removes repetitions; ``np.unique`` would hash them first, for five times as long."""
    if np.all(numbers[1:] > numbers[:-1]):
        return numbers.copy()
    numbers = np.sort(numbers)
    distinct: npt.NDArray[Number] = numbers[np.append(True, numbers[1:] != numbers[:-1])]
    return distinct


def write_ids(ids: Ids, path: Path) -> None:
    """Appends ids to a private file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(number, "ab") as file:
        file.write(ids.astype(_STORED, copy=False).tobytes())


def open_ids(path: Path) -> Ids:
    """Maps the ids of a file into memory."""
    return np.memmap(path, _STORED, "r")


def ids_in(file: IdFile, folder: Path) -> Ids:
    """Returns the ids of a file in a folder."""
    if file.is_written:
        return open_ids(folder / file.name)
    return file.first + np.arange(file.size, dtype=np.int64)


def find_ids(ids: Ids, wanted: Ids) -> npt.NDArray[np.int64]:
    """Finds the index of each wanted id among sorted ids; -1 for ids that are missing."""
    places = np.full(len(wanted), -1, np.int64)
    if len(ids):
        near = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        matches = ids[near] == wanted
        places[matches] = near[matches]
    return places


def _describe(name: str, ids: Ids) -> IdFile:
    return IdFile(name, len(ids), int(ids[0]), int(ids[-1]))
