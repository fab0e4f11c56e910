"""The generated reference pages agree with the code, and every setting has a description."""

from __future__ import annotations

import re

import pytest

from docs.generate import DIRECTORY, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    page = (DIRECTORY / name).read_text("utf-8")
    assert page == PAGES[name](), f"{name} is stale; run ./run docs"


@pytest.mark.parametrize("name", PAGES)
def test_every_setting_and_option_has_a_description(name: str) -> None:
    undescribed = re.findall(r"^(.+)\n:\s*$", PAGES[name](), re.MULTILINE)
    assert not undescribed
