"""The descriptor of Linkexpress extraction files."""

from __future__ import annotations

from publisher.sources.format import Format
from publisher.sources.linkexpress.options import LinkexpressOptions
from publisher.sources.linkexpress.source import Linkexpress
from publisher.sources.linkexpress.splits import ExtractSplit

LINKEXPRESS = Format(
    name="linkexpress",
    title="Linkexpress",
    position_text="FILE:OFFSET",
    options=LinkexpressOptions,
    source=Linkexpress,
    split=ExtractSplit,
    retry_advice=(
        "fix the setting that the detail names, then replay the file to the same sink, "
        "with --from and --until around the rejected records"
    ),
)
