"""Change tables keep the promises of sources."""

from __future__ import annotations

from tests.support.samples import change_table
from tests.support.source_contract import SourceContract


class TestChangeTable(SourceContract):
    samples = change_table.SAMPLES
