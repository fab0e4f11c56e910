"""What a following publisher tells those who watch it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from publisher.errors import PublisherError
from publisher.journal.conservation import RunReport


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll that is done: sent and acknowledged."""

    report: RunReport
    seconds: float
    """How long it took."""
    waiting: int | None
    """Rows that waited before it; ``None`` where that is not known."""
    oldest: float | None
    """Age in seconds of the oldest of them; ``None`` where none waited or none has a time."""
    transactions: int
    """Transactions that the sink committed for it."""
    retries: int
    """How often sending had to be tried again."""


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


@dataclass(frozen=True, slots=True)
class Observers:
    """Several, told one after the other."""

    each: tuple[Observer, ...]

    def begun(self, job: str, target: str, notes: Sequence[str]) -> None:
        """See ``Observer``."""
        for observer in self.each:
            observer.begun(job, target, notes)

    def polled(self, poll: Poll) -> None:
        """See ``Observer``."""
        for observer in self.each:
            observer.polled(poll)

    def idle(self, waiting: int, oldest: float | None) -> None:
        """See ``Observer``."""
        for observer in self.each:
            observer.idle(waiting, oldest)

    def failed(self, error: PublisherError, again_in: float) -> None:
        """See ``Observer``."""
        for observer in self.each:
            observer.failed(error, again_in)

    def ended(self, reason: str) -> None:
        """See ``Observer``."""
        for observer in self.each:
            observer.ended(reason)
