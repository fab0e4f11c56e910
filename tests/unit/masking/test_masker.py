"""Methods and patterns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.masking.masker import Masker
from publisher.masking.options import MaskingOptions, MaskMethod, names_match

KEY = b"k" * 32


def masker(**options: Sequence[str]) -> Masker:
    return Masker(MaskingOptions(**options), KEY)  # type: ignore[arg-type]


@given(st.text(), st.text())
def test_hashes_are_equal_as_their_texts_are(one: str, other: str) -> None:
    hashes = [masker().hash(text) for text in (one, other)]
    assert (hashes[0] == hashes[1]) is (one == other)
    assert all(len(each) == 32 and int(each, 16) >= 0 for each in hashes)
    assert Masker(MaskingOptions(), b"l" * 32).hash(one) != hashes[0]


@pytest.mark.parametrize(("text", "shown"), [("", "…"), ("F", "…"), ("Fr", "F…"), ("Frost", "F…")])
def test_a_shortened_text_shows_at_most_half_of_it(text: str, shown: str) -> None:
    assert masker().shorten(text) == shown


@pytest.mark.parametrize(
    ("names", "pattern", "without_schema", "matches"),
    [
        (["mail", "usr.mail", "hr.usr.mail"], "mail", False, True),
        (["mail", "usr.mail", "hr.usr.mail"], "USR.Mail", False, True),
        (["mail", "usr.mail", "hr.usr.mail"], "hr.*.mail", False, True),
        (["mail", "usr.mail", "hr.usr.mail"], "it.usr.mail", False, False),
        (["mail", "usr.mail"], "it.usr.mail", True, True),
        (["mail", "usr.mail"], "it.usr.mail", False, False),
        (["mail", "usr.mail"], "grp.mail", True, False),
        (["mail", "usr.mail"], "*", False, True),
    ],
)
def test_patterns(names: list[str], pattern: str, without_schema: bool, matches: bool) -> None:
    assert names_match(names, [pattern], without_schema=without_schema) is matches


def test_the_strongest_method_counts() -> None:
    def method(**options: Sequence[str]) -> MaskMethod | None:
        return masker(**options).method(["mail"], without_schema=False)

    assert method(hash=["*"], redact=["mail"], shorten=["mail"]) is MaskMethod.REDACT
    assert method(hash=["*"], shorten=["mail"]) is MaskMethod.HASH
    assert method(hash=["phone"], shorten=["mail"]) is MaskMethod.SHORTEN
    assert method(hash=["phone"]) is None
