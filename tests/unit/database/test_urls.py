"""URLs that are completed without SQLAlchemy mean the same as with it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from publisher.database.urls import complete, complete_text
from publisher.errors import SettingsError

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
@example("postgresql://ann:a%20b@host/hr")
@example("postgresql://host/hr?sslmode=require")
@example("postgresql://host,other/hr")
@example("postgresql://[::1]/hr")
@example("postgresql:///hr")
@example("mariadb://host/hr")
def test_a_url_has_the_parts_that_sqlalchemy_reads(url: str) -> None:
    try:
        expected = complete(url, None).render_as_string(hide_password=False)
    except SettingsError:
        with pytest.raises(SettingsError):
            complete_text(url, None)
        return
    assert complete_text(url, None) == expected
