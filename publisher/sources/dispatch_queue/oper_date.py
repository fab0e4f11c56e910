"""OPER_DATE: seconds since 1990-01-01 and 65536ths of a second (reference, section 1.2)."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from publisher.sources.dispatch_queue.rows.layout import EPOCH_SECONDS, FRACTIONS
from publisher.sources.dispatch_queue.rows.rows import Codes, Rows

_START = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local time, the zone is the caller's
_QUARTER = 900
"""Seconds within which the distance of a zone from UTC does not change."""


def event_times(rows: Rows, chosen: Codes, zone: str | None) -> pa.Array:
    """Microseconds since 1970 UTC of some rows; null where the zone is not said."""
    if zone is None:
        return pa.nulls(len(chosen), pa.int64())
    seconds = rows.seconds[chosen] + EPOCH_SECONDS
    if zone != "UTC":
        seconds = seconds - _distances(seconds, ZoneInfo(zone))
    return pa.array(seconds * 1_000_000 + rows.fractions[chosen] * 1_000_000 // FRACTIONS)


def _distances(local: Codes, zone: ZoneInfo) -> Codes:
    """Seconds by which local times are ahead of UTC; of times that are there twice the first."""
    quarters, which = np.unique(local // _QUARTER, return_inverse=True)
    found = []
    for quarter in quarters.tolist():
        moment = _START + dt.timedelta(seconds=quarter * _QUARTER)
        distance = moment.replace(tzinfo=zone).utcoffset()
        assert distance is not None
        found.append(int(distance.total_seconds()))
    return np.array(found, np.int64)[which]
