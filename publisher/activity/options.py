"""Settings of the statistics over samples of the table queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt


@dataclass(frozen=True, slots=True)
class ActivityOptions:
    """``[activity]``."""

    gap_seconds: Annotated[float, Gt(0)] | None = None
    """Maximum number of seconds between two sweeps; a longer interval is a gap, and is not counted. By
    default three times the median interval of the node. Set it to the flush interval of the database
    if you know it."""
