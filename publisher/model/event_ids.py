"""Event ids: ``SOURCE@IDENTITY.EPOCH:POSITION``, with ``.ORDINAL`` for further documents of one record.

``hr@5d41402abc4b2a76.1:4711`` is record 4711 of the source ``hr``.  The identity is a digest of the job's
random identity and the name of the source, for a replay of its input.  The epoch counts the logs that
the source has read: positions of a log that was made again name other records.  Where records of
different objects share positions within a run, a digest of the object follows the epoch.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import NamedTuple

from publisher.model.change import Object

_ORIGIN = r"[0-9a-f]{16}\.[1-9][0-9]*(?:\.[0-9a-f]{16})?"
ORIGIN_PATTERN = f"@{_ORIGIN}:"
"""A regular expression for identity and epoch in an event id."""
OBJECT_CHARACTERS = 17
"""Characters by which the digest of an object makes a prefix longer."""


class IdOrigin(NamedTuple):
    """The part of the event ids of a source between its name and the position."""

    identity: str
    """Digest of the job's identity and the source's name, or of the input of a replay."""
    epoch: int = 1
    by_object: bool = False
    """True if records of different objects share positions, so that ids name the object, too."""

    @classmethod
    def of(cls, owner: str, source: str, epoch: int = 1) -> IdOrigin:
        """The origin for a source of a job with this identity, or of a replay with this digest."""
        return cls(_digest([owner, source]), epoch)

    def prefix(self, source: str) -> str:
        """The part of an event id before the position, without the digest of an object."""
        return f"{source}@{self.identity}.{self.epoch}"

    def prefix_of(self, source: str, obj: Object) -> str:
        """The part of an event id of an object before the position."""
        prefix = self.prefix(source)
        return f"{prefix}.{_digest([*obj])}" if self.by_object else prefix

    def has(self, prefix: str, source: str) -> bool:
        """Returns whether event ids of this origin have a prefix, as ``split_event_id`` returns it."""
        own = self.prefix(source)
        return prefix == own or (self.by_object and prefix.startswith(f"{own}."))

    def length(self, source: str) -> int:
        """The number of bytes of an event id before the position, the colon included."""
        objects = OBJECT_CHARACTERS if self.by_object else 0
        return len(self.prefix(source).encode()) + objects + 1


def without_origin(event_id: str) -> str:
    """Removes identity and epoch: equal records of two runs have equal results.

    >>> without_origin("hr@5d41402abc4b2a76.1:4711")
    'hr:4711'
    """
    return re.sub(ORIGIN_PATTERN, ":", event_id, count=1)


def split_event_id(text: str, source: str) -> tuple[str | None, str]:
    """Splits an event id of a source into its prefix and the position.

    The prefix is ``None`` if the text is a position, alone or after the name of the source.

    >>> split_event_id("hr@5d41402abc4b2a76.1:4711", "hr")
    ('hr@5d41402abc4b2a76.1', '4711')
    >>> split_event_id("hr:4711", "hr")
    (None, '4711')
    """
    if match := re.match(rf"{re.escape(source)}@{_ORIGIN}:", text):
        return match[0][:-1], text[match.end() :]
    return None, text.removeprefix(f"{source}:")


def _digest(content: list[str | None]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
