"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "publisher").rglob("*.py"))
    if "dataframes" not in path.parts and ">>> " in path.read_text("utf-8")
]
"""Those of ``publisher.dataframes`` need Spark; ``tests/spark`` runs them."""


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted
    assert not found.failed


def test_there_are_examples() -> None:
    assert "publisher.model.arrays" in MODULES
