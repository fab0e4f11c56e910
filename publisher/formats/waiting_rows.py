"""The contract of counters: the rows of a table that wait to be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """Rows of a table that a run starting now would read."""

    rows: int
    oldest: float | None
    """Age of the oldest row in seconds, at least 0; ``None`` if no row waits or none has a time."""


class TableBacklog(Protocol):
    """Counts the rows of a table that wait to be read, over one connection for all counts."""

    def count(self, state: Path | None) -> WaitingRows:
        """Counts the rows that wait, by the state of the last run.

        Raises:
            FatalError: The table does not fit, the state is damaged, or the database refuses.
            UnreachableError: The database does not answer.
        """

    def count_by_status(self) -> dict[str, int]:
        """Counts all rows by their status; empty for tables without a status column.

        Raises:
            FatalError: The table does not fit, or the database refuses.
            UnreachableError: The database does not answer.
        """

    def close(self) -> None:
        """Closes the connection; a later count opens a new one."""
