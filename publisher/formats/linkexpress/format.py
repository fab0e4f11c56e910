"""The descriptor of Linkexpress extraction files."""

from __future__ import annotations

from publisher.formats.format import Format
from publisher.formats.linkexpress.options import LinkexpressOptions
from publisher.formats.linkexpress.retry import write_retry
from publisher.formats.linkexpress.source import Linkexpress
from publisher.formats.linkexpress.splits import ExtractSplit

LINKEXPRESS = Format(
    name="linkexpress",
    title="Linkexpress",
    position_text="FILE:OFFSET",
    options=LinkexpressOptions,
    source=Linkexpress,
    split=lambda: ExtractSplit,
    write_retry=write_retry,
)
