"""Thrift's compact protocol: kinds of values, damage, and readers that leave no garbage."""

from __future__ import annotations

import pytest

from publisher.sources.files.thrift_compact import ThriftError, read_struct
from tests.support.garbage import count_garbage

EVERY_KIND = (
    b"\x15\x05"  # field 1: i32 -3
    b"\x13\x07"  # field 2: i8 7
    b"\x18\x02ab"  # field 3: text
    b"\x17\0\0\0\0\0\0\0\0"  # field 4: double
    b"\x11\x12"  # fields 5 and 6: true and false
    b"\x19\x25\x02\x04"  # field 7: list of two i32, 1 and 2
    b"\x1c\x15\x02\x00"  # field 8: struct
    b"\x1b\x01\x55\x02\x04"  # field 9: map of one i32
    b"\x00"
)


def test_a_struct_has_its_fields_by_number() -> None:
    values, end = read_struct(EVERY_KIND + b"rest", 0, len(EVERY_KIND) + 4)
    assert end == len(EVERY_KIND)
    assert values == {
        1: -3,
        2: 7,
        3: b"ab",
        4: bytes(8),
        5: True,
        6: False,
        7: [1, 2],
        8: {1: 1},
        9: [(1, 2)],
    }


@pytest.mark.parametrize("size", range(len(EVERY_KIND)))
def test_a_cut_struct_is_refused(size: int) -> None:
    with pytest.raises(ThriftError, match=r"too early|longer than the bytes"):
        read_struct(EVERY_KIND[:size], 0, size)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ThriftError, match="unknown type"):
        read_struct(b"\x1d\x00", 0, 2)


def test_reading_leaves_nothing_for_the_collector() -> None:
    """A split of a large file has thousands of page headers; tasks collect garbage rarely."""

    def read() -> None:
        for _ in range(10):
            read_struct(EVERY_KIND, 0, len(EVERY_KIND))

    assert count_garbage(read) == 0
