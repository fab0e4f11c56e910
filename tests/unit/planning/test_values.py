"""Values of a column are searched and converted as single values are."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from publisher.model.catalogue import ColumnKind
from publisher.planning.characters import is_forbidden, is_verbatim
from publisher.planning.values import convert_column
from publisher.xds.escape import FORBIDDEN, ValueProblem, needs_attention
from publisher.xds.values import ValueOptions, Values

_CHARACTERS = st.sampled_from(
    "ab \t\n\r\x00\x01\x1f&<>\x7f\u00e9\u4f1f\uff0c\uf8ff\ufeff\ufffd\ufffe\uffff\U0001f600"
)
_TEXTS = st.lists(st.none() | st.text(_CHARACTERS, max_size=12), max_size=20)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@given(_TEXTS, st.integers(0, 5))
@example(["", "", "&", "", None, "\uffff", ""], 1)
@example(["plain " * 20, "\ufeff", "\t", "<"], 0)
def test_columns_are_searched_like_single_texts(
    kind: pa.DataType, texts: list[str | None], start: int
) -> None:
    column = pa.array(texts, kind).slice(start)
    texts = texts[start:]
    verbatim = [text is not None and needs_attention(text) is None for text in texts]
    assert is_verbatim(column).tolist() == verbatim
    forbidden = [text is not None and re.search(FORBIDDEN, text) is not None for text in texts]
    assert is_forbidden(column).tolist() == forbidden


def test_values_below_nulls_are_not_searched() -> None:
    texts = pa.array(["a", "<", "b"])
    validity = pa.py_buffer(bytes([0b101]))
    column = pa.StringArray.from_buffers(3, *texts.buffers()[1:], validity)
    assert column.to_pylist() == ["a", None, "b"]
    assert is_verbatim(column).tolist() == [True, False, True]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("forbidden", ["reject", "replace"])
@given(texts=_TEXTS, start=st.integers(0, 2))
def test_texts_are_converted_together_as_one_by_one(
    padded: bool, forbidden: str, texts: list[str | None], start: int
) -> None:
    options = ValueOptions(forbidden=forbidden)  # type: ignore[arg-type]
    converter = Values(options).converter(ColumnKind.STRING, padded)
    contents, problems = convert_column(pa.array(texts, pa.string()).slice(start), converter)
    expected: list[str | None] = []
    refused: dict[int, str] = {}
    for row, text in enumerate(texts[start:]):
        try:
            expected.append(None if text is None else converter.content(text))
        except ValueProblem as problem:
            expected.append(None)
            refused[row] = problem.detail
    assert {row: problem.detail for row, problem in problems.items()} == refused
    for row, (content, wanted) in enumerate(zip(contents.to_pylist(), expected, strict=True)):
        assert content == wanted or row in refused
