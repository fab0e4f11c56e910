"""What every dispatcher does, so that a job need not know which sink it sends to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from publisher.dispatch.refusals import Refusal
from publisher.journal.conservation import RunReport
from publisher.journal.manifest import Journal, Manifest


class Dispatcher(Protocol):
    """Sends committed journals to one sink."""

    @property
    def target(self) -> str:
        """The sink, as the user names it."""

    def check(self, run: str) -> None:
        """Refuses a sink that the run may not write to.  Writes nothing.

        Raises:
            UsageError: The sink holds something else.
            UnreachableError: The sink does not answer.
        """

    def prepare(self, run: str) -> None:
        """Makes the sink ready for a run, before anything is planned.

        Raises:
            UsageError: As ``check``.
            UnreachableError: As ``check``.
        """

    def dispatched(self, manifest: Manifest) -> bool:
        """Returns whether the sink has every document that the manifest's run planned."""

    def refusals(self, journal: Journal) -> Sequence[Refusal]:
        """The documents of a journal that the sink refuses for good, as far as it was asked."""

    def forget(self) -> None:
        """Makes the sink take once more what it has wholly."""

    def discard(self) -> None:
        """Takes away what ``prepare`` made, of a run that was never planned wholly."""

    def dispatch(self, journal: Journal, manifest: Manifest, report: RunReport) -> None:
        """Sends what the sink does not have yet of a committed journal; may be called again.

        Raises:
            FatalError: A file of the journal is missing.
            UnreachableError: The sink does not answer.
        """
