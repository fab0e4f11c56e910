"""Joins the records of an event log that report one change of a compound key, a record for each column.

After a change of its key an object has no events under the old key, until an object is inserted or gets this
key.  So the next change of another column of the same old key belongs to the same update.  Only neighbouring
records of the object are joined; others are rejected, because a part of a key must not be published alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from publisher.model.change import INSERTS, Change, EventType
from publisher.model.key_changes import KeyHistory, join_columns

_ENDS = INSERTS | {EventType.DELETE_ROW}
"""Event types that show that the old key belongs to another object."""


@dataclass(slots=True)
class JoinedChanges:
    """The changes of an object, with the whole change of its key in each of the records that report it."""

    changes: list[Change] = field(default_factory=list)
    divided: dict[int, tuple[Change, Change]] = field(default_factory=dict)
    """Records of changes that cannot be joined by row, each with the two records that are no neighbours."""
    first_rows: dict[int, int] = field(default_factory=dict)
    """The row of the first record of its change for each record of a joined one."""
    last: list[Change] = field(default_factory=list)
    """The records of the last change of the key, if the old key belongs to no other object since."""


def join_key_changes(
    changes: Sequence[Change], history: KeyHistory, last: Sequence[Change] = ()
) -> JoinedChanges:
    """Joins the changes of one object in one poll; ``last`` is ``JoinedChanges.last`` of an earlier poll."""
    joined = JoinedChanges(last=list(last))
    runs: list[list[Change]] = []
    is_neighbour = False
    for change in changes:
        if change.event_type != EventType.KEY_CHANGE:
            is_neighbour = False
            if change.event_type in _ENDS:
                joined.last = []
            continue
        run = joined.last
        if not _continues(run, change, history):
            joined.last = [change]
            runs.append(joined.last)
        elif is_neighbour:
            run.append(change)
        else:
            places = run[-1], change
            joined.divided |= {part.row: places for part in (*run, change)}
            run.append(change)
        is_neighbour = True
    whole = {
        part.row: (run[0].row, join_columns(run)) for run in runs if len(run) > 1 for part in run
    }
    joined.first_rows = {row: first for row, (first, _) in whole.items()}
    joined.changes = [_replace_columns(change, whole) for change in changes]
    return joined


def _continues(run: Sequence[Change], change: Change, history: KeyHistory) -> bool:
    """Returns whether a change must belong to the same update as the last records of its key."""
    if not run or history.changes_owner(change.object, run[-1], change):
        return False
    return all(not set(part.columns) & set(change.columns) for part in run)


def _replace_columns(change: Change, whole: dict[int, tuple[int, Change]]) -> Change:
    if change.row not in whole:
        return change
    _, joined = whole[change.row]
    return change._replace(columns=joined.columns, old=joined.old, new=joined.new)
