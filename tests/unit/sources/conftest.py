"""Fixtures of the tests of sources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from publisher.masking.masker import Masking
from publisher.masking.options import MaskingOptions
from publisher.masking.sealed_files import release_contents, use_masking
from publisher.redaction import show_values


@pytest.fixture(params=["open", "sealed"])
def state_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The files in which a source keeps records for its next run: as they are, and sealed."""
    monkeypatch.setenv("MASK_KEY", "k" * 32)
    if request.param == "sealed":
        masking = Masking.of(MaskingOptions(key_env="MASK_KEY"))
        assert masking.masker is not None  # has read the key
        use_masking(masking)
        show_values()
    yield
    release_contents()
    use_masking(None)
