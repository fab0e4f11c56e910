"""The source formats by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from publisher.sources import event_log
from publisher.sources.contract import Source
from publisher.sources.snapshot_options import SnapshotOptions

SOURCES: Mapping[str, Callable[..., Source]] = {"event-log": event_log.SOURCE}
"""What makes a source, by the name of its format; called with the options of its module."""

_OPTIONS: Mapping[str, Callable[..., object]] = {"event-log": event_log.options_of}
"""What makes the options of a format from the plain values that a journal keeps."""


def reader_of(format_: str, options: object, reading: SnapshotOptions) -> Source:
    """The source of a format with its options."""
    return SOURCES[format_](options, reading)


def restored(format_: str, options: Mapping[str, Any], reading: Mapping[str, Any]) -> Source:
    """The source that a journal was read with, from the plain values kept there."""
    return reader_of(format_, _OPTIONS[format_](**options), SnapshotOptions(**reading))
