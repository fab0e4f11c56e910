"""Values of a column are converted as single values are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.catalogue import ColumnKind
from publisher.planning.columnar.values import convert_column
from publisher.xds.escape import ValueProblem
from publisher.xds.values import ValueOptions, Values

TEXTS = [
    "",
    "Ann",
    "a&b",
    "<",
    ">",
    "a\nb",
    "\r",
    "\t",
    "x ",
    " ",
    "é",
    "伟，",
    "\x01",
    "\uffff",
    "\ufeff",
    "\x7f",
]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("forbidden", ["reject", "replace"])
@given(texts=st.lists(st.none() | st.sampled_from(TEXTS)), start=st.integers(0, 2))
def test_texts_are_converted_together_as_one_by_one(
    padded: bool, forbidden: str, texts: list[str | None], start: int
) -> None:
    options = ValueOptions(forbidden=forbidden)  # type: ignore[arg-type]
    converter = Values(options).converter(ColumnKind.STRING, padded)
    column = pa.array(texts, pa.string()).slice(start)
    bad = np.zeros(len(column), np.bool_)
    contents = convert_column(column, converter, bad).to_pylist()
    for content, text, is_bad in zip(contents, texts[start:], bad.tolist(), strict=True):
        if text is None:
            assert (content, is_bad) == (None, False)
            continue
        try:
            expected = converter.content(text)
        except ValueProblem:
            assert is_bad
        else:
            assert (content, is_bad) == (expected, False)
