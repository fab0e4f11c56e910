"""The events that a following publisher reports to observers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from publisher.errors import PublisherError
from publisher.ledger.conservation import RunReport


@dataclass(frozen=True, slots=True)
class Poll:
    """A finished poll: its documents are sent and its rows acknowledged."""

    report: RunReport
    seconds: float
    """Duration of the poll."""
    waiting: int | None
    """Number of rows that waited before the poll; ``None`` if unknown."""
    oldest: float | None
    """Age in seconds of the oldest waiting row; ``None`` if no row waited or none has a time."""
    transactions: int
    """Number of transactions that the sink committed."""
    retries: int
    """Number of times that sending was retried."""


class Observer(Protocol):
    """Receives the events of a publisher in their order."""

    def on_start(self, job: str, target: str, notes: Sequence[str]) -> None:
        """The instance has taken over the job; ``notes`` describe work that an earlier start left."""

    def on_poll(self, poll: Poll) -> None:
        """A poll is finished: its documents are sent and its rows acknowledged."""

    def on_idle(self, waiting: int, oldest: float | None) -> None:
        """The publisher found nothing to read."""

    def on_failure(self, error: PublisherError, again_in: float | None) -> None:
        """The publisher retries in ``again_in`` seconds, because a database or the sink does not answer.

        ``None``: a repair has failed, and the publisher goes on without it.
        """

    def on_stop(self, reason: str) -> None:
        """The publisher stops."""


@dataclass(frozen=True, slots=True)
class Observers:
    """Passes each event on to several observers, one after the other."""

    observers: tuple[Observer, ...]

    def on_start(self, job: str, target: str, notes: Sequence[str]) -> None:
        """See ``Observer``."""
        for observer in self.observers:
            observer.on_start(job, target, notes)

    def on_poll(self, poll: Poll) -> None:
        """See ``Observer``."""
        for observer in self.observers:
            observer.on_poll(poll)

    def on_idle(self, waiting: int, oldest: float | None) -> None:
        """See ``Observer``."""
        for observer in self.observers:
            observer.on_idle(waiting, oldest)

    def on_failure(self, error: PublisherError, again_in: float | None) -> None:
        """See ``Observer``."""
        for observer in self.observers:
            observer.on_failure(error, again_in)

    def on_stop(self, reason: str) -> None:
        """See ``Observer``."""
        for observer in self.observers:
            observer.on_stop(reason)
