"""The offsets that each committed transaction of a lane has in the topics.

Several lanes write to one partition at the same time, so a range may also hold records of other lanes: the
header ``event-id`` tells which record is the document.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentRange:
    """The first and the last offset of a transaction in one partition; equal offsets are exact."""

    topic: str
    partition: int
    first: int
    last: int

    @property
    def text(self) -> str:
        """The range in the notation of users: ``topic:partition:first``, with the last if it differs."""
        last = "" if self.last == self.first else f" to {self.last}"
        return f"{self.topic}:{self.partition}:{self.first}{last}"

    def has(self, topic: str, partition: int, offset: int) -> bool:
        """Returns whether a place lies within the range."""
        is_partition = (self.topic, self.partition) == (topic, partition)
        return is_partition and self.first <= offset <= self.last


@dataclass(frozen=True, slots=True)
class SentTransaction:
    """A committed transaction: the documents ``first`` to ``end`` (exclusive) of a lane.

    Without ``ranges`` the offsets are unknown, because the topic got partitions meanwhile."""

    lane: int | str
    first: int
    end: int
    ranges: tuple[SentRange, ...]


def ranges_of(
    transactions: Iterable[SentTransaction], lane: int | str, document: int
) -> tuple[SentRange, ...]:
    """The ranges in which a document is; empty if its offsets are unknown.

    The last transaction with the document counts: a run may have been sent again."""
    found: tuple[SentRange, ...] = ()
    for transaction in transactions:
        if transaction.lane == lane and transaction.first <= document < transaction.end:
            found = transaction.ranges
    return found
