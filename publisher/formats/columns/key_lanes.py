"""Computes the lanes of many keys at once, with the same results as ``lanes.key_lane``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.model.lanes import key_lane

Lanes = npt.NDArray[np.int64]

_ALL = 0xFFFFFFFF
_LONG = 64
"""Minimum bytes of a long key; long keys are rare, so their lanes are computed one by one."""


def _table() -> npt.NDArray[np.uint32]:
    """Computes the table of CRC-32 (ISO-HDLC, as in zlib)."""
    crcs = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crcs = np.where(crcs & 1, (crcs >> 1) ^ np.uint32(0xEDB88320), crcs >> 1)
    return crcs


_TABLE = _table()


def key_lanes(prefix: int, keys: pa.Array, lanes: int) -> Lanes:
    """Computes the lane of each key of the table with the hash ``prefix``; NULL has lane 0."""
    if not len(keys):
        return np.zeros(0, np.int64)
    _, places, data = keys.buffers()
    ends = np.frombuffer(places, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    octets = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    lengths = np.diff(ends)
    order = np.argsort(-lengths, kind="stable")
    starts, sizes = ends[:-1][order].astype(np.int64), lengths[order]
    result = np.empty(len(keys), np.int64)
    short = int(np.searchsorted(-sizes, -_LONG))
    result[order[short:]] = _remainders(prefix, octets, starts[short:], sizes[short:]) % lanes
    for place in order[:short].tolist():
        text = keys[place].as_py()
        result[place] = 0 if text is None else key_lane(prefix, text, lanes)
    if keys.null_count:
        result[keys.is_null().to_numpy(zero_copy_only=False)] = 0
    return result


def _remainders(
    prefix: int,
    octets: npt.NDArray[np.uint8],
    starts: Lanes,
    sizes: npt.NDArray[np.int32],
) -> Lanes:
    """Continues the CRC-32 ``prefix`` over each of the byte ranges, which are sorted longest first."""
    crcs = np.full(len(starts), prefix ^ _ALL, np.uint32)
    longest = int(sizes[0]) if len(sizes) else 0
    counts = np.searchsorted(-sizes, -np.arange(longest))  # number of ranges longer than each place
    for place, count in enumerate(counts.tolist()):
        before = crcs[:count]
        changed = (before ^ octets[starts[:count] + place]) & np.uint32(0xFF)
        crcs[:count] = _TABLE[changed] ^ (before >> np.uint32(8))
    return (crcs ^ np.uint32(_ALL)).astype(np.int64)
