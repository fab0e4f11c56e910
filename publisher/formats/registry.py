"""The source formats by name."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publisher.formats.format import Format

_DESCRIPTORS = {
    "event-log": "publisher.formats.event_log.format.EVENT_LOG",
    "change-table": "publisher.formats.change_table.format.CHANGE_TABLE",
    "linkexpress": "publisher.formats.linkexpress.format.LINKEXPRESS",
    "dispatch-queue": "publisher.formats.dispatch_queue.format.DISPATCH_QUEUE",
    "triggerless": "publisher.formats.triggerless.format.TRIGGERLESS",
}


class FormatRegistry(MutableMapping[str, "Format"]):
    """Formats by name.  The package of a format is imported when its format is first used, so that a
    program that reads one format starts without the others."""

    def __init__(self, descriptors: dict[str, str]) -> None:
        """``descriptors``: by the name of each format, the module and the name of its descriptor."""
        self._formats: dict[str, Format | str] = {**descriptors}

    def __getitem__(self, name: str) -> Format:
        place = self._formats[name]
        if isinstance(place, str):
            module, _, constant = place.rpartition(".")
            place = self._formats[name] = getattr(import_module(module), constant)
        return place

    def __setitem__(self, name: str, format_: Format) -> None:
        self._formats[name] = format_

    def __delitem__(self, name: str) -> None:
        del self._formats[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._formats)

    def __len__(self) -> int:
        return len(self._formats)


FORMATS = FormatRegistry(_DESCRIPTORS)
