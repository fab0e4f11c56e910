"""The partitions of many keys at once, as librdkafka's partitioners choose them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

UNKNOWN = -1
"""Replaces the partition of a key that is not computed."""
_LONGEST = 512
"""Maximum bytes of a key whose partition is computed: all keys of a batch take this space."""
_MURMUR, _SEED, _SHIFT = 0x5BD1E995, 0x9747B28C, np.uint32(24)
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193

Numbers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint32]


def partitions_of(keys: Sequence[bytes | None], partitioner: str, count: int) -> Numbers:
    """Computes the partition of each key; ``UNKNOWN`` for missing, empty and very long keys.

    ``partitioner`` is a name of librdkafka, ``count`` the number of partitions."""
    try:
        lengths = np.fromiter(map(len, cast("Sequence[bytes]", keys)), np.int64, len(keys))
    except TypeError:  # a key is missing
        lengths = np.array([len(key or b"") for key in keys], np.int64)
    is_known = (lengths > 0) & (lengths <= _LONGEST)
    if is_known.all():
        return _hashes(cast("Sequence[bytes]", keys), lengths, partitioner) % count
    partitions = np.full(len(keys), UNKNOWN, np.int64)
    if is_known.any():
        known = [key for key in keys if key and len(key) <= _LONGEST]
        partitions[is_known] = _hashes(known, lengths[is_known], partitioner) % count
    return partitions


def _hashes(keys: Sequence[bytes], lengths: Numbers, partitioner: str) -> Numbers:
    name = partitioner.removesuffix("_random")
    if name == "consistent":
        return np.fromiter(map(zlib.crc32, keys), np.int64, len(keys))
    width = -(-int(lengths.max()) // 4) * 4
    octets = np.array(keys, f"S{width}").view(np.uint8).reshape(len(keys), width)
    return (_murmur2 if name == "murmur2" else _fnv1a)(octets, lengths)


def _murmur2(octets: npt.NDArray[np.uint8], lengths: Numbers) -> Numbers:
    """The hash of Java clients, without its sign."""
    words = octets.view("<u4").T.astype(np.uint32)
    hashes: _Words = (_SEED ^ lengths).astype(np.uint32)
    whole = lengths // 4
    shortest = int(whole.min())
    multiplier = np.uint32(_MURMUR)
    for number, word in enumerate(words):
        mixed = word * multiplier
        mixed ^= mixed >> _SHIFT
        mixed *= multiplier
        mixed ^= hashes * multiplier
        hashes = mixed if number < shortest else np.where(number < whole, mixed, hashes)
    # the remaining one to three bytes; the bytes after them are zero
    tail = words[np.minimum(whole, len(words) - 1), np.arange(len(lengths))]
    hashes = np.where(lengths % 4 > 0, (hashes ^ tail) * multiplier, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= multiplier
    hashes ^= hashes >> np.uint32(15)
    return hashes.astype(np.int64) & 0x7FFFFFFF


def _fnv1a(octets: npt.NDArray[np.uint8], lengths: Numbers) -> Numbers:
    """The hash of Sarama: the absolute value of a signed number."""
    hashes: _Words = np.full(len(lengths), _FNV_OFFSET, np.uint32)
    for number in range(octets.shape[1]):
        mixed = (hashes ^ octets[:, number]) * np.uint32(_FNV_PRIME)
        hashes = np.where(number < lengths, mixed, hashes)
    return np.abs(hashes.astype(np.int32).astype(np.int64))
