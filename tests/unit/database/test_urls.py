"""URLs that are completed without SQLAlchemy mean the same as with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.database.urls import address_of, complete, complete_text

WORDS = st.from_regex(r"[\w.-]{1,6}", fullmatch=True)
PARTS = st.from_regex(r"[\w.:/@%+?=\[\]-]{1,6}", fullmatch=True)


@st.composite
def urls(draw: st.DrawFn) -> str:
    part = draw(st.sampled_from([WORDS, PARTS]))
    login = draw(st.sampled_from(["", "{0}@", "{0}:{1}@"])).format(draw(part), draw(part))
    port = draw(st.sampled_from(["", ":5432", ":0", ":05"]))
    kind = draw(st.sampled_from(["postgres", "postgresql", "postgresql+psycopg"]))
    return f"{kind}://{login}{draw(part)}{port}/{draw(part)}"


@given(urls())
def test_a_plain_url_has_the_parts_that_sqlalchemy_reads(url: str) -> None:
    if address_of(url) is None:
        return
    expected = complete(url, None).render_as_string(hide_password=False)
    assert complete_text(url, None) == expected
    assert address_of(expected) == expected.replace("+psycopg", "")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:a%20b@host/hr",
        "postgresql://host/hr?sslmode=require",
        "postgresql://host,other/hr",
        "postgresql://[::1]/hr",
        "postgresql:///hr",
        "postgresql+psycopg2://host/hr",
        "postgresql://host/hr\n",
        "mariadb://host/hr",
        "",
    ],
)
def test_other_urls_are_not_plain(url: str) -> None:
    assert address_of(url) is None


def test_a_plain_url_has_an_address() -> None:
    assert address_of("postgres://ann:secret@db.example:5433/hr") == (
        "postgresql://ann:secret@db.example:5433/hr"
    )
