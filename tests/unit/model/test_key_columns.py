"""Columns of keys are parsed as single keys are."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.key_columns import are_plain_integers, split_keys
from publisher.model.keys import integer_text, parse

SIMPLE = ["a=1", "a=x", "a=22", "a=.~!"]
OTHERS = ["b=x", "a=é", "a=1\nb=2", "a = 1", "a=1 ", "a=1+b=2", "", "a", "a=", "a=,", "=1", 'a="1"']
OTHERS += ["é=1", "a=="]


@given(st.lists(st.sampled_from(SIMPLE * 4 + OTHERS), min_size=1))
def test_keys_of_one_simple_column_are_split_together(texts: list[str]) -> None:
    split = split_keys(pa.array(texts))
    if len({*texts} - {*SIMPLE}) == 0:
        assert split is not None
    if split is not None:
        column, values = split
        pairs = zip(texts, values.to_pylist(), strict=True)
        assert all([part[:2] for part in parse(text)] == [(column, value)] for text, value in pairs)


def test_keys_are_not_split_without_keys() -> None:
    assert split_keys(pa.array([], pa.string())) is None
    assert split_keys(pa.array([None, "a=1"])) is None


def test_parts_of_a_batch_are_split() -> None:
    split = split_keys(pa.array(["?=,", "a=1", "a=2", "b=1"]).slice(1, 2))
    assert split is not None
    assert (split[0], split[1].to_pylist()) == ("a", ["1", "2"])


@given(
    st.lists(st.sampled_from(["1", "-1", "0", "10", "01", "-0", "", "1\n2", "1 ", "x"]), min_size=1)
)
def test_plain_integers_are_their_own_texts(texts: list[str]) -> None:
    plain = are_plain_integers(pa.array(texts))
    assert plain == all(integer_text(text) == text for text in texts)
