"""Converters of masked columns."""

from __future__ import annotations

import pytest

from publisher.masking.masker import Masker
from publisher.masking.options import MaskingOptions
from publisher.model.catalogue import ColumnKind
from publisher.planning.masked_columns import masked_converter
from publisher.xds.values import ValueOptions, Values

MASKER = Masker(MaskingOptions(), b"k" * 32)


@pytest.mark.parametrize(
    ("kind", "texts", "canonical"),
    [
        (ColumnKind.DECIMAL, ["1.50", "1.5", "+1.500", " 15e-1", "1.5 "], "1.5"),
        (ColumnKind.DECIMAL, ["a<b"], "a<b"),
        (ColumnKind.INT, ["007", "7", "+7"], "7"),
        (ColumnKind.STRING, ["1.50"], "1.50"),
        (None, ["1.50"], "1.50"),
    ],
)
def test_equal_values_have_one_mask(
    kind: ColumnKind | None, texts: list[str], canonical: str
) -> None:
    values = Values(ValueOptions())
    for mask in (MASKER.hash, MASKER.shorten):
        converter = masked_converter(values.converter(kind), mask, kind)
        assert {converter.content(text) for text in texts} == {mask(canonical).replace("<", "&lt;")}
