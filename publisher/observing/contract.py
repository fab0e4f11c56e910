"""What a following publisher tells those who watch it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from publisher.errors import PublisherError
from publisher.journal.report import RunReport


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll that published, and what waited before it.

    ``seconds`` is how long it took, ``oldest`` the age in seconds of the oldest row that waited.
    """

    report: RunReport
    seconds: float
    waiting: int
    oldest: float | None
    transactions: int
    retries: int


class Observer(Protocol):
    """Is told what happens, in the order in which it does."""

    def begun(self, job: str, target: str, notes: Sequence[str]) -> None:
        """The job was taken over; ``notes`` say what an earlier start had left."""

    def polled(self, poll: Poll) -> None:
        """A poll is done: sent and acknowledged."""

    def idle(self, waiting: int, oldest: float | None) -> None:
        """There was nothing to read."""

    def failed(self, error: PublisherError, again_in: float) -> None:
        """A database or the sink is away; it is tried again after so many seconds."""

    def ended(self, reason: str) -> None:
        """It was told to stop."""
