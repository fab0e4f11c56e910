"""The source formats by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Protocol

from publisher.model.keys import IdentifierCase
from publisher.sources import dispatch_queue, linkexpress
from publisher.sources.change_table import options as change_table_options
from publisher.sources.change_table import source as change_table
from publisher.sources.contract import Source
from publisher.sources.event_log import source
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.triggerless import options as triggerless_options
from publisher.sources.triggerless import source as triggerless

SourceFormat = Literal["event-log", "change-table", "linkexpress", "dispatch-queue", "triggerless"]


class SourceFormatOptions(Protocol):
    """What the options of every format have; they are dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def identifier_case(self) -> IdentifierCase:
        """Case of table, schema and column names in keys and documents."""


SOURCES: Mapping[str, Callable[..., Source]] = {
    "event-log": source.SOURCE,
    "change-table": change_table.SOURCE,
    "linkexpress": linkexpress.SOURCE,
    "dispatch-queue": dispatch_queue.SOURCE,
    "triggerless": triggerless.SOURCE,
}
"""What makes a source, by the name of its format; called with the options of its module."""

OPTIONS: Mapping[SourceFormat, type] = {
    "event-log": source.Options,
    "change-table": change_table_options.ChangeTableOptions,
    "linkexpress": linkexpress.LinkexpressOptions,
    "dispatch-queue": dispatch_queue.Options,
    "triggerless": triggerless_options.Options,
}
"""The options of a format, a frozen dataclass."""

_OPTIONS: Mapping[str, Callable[..., object]] = {
    "event-log": source.options_of,
    "change-table": change_table_options.options_of,
    "linkexpress": linkexpress.options_of,
    "dispatch-queue": dispatch_queue.options_of,
    "triggerless": triggerless_options.options_of,
}
"""What makes the options of a format from the plain values that a journal keeps."""

READ_AS_SNAPSHOTS = frozenset({"event-log", "change-table", "dispatch-queue", "triggerless"})
"""Formats whose files are CSV, JSON lines or Parquet, read as ``SnapshotOptions`` say."""

POSITIONS: Mapping[str, str] = {
    "event-log": "a record_id or FILE:NUMBER",
    "change-table": "35 digits or FILE:NUMBER",
    "linkexpress": "FILE:OFFSET",
    "dispatch-queue": "DATABASE:FILE.ADDRESS",
    "triggerless": "TABLE:COMPARISON:NUMBER",
}
"""How users write positions of a format, as its ``parse_position`` says."""

NAME_USERS = frozenset({"event-log"})
"""Formats whose records say which database user made a change."""

IN_POLLS = frozenset({"event-log"})
"""Formats whose changes mean something together; those of the others are operations by themselves."""

KNOW_REPETITIONS = frozenset({"dispatch-queue"})
"""Formats that recognize records which an earlier file of the job had: an equal file repeats nothing."""

IN_COMMITS = frozenset({"dispatch-queue"})
"""Formats whose changes come in the order of commits, not in that of the file."""

COMPARED = frozenset({"triggerless"})
"""Formats of tables that are compared with what was known of them: the whole of them each time."""


def reader_of(format_: str, options: object, reading: SnapshotOptions) -> Source:
    """The source of a format with its options."""
    return SOURCES[format_](options, reading)


def restored(format_: str, options: Mapping[str, Any], reading: Mapping[str, Any]) -> Source:
    """The source that a journal was read with, from the plain values kept there."""
    return reader_of(format_, _OPTIONS[format_](**options), SnapshotOptions(**reading))
