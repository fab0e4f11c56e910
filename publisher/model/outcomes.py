"""The outcomes of many changes as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from publisher.model.arrays import Int64Array
from publisher.model.change import Reason

REASONS = tuple(Reason)
NUMBERS = {reason: number for number, reason in enumerate(REASONS, 1)}
"""Numbers of reasons in arrays; 0 stands for none."""


class Outcomes(NamedTuple):
    """The outcomes of changes that no document publishes."""

    row: Int64Array
    """Row numbers in the lane."""
    outcome: Int64Array
    reason: Int64Array
    """See ``NUMBERS``."""
    by: Int64Array
    """The rows of the changes that superseded them; -1 without one."""
    texts: Mapping[int, tuple[str | None, str | None]]
    """The details and raw records of rejects by row."""
