"""Epochs: of several instances of a job the newest works, the others stop.

An instance takes the next epoch when it starts, and asks before everything that others see whether
its own is still the last.  One that was paused for any time learns so that it has been replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from publisher.errors import FatalError
from publisher.journal.durable import read_number, write_durably
from publisher.journal.identity import read_identity
from publisher.journal.lock import locked

_EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class Epoch:
    """The epoch of an instance; calling it raises ``FatalError`` where it is over."""

    path: Path
    number: int
    identity: str | None = None
    """Of the journal directory (``journal.identity``): one that is created again begins at 1, too."""

    def __call__(self) -> None:
        """Raises ``FatalError`` where a newer instance has begun, or the directory is another one."""
        last = _last(self.path)
        if last < self.number or self._is_elsewhere():
            raise FatalError(
                f"{self.path.parent} was removed or replaced while this instance works (epoch {last}, "
                f"this one has {self.number}): this one stops; restore the directory, then start again"
            )
        if last != self.number:
            raise FatalError(
                f"a newer instance of the job works in {self.path.parent} (epoch {last}, this one has "
                f"{self.number}): this one stops; let one instance run at a time"
            )

    def _is_elsewhere(self) -> bool:
        return self.identity is not None and read_identity(self.path.parent) != self.identity


def next_epoch(root: Path, identity: str | None = None) -> Epoch:
    """Begins an epoch in a job's directory, which is made where it is missing."""
    path = root / _EPOCH
    with locked(root, wait=True):
        epoch = Epoch(path, 1 + _last(path), identity)
        write_durably(path, f"{epoch.number}\n")
    return epoch


def last_epoch(root: Path) -> int:
    """The last epoch of a job's directory, 0 where none has begun.  Writes nothing."""
    return _last(root / _EPOCH)


def _last(path: Path) -> int:
    return read_number(path, "stop all instances of the job, remove the file, and start one again")
