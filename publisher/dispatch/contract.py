"""What every dispatcher does, so that a job need not know which sink it sends to."""

from __future__ import annotations

from typing import Protocol

from publisher.journal.manifest import Journal, Manifest
from publisher.journal.report import RunReport


class Dispatcher(Protocol):
    """Sends committed journals to one sink."""

    @property
    def target(self) -> str:
        """The sink, as the user names it."""

    def check(self, run: str) -> None:
        """Whether the sink may take a run; changes nothing.

        Raises:
            UsageError: The sink holds something else.
            UnreachableError: The sink does not answer.
        """

    def prepare(self, run: str) -> None:
        """Makes the sink ready for a run, before anything is planned.

        Raises:
            UsageError: As ``check``.
            UnreachableError: The sink does not answer.
        """

    def dispatched(self, run: str) -> bool:
        """Whether the sink has the run wholly."""

    def dispatch(self, journal: Journal, manifest: Manifest, report: RunReport) -> None:
        """Sends what the sink does not have yet of a committed journal; may be called again."""
