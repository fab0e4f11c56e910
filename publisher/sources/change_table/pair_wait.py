"""How long the youngest UPDATE or before image waits for its partner, in a table and in files.

The time is that of change_seq, so that nothing far behind the youngest row waits, and that of the job,
so that a wait ends where nothing more comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class PairWait:
    """Rows that wait for a partner."""

    upto: str
    """The greatest change_seq there was when the wait began."""
    since: int
    """When it began, in microseconds since 1970-01-01 UTC."""
    late: int = 0
    """Waiting rows below the mark of a table."""

    def is_over(self, seconds: float, clock: int) -> bool:
        """Whether the rows have waited long enough."""
        return clock - self.since >= seconds * _MICROSECONDS


def decided_upto(wait: PairWait | None, greatest: str, seconds: float, clock: int) -> str | None:
    """The change_seq up to which nothing waits, ``None`` where all may; ``greatest`` is the youngest."""
    waited = wait.upto if wait is not None and wait.is_over(seconds, clock) else None
    return max(filter(None, (waited, _earlier(greatest, seconds))), default=None)


def next_wait(
    wait: PairWait | None, greatest: str, blocked: str, seconds: float, clock: int, late: int = 0
) -> PairWait:
    """The wait after a run: the one that goes on where it concerns ``blocked``, else a new one."""
    if wait is not None and not wait.is_over(seconds, clock) and blocked <= wait.upto:
        return PairWait(wait.upto, wait.since, late)
    return PairWait(greatest, clock, late)


def _earlier(change_seq: str, seconds: float) -> str | None:
    """The first change_seq of so many seconds earlier; ``None`` where its time is none."""
    try:
        moment = datetime.strptime(change_seq[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        earlier = moment - timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
    return f"{earlier.year:04d}{earlier:%m%d%H%M%S}".ljust(len(change_seq), "0")
