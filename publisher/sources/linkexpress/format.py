"""The descriptor of Linkexpress extraction files."""

from __future__ import annotations

from publisher.sources.format import Format
from publisher.sources.linkexpress.options import LinkexpressOptions
from publisher.sources.linkexpress.retry import write_retry
from publisher.sources.linkexpress.source import Linkexpress
from publisher.sources.linkexpress.splits import ExtractSplit

LINKEXPRESS = Format(
    name="linkexpress",
    title="Linkexpress",
    position_text="FILE:OFFSET",
    options=LinkexpressOptions,
    source=Linkexpress,
    split=lambda: ExtractSplit,
    write_retry=write_retry,
)
