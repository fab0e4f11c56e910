"""Event logs keep the promises of sources."""

from __future__ import annotations

from tests.support.samples import event_log
from tests.support.source_contract import SourceContract


class TestEventLog(SourceContract):
    samples = event_log.SAMPLES
