"""Transactions that are rejected as a whole because planning rejects one of their records.

A source without transactions has changes of keys: one record that gives a delete and an add.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from publisher.model.change import Change, Position, Reason

TransactionKey = tuple[str | int, ...]
"""Values of the columns that name a transaction of a source (``HasTransactions``)."""

TRANSACTION = "transaction"
"""The column of the transaction's name; a source that names its units without it has no transactions."""


class Cause(NamedTuple):
    """The first rejected record of a transaction."""

    position: Position
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class RejectedTransactions:
    """The transactions of one source that an earlier pass of the same run has found to be torn."""

    columns: tuple[str, ...]
    """Columns of ``RECORD_SCHEMA`` that together name a transaction."""
    causes: Mapping[TransactionKey, Cause] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The name of a transaction for messages."""
        return "its transaction" if TRANSACTION in self.columns else "the change of its key"

    def cause(self, change: Change) -> Cause | None:
        """Why the transaction of a change is rejected; ``None`` where it is not."""
        if change.transaction is None and TRANSACTION in self.columns:
            return None
        return self.causes.get(tuple([_value(change, column) for column in self.columns]))


def _value(change: Change, column: str) -> str | int:
    if column == "transaction":
        return change.transaction or ""
    value: str | int = getattr(change.position, column)
    return value
