"""The result of one DIRR call, the seam for what records them, and the columns that reading gives.

A recorder calls DIRR with ordinals 1, 2, 3 ... until EORR, notes the result of each call, and begins
again with the next sweep.  Nothing here talks to LINTER; :class:`Recorder` is where such a part fits, and
the writers beside the readers (``json_calls``, ``bulk_calls``) keep what it yields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_TIME = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
"""Times of samples lie between 1970 and this, in microseconds."""
LAST_ORDINAL = 2**31 - 1
SYSTEM_ELEMENTS = 3
"""The first elements of the queue are always those of system tables (the page of DIRR)."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one DIRR call was asked and gave."""

    sweep: int
    """Number of the sweep; goes on counting for good, also when the recorder starts again."""
    time: datetime
    """When the call returned; with a zone."""
    ordinal: int
    """RowId: from 1."""
    completion: str | None = None
    """Symbolic name of CodErr: NORMAL, SMALLBUFKOR, EORR; of other codes any name, or none."""
    code: int | None = None
    """Number of CodErr, where it is known."""
    record: bytes | None = None
    """RowBuf, LnBufRow bytes of it; a call that gave no element has none."""
    node: str = ""
    """LINTER server that was asked."""
    code_page: str | None = None
    """Code page of the channel, where it is known."""
    system_error: int | None = None
    """SysErr, the state of the operating system."""


class Recorder(Protocol):
    """What records a table queue, where there is a LINTER to ask."""

    def calls(self) -> Iterator[Call]:
        """The results of DIRR calls, sweep after sweep, each sweep up to its EORR.

        Where ordinals name slots an EORR may come in the middle: such a recorder goes on to a bound,
        and the last call of each sweep is an EORR all the same."""


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
"""One row for each call that was recorded.

``row``: line, or offset in bytes, of the call in its file.  ``sweep``: its number as text, the path of
a file that is one sweep by itself.  ``time``: microseconds since 1970 UTC, NULL where none was recorded.
``completion``: name of the completion code.  ``owner``, ``table``, ``updated`` (UpdFlag): NULL where
there is no element.  ``warning``: what is odd about a call that counts: ``flag`` (UpdFlag is neither 0 nor
1), ``cut`` (the name ends inside a character).  ``problem``: why a call cannot be used, NULL where it can;
``detail`` says what to do, ``raw`` is what was recorded, 4,096 bytes of it at most.
"""


class Unusable(NamedTuple):
    """A piece of the input that is no call."""

    row: int
    problem: str
    detail: str
    raw: str
    sweep: str | None = None
    """The sweep that lacks it, where that is known."""


class Envelope(NamedTuple):
    """What is recorded of a call beside its record."""

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
class Block:
    """Some calls of a file as they were recorded."""

    envelopes: Sequence[Envelope] = ()
    lengths: Sequence[int] = ()
    """Bytes of each record as it was returned; ``NO_RECORD`` where there is none."""
    records: npt.NDArray[np.uint8] | None = None
    """The records, one row each; of those with another length than the settings give any bytes."""
    whole: Sequence[bytes] = ()
    """The same as they were recorded, where they may be longer than there."""
    unusable: tuple[Unusable, ...] = ()

    def record(self, row: int) -> bytes:
        """A record with what there is behind it."""
        if self.whole:
            return self.whole[row]
        return b"" if self.records is None else self.records[row].tobytes()


NO_RECORD = -1


class CallProblem(ValueError):  # noqa: N818 -- becomes a row of the result, not an error
    """Why a call cannot be used."""

    def __init__(self, problem: str, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


def micros(moment: datetime) -> int:
    """Microseconds since 1970 UTC.  Raises ``CallProblem`` where that is no time of a sample."""
    try:
        found = (moment - EPOCH) // timedelta(microseconds=1)
    except OverflowError:
        found = -1
    return checked_time(found)


def checked_time(value: int) -> int:
    """The same.  Raises ``CallProblem`` where it is no time of a sample."""
    if not 0 <= value <= LAST_TIME:
        raise CallProblem("time", "the time is not between 1970 and 9999; mend the recording")
    return value
