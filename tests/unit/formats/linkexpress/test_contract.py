"""Linkexpress extracts keep the promises of sources."""

from __future__ import annotations

from tests.support.samples import linkexpress
from tests.support.source_contract import SourceContract


class TestLinkexpress(SourceContract):
    samples = linkexpress.SAMPLES
