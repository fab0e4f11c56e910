"""The partitions of many keys at once, as librdkafka's partitioners choose them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

UNKNOWN = -1
"""Replaces the partition of a key that is not computed."""
_LONGEST = 512
"""Maximum bytes of a key whose partition is computed: all keys of a batch take this space."""
_MURMUR, _SEED, _SHIFT = 0x5BD1E995, 0x9747B28C, 24
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193

Numbers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint32]


def partitions_of(keys: Sequence[bytes | None], partitioner: str, count: int) -> Numbers:
    """Computes the partition of each key; ``UNKNOWN`` for missing, empty and very long keys.

    ``partitioner`` is a name of librdkafka, ``count`` the number of partitions."""
    partitions = np.full(len(keys), UNKNOWN, np.int64)
    places = [place for place, key in enumerate(keys) if key and len(key) <= _LONGEST]
    known = [key for key in keys if key and len(key) <= _LONGEST]
    if not known:
        return partitions
    name = partitioner.removesuffix("_random")
    if name == "consistent":
        hashes = np.fromiter(map(zlib.crc32, known), np.int64, len(known))
    else:
        hashes = (_murmur2 if name == "murmur2" else _fnv1a)(*_matrix(known))
    partitions[places] = hashes % count
    return partitions


def _matrix(keys: Sequence[bytes]) -> tuple[npt.NDArray[np.uint8], Numbers]:
    """The bytes of keys as rows of equal length, filled with zeros, and their lengths."""
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    width = -(-int(lengths.max()) // 4) * 4
    filled = np.array(keys, f"S{width}")
    return filled.view(np.uint8).reshape(len(keys), width), lengths


def _murmur2(octets: npt.NDArray[np.uint8], lengths: Numbers) -> Numbers:
    """The hash of Java clients, without its sign."""
    words = octets.view("<u4").astype(np.uint32)
    hashes: _Words = (_SEED ^ lengths).astype(np.uint32)
    whole = lengths // 4
    multiplier = np.uint32(_MURMUR)
    for number in range(words.shape[1]):
        mixed = words[:, number] * multiplier
        mixed ^= mixed >> np.uint32(_SHIFT)
        hashes = np.where(number < whole, hashes * multiplier ^ mixed * multiplier, hashes)
    # the remaining one to three bytes; the bytes after them are zero
    tail = np.minimum(whole, words.shape[1] - 1)
    last = words[np.arange(len(words)), tail]
    hashes = np.where(lengths % 4 > 0, (hashes ^ last) * multiplier, hashes)
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
