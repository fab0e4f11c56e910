"""OPER_DATE: seconds since 1990-01-01 and 65536ths of a second."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from publisher.formats.dispatch_queue.rows.layout import EPOCH_SECONDS, FRACTIONS
from publisher.formats.dispatch_queue.rows.rows import Codes, QueueRows

_START = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local time in the caller's zone
_QUARTER = 900
"""Seconds within which the UTC offset of a zone does not change."""


def event_times(rows: QueueRows, chosen: Codes, zone: str | None) -> pa.Array:
    """Returns OPER_DATE of chosen rows in microseconds since 1970-01-01 UTC; null without a zone."""
    if zone is None:
        return pa.nulls(len(chosen), pa.int64())
    seconds = rows.seconds[chosen] + EPOCH_SECONDS
    if zone != "UTC":
        seconds = seconds - _utc_offsets(seconds, ZoneInfo(zone))
    return pa.array(seconds * 1_000_000 + rows.fractions[chosen] * 1_000_000 // FRACTIONS)


def _utc_offsets(local: Codes, zone: ZoneInfo) -> Codes:
    """Returns the UTC offsets of local times, in seconds; an ambiguous time is the earlier one."""
    quarters, which = np.unique(local // _QUARTER, return_inverse=True)
    offsets = []
    for quarter in quarters.tolist():
        moment = _START + dt.timedelta(seconds=quarter * _QUARTER)
        offset = moment.replace(tzinfo=zone).utcoffset()
        assert offset is not None
        offsets.append(int(offset.total_seconds()))
    return np.array(offsets, np.int64)[which]
