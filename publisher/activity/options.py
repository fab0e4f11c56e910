"""How samples of the table queue become statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le


@dataclass(frozen=True, slots=True)
class ActivityOptions:
    """``[activity]``."""

    gap_seconds: Annotated[float, Gt(0)] | None = None
    """Two sweeps further apart than this many seconds have a gap between them, which counts for nothing.
    By default three times the node's median interval; the flush interval of the database, where it is
    known, is the better choice."""
    interval_seconds: Annotated[int, Ge(1)] | None = None
    """Width of the intervals of what is shown over time; by default one that gives at most 96."""
    tables: Annotated[int, Ge(1), Le(10_000)] = 40
    """Tables shown over time, those present most often first; counts are of all tables."""
