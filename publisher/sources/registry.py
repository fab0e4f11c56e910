"""The source formats by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from publisher.sources import event_log
from publisher.sources.contract import Source

SOURCES: Mapping[str, Callable[..., Source]] = {"event-log": event_log.SOURCE}
"""What makes a source, by the name of its format; called with the options of its module."""
