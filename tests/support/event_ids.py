"""Event ids of tests: an origin for plans without a job, and ids without the identity of a job or input."""

from __future__ import annotations

import re

from publisher.model.event_ids import IdOrigin

ORIGIN = IdOrigin("0" * 16)
_ORIGIN = re.compile(r"@([0-9a-f]{16})\.([1-9][0-9]*)(?:\.[0-9a-f]{16})?:")


def plain_ids(text: str) -> str:
    """Removes identity and epoch from all event ids in a text: ``hr@…:4711`` becomes ``hr:4711``."""
    return _ORIGIN.sub(":", text)


def epochs_in(text: str) -> list[int]:
    """The epochs of all event ids in a text, in their order."""
    return [int(match[2]) for match in _ORIGIN.finditer(text)]
