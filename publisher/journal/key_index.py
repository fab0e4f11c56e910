"""The index of the keys of a lane: tells in a moment which lanes of many runs have records of an object.

The file has the 32-bit hashes of all key texts in the decisions of the lane, sorted.  Runs of segments that
are read in memory have no index.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.model.sorted_ids import sort_distinct

Hashes = npt.NDArray[np.uint32]

_STORED = np.dtype("<u4")
_AT_ONCE = 1 << 16
"""Number of hashes in memory, perhaps repeated, before they are written."""


class KeyIndexBuilder:
    """Collects the hashes of the keys of a lane; ``close`` sorts them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[Hashes] = []
        self._size = 0
        self._is_written = False
        """True if the file has hashes, not sorted yet."""

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Adds keys; null is no key."""
        part = _hashes_of(pc.drop_null(pc.unique(keys)).cast(pa.binary()).to_pylist())
        self._waiting.append(part)
        self._size += len(part)
        if self._size >= _AT_ONCE:
            with self._path.open("ab" if self._is_written else "wb") as file:
                self._take().tofile(file)
            self._is_written = True

    def close(self) -> None:
        """Completes the file."""
        hashes = self._take()
        if self._is_written:
            hashes = np.concatenate([np.fromfile(self._path, _STORED), hashes])
        sort_distinct(hashes).tofile(self._path)

    def _take(self) -> Hashes:
        hashes = np.concatenate([np.zeros(0, _STORED), *self._waiting])
        self._waiting, self._size = [], 0
        return hashes


def may_have_keys(path: Path, keys: Iterable[str]) -> bool:
    """Returns whether the lane of an index may have one of the keys; true if there is no index.

    Raises:
        FatalError: The index is damaged.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return True
    if len(content) % _STORED.itemsize:
        raise FatalError(f"{path} of the journal is damaged: remove it; reading then takes longer")
    stored = np.frombuffer(content, _STORED)
    wanted = _hashes_of([key.encode() for key in keys])
    places = np.minimum(np.searchsorted(stored, wanted), max(len(stored) - 1, 0))
    return bool(len(stored)) and bool((stored[places] == wanted).any())


def _hashes_of(keys: Sequence[bytes]) -> Hashes:
    return np.fromiter(map(zlib.crc32, keys), _STORED, len(keys))
