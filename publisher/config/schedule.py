"""Times of the polls of ``publish --follow``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from annotated_types import Ge, Le

from publisher.errors import OptionProblem, refuse_options
from publisher.xds.times import zone_problems


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """``[follow]``: times of the polls of ``publish --follow``."""

    polling_interval: Annotated[float, Ge(0), Le(604_800)] = 10.0
    """Seconds of inactivity between two polls; 0 polls again at once. New rows of a log that notifies
    (``ddl --notify``) end the pause early."""
    publication_times: tuple[str, ...] = ()
    """Times of day at which to poll, instead of an interval, as ``HH:MM`` or ``HH:MM:SS``."""
    time_zone: str = "UTC"
    """IANA name of the time zone of these times. Each applies once a day: if the clocks are
    set back, a repeated time applies the first time; if they are set forward, a skipped 02:30
    becomes 03:30."""
    heartbeat_minutes: Annotated[float, Ge(0)] = 0.0
    """Minutes without any document after which a heartbeat is sent to the topic; 0 sends none."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for a text that is not a time of day, or an unknown zone."""
        problems = list(zone_problems(self.time_zone))
        for text in self.publication_times:
            try:
                moment = time.fromisoformat(text)
            except ValueError:
                moment = None
            if moment is None or moment.tzinfo is not None:
                advice = f"{text!r} is not a time of day; write 18:30 or 18:30:00"
                problems.append(OptionProblem("publication_times", advice))
        refuse_options(problems)

    @property
    def at_times(self) -> bool:
        """True if polls start at times of day instead of after an interval."""
        return bool(self.publication_times)

    def next_publication(self, after: datetime) -> datetime:
        """Returns the first publication time later than ``after``, both with a zone.

        Every time of day applies once a day: if the clocks are set back, a repeated time applies the first
        time; if they are set forward, a skipped time is moved by the skipped hour (02:30 becomes 03:30).
        """
        zone = ZoneInfo(self.time_zone)
        times = [time.fromisoformat(text) for text in self.publication_times]
        today = after.astimezone(zone).date()
        days = [today + timedelta(days=number) for number in range(-1, 3)]
        moments = [
            datetime.combine(day, moment, zone).astimezone(UTC) for day in days for moment in times
        ]
        return min(moment for moment in moments if moment > after)
