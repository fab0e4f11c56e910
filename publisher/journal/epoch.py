"""Epochs: if a job has several instances, the newest one works and the others stop.

An instance takes the next epoch when it starts.  Before every visible action it checks that its epoch is
still the last, so that an instance notices its replacement even after a long pause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from publisher.errors import FatalError, ReplacedError
from publisher.journal.durable import read_number, write_durably
from publisher.journal.identity import read_identity
from publisher.journal.lock import lock_directory

_EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class Epoch:
    """The epoch of an instance; calling it raises ``ReplacedError`` if a newer one has started."""

    path: Path
    number: int
    identity: str | None = None
    """Identity of the journal directory: epochs of a re-created directory start at 1 again."""

    def __call__(self) -> None:
        """Checks that this instance is the newest.

        Raises:
            ReplacedError: A newer instance has started.
            FatalError: The directory was removed or replaced.
        """
        last = _last(self.path)
        if last < self.number or self._is_elsewhere():
            raise FatalError(
                f"{self.path.parent} was removed or replaced while this instance works (epoch {last}, "
                f"this one has {self.number}): this instance stops; restore the directory, then start again"
            )
        if last != self.number:
            raise ReplacedError(
                f"a newer instance of the job works in {self.path.parent} (epoch {last}, this one has "
                f"{self.number}): this instance stops; run one instance at a time"
            )

    def _is_elsewhere(self) -> bool:
        return self.identity is not None and read_identity(self.path.parent) != self.identity


def begin_epoch(
    root: Path, identity: str | None = None, check: Callable[[], None] | None = None
) -> Epoch:
    """Begins the next epoch in a job's directory; creates the directory if necessary.

    ``check`` raises to leave the epoch as it is; no other instance begins meanwhile.
    """
    path = root / _EPOCH
    with lock_directory(root, wait=True):
        if check is not None:
            check()
        epoch = Epoch(path, 1 + _last(path), identity)
        write_durably(path, f"{epoch.number}\n")
    return epoch


def last_epoch(root: Path) -> int:
    """Reads the last epoch of a job's directory, 0 before the first.  Writes nothing."""
    return _last(root / _EPOCH)


def _last(path: Path) -> int:
    return read_number(path, "stop all instances of the job, remove the file, and start one again")
