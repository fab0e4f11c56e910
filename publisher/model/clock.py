"""The clock of runs."""

from __future__ import annotations

from datetime import UTC, datetime


def microseconds(moment: datetime | None = None) -> int:
    """Converts a moment, or the current time, to microseconds since 1970-01-01 UTC."""
    moment = moment or datetime.now(UTC)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
