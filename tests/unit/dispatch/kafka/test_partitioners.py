"""The partitions of keys are those of librdkafka's partitioners."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.dispatch.kafka.partitioners import UNKNOWN, partitions_of

_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """One key at a time, as in Kafka's ``Utils.murmur2``."""
    value = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * 0x5BD1E995 & _MASK
        word = (word ^ word >> 24) * 0x5BD1E995 & _MASK
        value = value * 0x5BD1E995 & _MASK ^ word
    if key[whole:]:
        value = (value ^ int.from_bytes(key[whole:], "little")) * 0x5BD1E995 & _MASK
    value = (value ^ value >> 13) * 0x5BD1E995 & _MASK
    return (value ^ value >> 15) & 0x7FFFFFFF


def fnv1a(key: bytes) -> int:
    value = 0x811C9DC5
    for octet in key:
        value = (value ^ octet) * 0x01000193 & _MASK
    return abs(value - (1 << 32) if value >> 31 else value)


@pytest.mark.parametrize(
    ("name", "hash_of"),
    [("murmur2_random", murmur2), ("consistent", zlib.crc32), ("fnv1a_random", fnv1a)],
)
@given(keys=st.lists(st.binary(min_size=1, max_size=70), min_size=1), count=st.integers(1, 100_000))
def test_many_keys_have_the_partitions_of_each_alone(
    name: str, hash_of: Callable[[bytes], int], keys: list[bytes], count: int
) -> None:
    assert partitions_of(keys, name, count).tolist() == [hash_of(key) % count for key in keys]


def test_known_hashes_of_java_clients() -> None:
    keys = [b"21", b"foobar", b"a-little-bit-long-string"]
    hashes = [-973932308, -790332482, -985981536]
    count = (1 << 31) - 1
    assert partitions_of(keys, "murmur2", count).tolist() == [
        (number & 0x7FFFFFFF) % count for number in hashes
    ]


def test_keys_without_a_fixed_partition_are_unknown() -> None:
    keys = [None, b"", b"x" * 1_000, b"x"]
    found = partitions_of(keys, "murmur2_random", 7).tolist()
    assert found[:3] == [UNKNOWN] * 3
    assert found[3] == murmur2(b"x") % 7
    assert partitions_of(keys[:2], "murmur2_random", 7).tolist() == [UNKNOWN] * 2
