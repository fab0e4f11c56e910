"""Epochs: if a job has several instances, the newest one works and the others stop.

An instance takes the next epoch when it starts.  Before every visible action it checks that its epoch is
still the last, so that an instance notices its replacement even after a long pause.
"""

from __future__ import annotations

from dataclasses import dataclass

from publisher.errors import FatalError, ReplacedError
from publisher.ledger.job import Ledger


@dataclass(frozen=True, slots=True)
class Epoch:
    """The epoch of an instance; calling it raises ``ReplacedError`` if a newer one has started."""

    ledger: Ledger
    number: int
    identity: str

    def __call__(self) -> None:
        """Checks that this instance is the newest.

        A task on a machine without the ledger cannot check: there the fences of the sink decide.

        Raises:
            ReplacedError: A newer instance has started.
            FatalError: The ledger was removed or replaced.
        """
        root = self.ledger.root
        if not root.parent.exists():
            return
        last = self.ledger.epoch
        if last < self.number or self.ledger.identity() != self.identity:
            raise FatalError(
                f"{root} was removed or replaced while this instance works (epoch {last}, "
                f"this one has {self.number}): this instance stops; restore the directory, then start again"
            )
        if last != self.number:
            raise ReplacedError(
                f"a newer instance of the job works in {root} (epoch {last}, this one has "
                f"{self.number}): this instance stops; run one instance at a time"
            )
