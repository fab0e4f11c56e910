"""States of objects as they are compared."""

from __future__ import annotations

import pyarrow as pa
import pytest

from publisher.verify.compare import plain_numbers


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("8695.50", "8695.5"),
        ("8695.00", "8695"),
        ("-0.10", "-0.1"),
        ("1.", "1"),
        ("100", "100"),
        ("1.05", "1.05"),
        ("1.0x", "1.0x"),
        ("a.10", "a.10"),
        ("1.0.0", "1.0.0"),
    ],
)
def test_numbers_are_compared_without_zeros_at_the_end_of_fractions(text: str, plain: str) -> None:
    elements = pa.array([f'<value type="string">{text}</value>', None])
    expected = [f'<value type="string">{plain}</value>', None]
    assert plain_numbers(elements).to_pylist() == expected
