"""The interface of dispatchers, which hides the kind of sink from runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from publisher.dispatch.refusals import Refusal
from publisher.ledger.conservation import RunReport
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun


class Dispatcher(Protocol):
    """Sends committed ledger to one sink."""

    @property
    def target(self) -> str:
        """The name of the sink for users."""

    def check(self, run: str) -> None:
        """Refuses a sink that the run must not write to.  Writes nothing.

        Raises:
            UsageError: The sink holds other content.
            UnreachableError: The sink does not answer.
        """

    def prepare(self, run: str) -> None:
        """Prepares the sink for a run before planning.

        Raises:
            UsageError: As ``check``.
            UnreachableError: As ``check``.
        """

    def document_limit(self) -> int | None:
        """Bytes of text of the largest document that the sink surely accepts; ``None`` if it accepts all, or
        the limit is unknown.

        Raises:
            FatalError: The user may not read the settings of a topic.
            UnreachableError: The sink does not answer.
        """

    def has_run(self, manifest: Manifest) -> bool:
        """Returns whether the sink has every document that the manifest's run planned."""

    def refuse_conflicts(self, manifest: Manifest) -> None:
        """Refuses progress in the sink that does not fit the manifest's run, as ``dispatch`` does.  Writes
        nothing.

        Raises:
            FatalError: The sink has progress of another ledger or plan, or of a newer run.
        """

    def refusals(self, ledger_run: LedgerRun) -> Sequence[Refusal]:
        """The documents of a ledger that the sink is known to refuse permanently."""

    def forget(self) -> None:
        """Removes the progress of the sink, so that a complete run is sent again."""

    def discard(self) -> None:
        """Removes the results of ``prepare`` for a run that was never planned completely."""

    def dispatch(
        self, ledger_run: LedgerRun, manifest: Manifest, report: RunReport
    ) -> Sequence[Refusal]:
        """Sends the documents of a committed ledger that the sink does not have; may be repeated.

        Returns the documents that the sink refuses, see ``refusals``.

        Raises:
            FatalError: A file of the ledger is missing.
            UnreachableError: The sink does not answer.
        """
