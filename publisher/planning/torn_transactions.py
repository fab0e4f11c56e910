"""Transactions that are rejected as a whole because planning rejects one of their records.

In sources without transactions the change of a key is the unit: one record that becomes a delete and
an add.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from publisher.model.change import Change, Position, Reason

TransactionKey = tuple[str | int, ...]
"""Values of the columns that identify a transaction of a source (``HasTransactions``)."""

TRANSACTION = "transaction"
"""Column of the transaction's name; sources without transactions do not use it."""


class Cause(NamedTuple):
    """The first rejected record of a transaction."""

    position: Position
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class RejectedTransactions:
    """The transactions of one source in which an earlier pass of the run found a rejected record."""

    columns: tuple[str, ...]
    """Columns of ``RECORD_SCHEMA`` that together identify a transaction."""
    causes: Mapping[TransactionKey, Cause] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The name of a transaction for messages."""
        return "its transaction" if TRANSACTION in self.columns else "the change of its key"

    def cause(self, change: Change) -> Cause | None:
        """The cause that rejects the transaction of a change; ``None`` if it is not rejected."""
        if change.transaction is None and TRANSACTION in self.columns:
            return None
        return self.causes.get(tuple([_value(change, column) for column in self.columns]))


def _value(change: Change, column: str) -> str | int:
    if column == TRANSACTION:
        return change.transaction or ""
    value: str | int = getattr(change.position, column)
    return value
