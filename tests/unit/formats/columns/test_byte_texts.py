"""Texts of many areas at once are those of each by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats.columns.byte_texts import decode_areas, decode_each

CODECS = ("euc_jp", "cp932", "utf-8", "cp1251", "cp866", "utf-16-be", "iso2022_jp", "ascii")
WIDTH = 8
TEXTS = st.text("aZ 9日本花子Жяё", max_size=4)
OCTETS = st.binary(max_size=WIDTH) | st.sampled_from([b"a\nb", b"\x81", b"\x8f\n", b"\xed\xa0\x80"])


@pytest.mark.parametrize("codec", CODECS)
@given(values=st.lists(TEXTS | OCTETS, min_size=1, max_size=12))
def test_areas_at_once_give_what_each_gives(codec: str, values: list[str | bytes]) -> None:
    coded = [v.encode(codec, "ignore") if isinstance(v, str) else v for v in values]
    coded = [value[:WIDTH] for value in coded]
    padded = b"".join(value.ljust(WIDTH) for value in coded)
    areas = np.frombuffer(padded, np.uint8).reshape(len(values), WIDTH)
    sizes = np.array([len(value) for value in coded], np.int64)
    for found, each in (
        (decode_areas(areas, codec), (value.ljust(WIDTH) for value in coded)),
        (decode_areas(areas, codec, sizes), iter(coded)),
    ):
        expected = decode_each(each, codec)
        assert found.texts.to_pylist() == expected.texts.to_pylist()
        assert found.wrong.tolist() == expected.wrong.tolist()
