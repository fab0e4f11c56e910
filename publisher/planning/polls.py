"""Polls: the unit of precedence and grouping of an event log, like a polling cycle of the driver.

Polls are counted in events: the rank of an event is its place among the distinct usable record ids of the
wanted status (``event_ranks``), or its place by event time.  Each lane cuts them by itself (``plan``): ranks
are cut in blocks of ``poll_size``; an event within ``poll_slack`` ranks of the previous event of the same
object stays in that object's poll; a poll holds at most ``poll_size`` events of one object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge


@dataclass(frozen=True, slots=True)
class PollOptions:
    """Options for cutting an event log into polls."""

    poll_size: Annotated[int, Ge(1)] = 10_000
    """Number of events in one poll; the driver's query limit has the same default."""
    poll_slack: Annotated[int, Ge(0)] = 100
    """Maximum distance in events at which an event stays in the poll of the previous event of its
    object."""
    future_events: bool = False
    """Order events by time, and hold events that lie in the future."""
