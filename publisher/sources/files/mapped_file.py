"""Files as arrays of bytes that are read where they are looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from publisher.errors import FatalError
from publisher.sources.columns.byte_areas import Bytes


def mapped(path: str, length: int) -> Bytes:
    """The bytes of a file.  Raises ``FatalError`` where it has another length than it had."""
    if Path(path).stat().st_size != length:
        raise FatalError(f"{path} has changed since the run began; start again")
    if not length:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, mode="r", shape=(length,)))
