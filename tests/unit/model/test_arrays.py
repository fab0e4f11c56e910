"""The verbs of the rules about neighbouring rows, at their edges: no rows, nulls, one row, ties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.arrays import (
    begins_island,
    booleans,
    ends_island,
    first_rows,
    integers,
    island_bounds,
    last_mark,
    numbered,
    order_by,
    partners,
    ranges,
    smallest_of_group,
)


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def flags(text: str) -> Any:
    """Flags as a text: ``x`` is true."""
    return np.array([sign == "x" for sign in text], np.bool_)


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        (pa.array([], pa.int64()), []),
        (pa.array([None, None], pa.int64()), [0, 0]),
        (pa.array([1, None, -3], pa.int8()), [1, 0, -3]),
        (pa.array([2**62, None], pa.int64()), [2**62, 0]),
        (pa.array([7, 1, 2], pa.int32()).slice(1), [1, 2]),
    ],
)
def test_integers(column: pa.Array, numbers: list[int]) -> None:
    assert integers(column).dtype == np.int64
    assert integers(column).tolist() == numbers


@pytest.mark.parametrize(
    ("column", "values"),
    [([], []), ([None], [False]), ([True, None, False], [True, False, False])],
)
def test_booleans(column: list[bool | None], values: list[bool]) -> None:
    assert booleans(pa.array(column, pa.bool_())).tolist() == values


@pytest.mark.parametrize(
    ("numbers", "rows"), [([], []), ([0], [0]), ([0, 0, 0], [0]), ([0, 1, 1, 0, 2], [0, 1, 4])]
)
def test_first_rows(numbers: list[int], rows: list[int]) -> None:
    assert first_rows(ints(*numbers)).tolist() == rows


@pytest.mark.parametrize(
    ("begins", "ends"), [("", ""), ("x", "x"), ("xxx", "xxx"), ("x..x", "..xx")]
)
def test_ends_island(begins: str, ends: str) -> None:
    assert ends_island(flags(begins)).tolist() == flags(ends).tolist()


@pytest.mark.parametrize(
    ("texts", "numbers", "values"),
    [
        ([], [], []),
        ([None, None], [0, 0], [None]),
        (["a", "a"], [0, 0], ["a"]),
        (["", None, ""], [0, 1, 0], ["", None]),
        ([None, "b", "a", "b"], [0, 1, 2, 1], [None, "b", "a"]),
    ],
)
def test_numbered(texts: list[str | None], numbers: list[int], values: list[str | None]) -> None:
    found, distinct = numbered(pa.array(texts, pa.string()))
    assert (found.tolist(), distinct.to_pylist()) == (numbers, values)


@pytest.mark.parametrize(
    ("columns", "order"),
    [
        ([ints()], []),
        ([ints(3, 1, 2)], [1, 2, 0]),
        ([ints(1, 1, 1)], [0, 1, 2]),
        ([ints(1, 0, 1, 0), ints(5, 6, 4, 6)], [1, 3, 2, 0]),
        ([flags("x.x"), ints(9, 9, 8)], [1, 2, 0]),
    ],
)
def test_order_by(columns: Sequence[Any], order: list[int]) -> None:
    assert order_by(*columns).tolist() == order


@pytest.mark.parametrize(
    ("columns", "begins", "bounds"),
    [
        ([ints()], "", [0]),
        ([ints(4)], "x", [0, 1]),
        ([ints(4, 4, 4)], "x..", [0, 3]),
        ([ints(4, 4, 5, 4)], "x.xx", [0, 2, 3, 4]),
        ([ints(4, 4, 4), ints(1, 2, 2)], "xx.", [0, 1, 3]),
    ],
)
def test_islands(columns: Sequence[Any], begins: str, bounds: list[int]) -> None:
    assert begins_island(*columns).tolist() == flags(begins).tolist()
    assert island_bounds(flags(begins)).tolist() == bounds


@pytest.mark.parametrize(
    ("marks", "last"),
    [("", []), ("...", [-1, -1, -1]), ("x..", [0, 0, 0]), (".x.xx", [-1, 1, 1, 3, 4])],
)
def test_last_mark(marks: str, last: list[int]) -> None:
    assert last_mark(flags(marks)).tolist() == last


@pytest.mark.parametrize(
    ("group", "columns", "among", "smallest"),
    [
        (ints(), [ints()], "", []),
        (ints(0, 0), [ints(1, 2)], "..", [-1, -1]),
        (ints(0, 1, 0, 1), [ints(2, 2, 1, 2)], "xxxx", [2, 1, 2, 1]),
        (ints(0, 0, 0), [ints(5, 5, 5)], ".xx", [1, 1, 1]),
        (ints(2, 0, 2), [ints(7, 6, 7), ints(2, 0, 1)], "x.x", [2, -1, 2]),
    ],
)
def test_smallest_of_group(
    group: Any, columns: Sequence[Any], among: str, smallest: list[int]
) -> None:
    assert smallest_of_group(group, *columns, among=flags(among)).tolist() == smallest


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2), st.booleans())))
def test_the_smallest_of_a_group_is_that_of_sorted(
    rows: list[tuple[int, int, int, bool]],
) -> None:
    group, first, second, among = (
        (np.array(column) for column in zip(*rows, strict=True))
        if (rows)
        else (ints(), ints(), ints(), flags(""))
    )
    expected = [
        min(
            ((b, c, at) for at, (other, b, c, counts) in enumerate(rows) if counts and other == a),
            default=(0, 0, -1),
        )[2]
        for a, *_ in rows
    ]
    assert smallest_of_group(group, first, second, among=among).tolist() == expected


@pytest.mark.parametrize(
    ("left", "right", "rows"),
    [
        (ints(), ints(), []),
        (ints(1, 2), ints(), [-1, -1]),
        (ints(), ints(1), []),
        (ints(9, 0, 4, 4), ints(0, 4, 8), [-1, 0, 1, 1]),
    ],
)
def test_partners(left: Any, right: Any, rows: list[int]) -> None:
    assert partners(left, right).tolist() == rows


@pytest.mark.parametrize(
    ("starts", "ends", "numbers", "rows"),
    [
        (ints(), ints(), [], []),
        (ints(3, 3), ints(3, 4), [1], [3]),
        (ints(5, 0, 2), ints(7, 0, 3), [0, 0, 2], [5, 6, 2]),
    ],
)
def test_ranges(starts: Any, ends: Any, numbers: list[int], rows: list[int]) -> None:
    found = ranges(starts, ends)
    assert (found[0].tolist(), found[1].tolist()) == (numbers, rows)
