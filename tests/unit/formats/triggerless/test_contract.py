"""Compared tables keep the promises of sources."""

from __future__ import annotations

from tests.support.samples import triggerless
from tests.support.source_contract import SourceContract


class TestTriggerless(SourceContract):
    samples = triggerless.SAMPLES
