"""The search by bytes finds the same texts as the regular expressions of single texts."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from publisher.planning.columnar.characters import is_forbidden, is_verbatim
from publisher.xds.escape import FORBIDDEN, needs_attention

_CHARACTERS = st.sampled_from(
    "ab \t\n\r\x00\x1f&<>\x7f\u00e9\uf8ff\ufeff\ufffd\ufffe\uffff\U0001f600"
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
