"""Precedence among the logged events of one object in one poll (event log page, "event types").

The rules in their order:

1. A delete (4) and a change of the key are barriers: the rules below work inside the segments between
   them.
2. A row query-back (5, 6) supersedes the other row query-backs of its segment, and the per-field
   events whose columns it publishes: all attributes of the class, but not the key.  Among the
   remaining events, a field query-back (7, 8) supersedes 1, 2, 3, 7 and 8 of the same column.  Type 5
   takes precedence over 6, and 7 over 8; of several events of one type the first remains.
3. Query-backs in a segment that a delete ends are ignored: the row they refer to is gone.

Precedence depends on the log alone: superseded events stay superseded, whatever a look-up returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from publisher.model.change import (
    INSERTS,
    QUERY_BACK,
    ROW_QUERY_BACK,
    Change,
    Decision,
    EventType,
    Outcome,
    Reason,
)
from publisher.model.key_changes import KeyHistory


class PrecedenceResult(NamedTuple):
    """The remaining changes in position order, and a decision for each of the others."""

    remaining: list[Change]
    decisions: list[Decision]


class ChangesAfterDelete(NamedTuple):
    """The remaining changes, a decision for each of the others, and the delete after which none has a row."""

    remaining: list[Change]
    decisions: list[Decision]
    deleted: Change | None


BARRIERS = frozenset({EventType.DELETE_ROW, EventType.KEY_CHANGE})

InRow = Callable[[Change], bool]
"""Returns whether a query-back of the row publishes the columns of a per-field event."""


def apply_precedence(changes: Sequence[Change], in_row: InRow) -> PrecedenceResult:
    """Applies precedence to the changes of one object in one poll, given in position order."""
    if len(changes) < 2 or QUERY_BACK.isdisjoint([change.event_type for change in changes]):
        return PrecedenceResult(list(changes), [])
    result = PrecedenceResult([], [])
    segment: list[Change] = []
    for change in changes:
        if change.event_type in BARRIERS:
            is_delete = change.event_type == EventType.DELETE_ROW
            _settle_segment(segment, in_row, result, ended_by=change if is_delete else None)
            result.remaining.append(change)
            segment = []
        else:
            segment.append(change)
    _settle_segment(segment, in_row, result, ended_by=None)
    return result


def ignore_after_delete(
    changes: Sequence[Change],
    is_of_child: Callable[[Change], bool],
    history: KeyHistory,
    deleted: Change | None = None,
) -> ChangesAfterDelete:
    """Ignores updates of child tables after the delete of their object, until its key has an object again.

    The database logs them when it deletes the rows of child tables with their parent's row, or changes their
    links.  ``deleted`` is the delete or change of the key in an earlier poll."""
    remaining: list[Change] = []
    decisions: list[Decision] = []
    for change in changes:
        if change.event_type in BARRIERS:
            deleted = change
        elif change.event_type in INSERTS or (
            deleted is not None and history.changes_owner(change.object, deleted, change)
        ):
            deleted = None
        if deleted is not None and change is not deleted and is_of_child(change):
            decisions.append(
                Decision(change.row, Outcome.IGNORED, Reason.CHILD_AFTER_DELETE, by=deleted.row)
            )
        else:
            remaining.append(change)
    return ChangesAfterDelete(remaining, decisions, deleted)


def _settle_segment(
    segment: list[Change], in_row: InRow, result: PrecedenceResult, ended_by: Change | None
) -> None:
    row = _row_winner(segment)
    fields = [change for change in segment if row is None or not _is_of_row(change, in_row)]
    by_column = _field_winners(fields)
    winner: Change | None
    for change in segment:
        if row is not None and _is_of_row(change, in_row):
            winner, reason = row, Reason.ROW_QUERY_BACK
        else:
            winner, reason = _field_winner(change, by_column), Reason.FIELD_QUERY_BACK
        if winner is not None and change is not winner:
            decision = Decision(change.row, Outcome.SUPERSEDED, reason, by=winner.row)
        elif winner is not None and ended_by is not None:
            decision = Decision(
                change.row, Outcome.IGNORED, Reason.ENDED_BY_DELETE, by=ended_by.row
            )
        else:
            result.remaining.append(_limit_columns(change, by_column))
            continue
        result.decisions.append(decision)


def _is_of_row(change: Change, in_row: InRow) -> bool:
    return change.event_type in ROW_QUERY_BACK or in_row(change)


def _row_winner(segment: list[Change]) -> Change | None:
    rows = [change for change in segment if change.event_type in ROW_QUERY_BACK]
    # the smallest type takes precedence; min returns the first of several equal types
    return min(rows, key=_event_type, default=None)


def _field_winners(fields: list[Change]) -> dict[str, Change]:
    """The field query-back that takes precedence in each column."""
    winners: dict[str, Change] = {}
    for change in fields:
        if change.event_type in QUERY_BACK:
            for column in change.columns:
                winners[column] = min(winners.get(column, change), change, key=_event_type)
    return winners


def _field_winner(change: Change, winners: Mapping[str, Change]) -> Change | None:
    """The query-back that takes precedence over a per-field event: itself if it does so in any column."""
    if len(change.columns) == 1:
        return winners.get(change.columns[0])
    of_columns = [winners.get(name) for name in change.columns]
    is_own = any(winner is change for winner in of_columns)
    return change if is_own else None if None in of_columns else of_columns[0]


def _limit_columns(change: Change, winners: Mapping[str, Change]) -> Change:
    """Removes the columns of a query-back in which another one takes precedence."""
    if len(change.columns) < 2 or change.event_type not in QUERY_BACK:
        return change
    return change._replace(columns=tuple(c for c in change.columns if winners[c] is change))


def _event_type(change: Change) -> int:
    return change.event_type
