"""The descriptor of Linkexpress extraction files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from publisher.errors import UsageError
from publisher.sources.format import Format
from publisher.sources.linkexpress.options import LinkexpressOptions
from publisher.sources.linkexpress.source import Linkexpress
from publisher.sources.linkexpress.splits import ExtractSplit
from publisher.sources.retry import CorrectedRecord, RetryFiles, write_octets


def _write_retry(
    options: LinkexpressOptions, records: Sequence[CorrectedRecord], folder: Path
) -> RetryFiles:
    """Joins the bytes of records; differences of a group belong to transactions, whose ends are missing."""
    if options.unit == "group":
        raise UsageError(
            f"{records[0].where}: a record of a group belongs to a transaction, which is rejected as a "
            "whole: fix the setting that the detail names, then replay the file to the same sink, with "
            "--from and --until around the transaction"
        )
    return write_octets(records, folder)


LINKEXPRESS = Format(
    name="linkexpress",
    title="Linkexpress",
    position_text="FILE:OFFSET",
    options=LinkexpressOptions,
    source=Linkexpress,
    split=ExtractSplit,
    write_retry=_write_retry,
)
