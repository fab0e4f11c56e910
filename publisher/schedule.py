"""When a following publisher polls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Annotated

from annotated_types import Ge, Le


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """``[follow]``: how ``publish --follow`` goes on."""

    polling_interval: Annotated[float, Ge(0), Le(604_800)] = 10.0
    """Seconds of inactivity between two polls; 0: again at once."""
    publication_times: tuple[str, ...] = ()
    """Times of day at which to poll instead, as ``HH:MM`` or ``HH:MM:SS`` of this machine's clock."""
    heartbeat_minutes: Annotated[float, Ge(0)] = 0.0
    """Minutes without anything published after which a heartbeat goes to the topic; 0: none."""

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for what is no time of day."""
        for text in self.publication_times:
            try:
                moment = time.fromisoformat(text)
            except ValueError:
                moment = None
            if moment is None or moment.tzinfo is not None:
                raise ValueError(
                    f"publication_times: {text!r} is no time of day; write 18:30 or 18:30:00"
                )

    @property
    def at_times(self) -> bool:
        """Whether polls go by the time of day."""
        return bool(self.publication_times)

    def pause(self, now: datetime) -> float:
        """Seconds from ``now``, the local time, until the next poll."""
        if not self.at_times:
            return self.polling_interval
        times = [time.fromisoformat(text) for text in self.publication_times]
        days = [now.date(), now.date() + timedelta(days=1)]
        moments = [datetime.combine(day, moment) for day in days for moment in times]
        return min((moment - now).total_seconds() for moment in moments if moment > now)
