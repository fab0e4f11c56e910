"""Dispatch queues keep the promises of sources."""

from __future__ import annotations

from tests.support.samples import dispatch_queue
from tests.support.source_contract import SourceContract


class TestDispatchQueue(SourceContract):
    samples = dispatch_queue.SAMPLES
