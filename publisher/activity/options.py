"""Settings of the statistics over samples of the table queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le


@dataclass(frozen=True, slots=True)
class ActivityOptions:
    """``[activity]``."""

    gap_seconds: Annotated[float, Gt(0)] | None = None
    """Maximum number of seconds between two sweeps; a longer interval is a gap, and is not counted. By
    default three times the median interval of the node. Set it to the flush interval of the database
    if you know it."""
    interval_seconds: Annotated[int, Ge(1)] | None = None
    """Width in seconds of the intervals in time series; by default a width that gives at most 96
    intervals."""
    tables: Annotated[int, Ge(1), Le(10_000)] = 40
    """Maximum number of tables in time series, those present most often first. Totals always cover
    all tables."""
