"""Columns of one value equal those that Arrow builds, and are recognised wherever a slice begins."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.repeated_values import has_one_value, repeat_value

texts = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab", "é", "x" * 40, "x" * 300]))
numbers = st.one_of(st.none(), st.sampled_from([0, 1, -1, (1 << 31) - 1]))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *((text, pa.string()) for text in (None, "", "usr", "x" * 300)),
        *((number, kind) for number in (None, 0, -7) for kind in (pa.int32(), pa.int64())),
        (None, pa.list_(pa.string())),
        (None, pa.bool_()),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 3, 4, (1 << 16) + 1])
def test_a_value_is_repeated(value: int | str | None, kind: pa.DataType, count: int) -> None:
    column = repeat_value(value, kind, count)
    column.validate(full=True)
    assert column == pa.array([value] * count, kind)


@given(st.one_of(st.lists(texts), st.lists(numbers)), st.integers(0, 3))
def test_columns_of_one_value_are_recognised(values: list[Any], start: int) -> None:
    kind = pa.string() if any(isinstance(value, str) for value in values) else pa.int32()
    column = pa.array(values, kind).slice(start)
    is_long = any(isinstance(value, str) and len(value) > 256 for value in values[start:])
    assert has_one_value(column) == (len(set(values[start:])) == 1 and not is_long)
