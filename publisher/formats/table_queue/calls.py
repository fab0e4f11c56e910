"""The result of one DIRR call, and the columns of decoded samples.

A recorder calls DIRR with ordinals 1, 2, 3 ... until EORR, notes the result of each call, and starts the
next sweep.  This program does not talk to LINTER itself: recorders store their
calls, for instance by ``json_calls.json_line``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_TIME = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
"""The greatest time of a sample, in microseconds since 1970 UTC."""
LAST_ORDINAL = 2**31 - 1
SYSTEM_ELEMENTS = 3
"""Number of system tables, which are always the first elements of the queue, as documented for DIRR."""


@dataclass(frozen=True, slots=True)
class Call:
    """One DIRR call: its arguments and its result."""

    sweep: int
    """Number of the sweep; counts continuously, even across restarts of the recorder."""
    time: datetime
    """Time at which the call returned, with a zone."""
    ordinal: int
    """RowId, counted from 1."""
    completion: str | None = None
    """Symbolic name of CodErr: NORMAL, SMALLBUFKOR or EORR; any name or ``None`` for other codes."""
    code: int | None = None
    """Number of CodErr, if known."""
    record: bytes | None = None
    """The first LnBufRow bytes of RowBuf; ``None`` if the call returned no element."""
    node: str = ""
    """The LINTER server."""
    code_page: str | None = None
    """Code page of the channel, if known."""
    system_error: int | None = None
    """SysErr, the error code of the operating system."""


SAMPLE_SCHEMA = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("sweep", pa.string()),
        pa.field("time", pa.int64()),
        pa.field("node", pa.string(), nullable=False),
        pa.field("ordinal", pa.int32()),
        pa.field("completion", pa.string()),
        pa.field("code", pa.int32()),
        pa.field("system_error", pa.int32()),
        pa.field("owner", pa.int64()),
        pa.field("table", pa.string()),
        pa.field("updated", pa.int32()),
        pa.field("warning", pa.string()),
        pa.field("problem", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("raw", pa.string()),
    ]
)
"""One row per recorded call.

``row``: line, or offset in bytes, of the call in its file.  ``sweep``: its number as text, or the path of
a file that is a sweep by itself.  ``time``: microseconds since 1970 UTC, NULL if not recorded.
``completion``: name of the completion code.  ``owner``, ``table``, ``updated`` (UpdFlag): NULL if the call
returned no element.  ``warning``: a peculiarity of a usable call: ``flag`` (UpdFlag is neither 0 nor 1),
``cut`` (the name ends inside a character).  ``problem``: the reason why a call is unusable, NULL if it is
usable; ``detail`` says what to do, ``raw`` holds at most 4,096 bytes of the recorded call.
"""


class UnusablePiece(NamedTuple):
    """A piece of the input that is not a call."""

    row: int
    problem: str
    detail: str
    raw: str


class CallEnvelope(NamedTuple):
    """The recorded fields of a call except its record."""

    row: int
    sweep: str
    time: int | None
    node: str
    ordinal: int
    completion: str | None
    code: int | None
    system_error: int | None
    code_page: str | None


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Some calls of a file, not yet decoded."""

    envelopes: Sequence[CallEnvelope] = ()
    lengths: Sequence[int] = ()
    """Bytes of each returned record; ``NO_RECORD`` if the call returned none."""
    records: npt.NDArray[np.uint8] | None = None
    """One row per record; arbitrary bytes if the length of the record differs from the settings."""
    whole: Sequence[bytes] = ()
    """The complete records, if they may be longer than in ``records``."""
    unusable: tuple[UnusablePiece, ...] = ()

    def record(self, row: int) -> bytes:
        """Returns the complete bytes of a record."""
        if self.whole:
            return self.whole[row]
        return b"" if self.records is None else self.records[row].tobytes()


NO_RECORD = -1


class CallProblem(ValueError):  # noqa: N818 -- becomes a row of the result, not an error
    """A problem that makes a call unusable; ``problem`` is its name in ``SAMPLE_SCHEMA``."""

    def __init__(self, problem: str, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


def to_micros(moment: datetime) -> int:
    """Converts to microseconds since 1970 UTC.  Raises ``CallProblem`` outside 1970 to 9999."""
    try:
        value = (moment - EPOCH) // timedelta(microseconds=1)
    except OverflowError:
        value = -1
    if not 0 <= value <= LAST_TIME:
        raise CallProblem("time", "the time is not between 1970 and 9999; fix the recording")
    return value
