"""Maps files into memory as arrays of bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from publisher.errors import FatalError
from publisher.formats.columns.byte_areas import Bytes


def map_file(path: str, length: int) -> Bytes:
    """Maps the bytes of a file.  Raises ``FatalError`` if its length has changed."""
    if Path(path).stat().st_size != length:
        raise FatalError(f"{path} has changed since the run began; start again")
    if not length:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, mode="r", shape=(length,)))
