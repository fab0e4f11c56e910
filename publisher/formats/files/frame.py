"""The result of framing: records of a split as columns, and pieces that are not records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Broken(NamedTuple):
    """A piece of the input that cannot be read as a record."""

    row: int
    """Number of the record, as in ``Frame.rows``."""
    reason: str
    """The problem, ending with advice."""
    raw: str
    """The piece itself; bytes that are not text as ``\\xNN``."""


class Frame(NamedTuple):
    """Some records of a split, in the order of the input.

    Every record of the input is in ``batch`` or in ``broken``, exactly once.
    """

    batch: pa.RecordBatch
    rows: npt.NDArray[np.int64]
    """Number of each record of ``batch`` in its file, from 1.  For text it is the line on which the
    record starts (lines end at LF; a header is line 1), so that an editor can jump to the record; for
    Parquet it counts rows."""
    broken: tuple[Broken, ...] = ()
