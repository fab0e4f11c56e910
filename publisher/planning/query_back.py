"""Reading current rows for query-back events: what is asked and what is answered.

The database side stands behind ``Lookup``; ``publisher.database.lookup`` has the real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from publisher.model.change import Object, Reason


class Row(NamedTuple):
    """The current row of an object.

    ``columns`` are all columns of the table in its order, named as the database names them, the key
    included; ``values`` are in the text form of the event log (event log columns, old_value and
    new_value), ``None`` for NULL.
    """

    columns: tuple[str, ...]
    values: tuple[str | None, ...]


class Refused(NamedTuple):
    """The row could not be read for a reason that lies in this object.

    ``detail`` says what is wrong and ends with what to do.
    """

    reason: Reason
    detail: str


Answer: TypeAlias = Row | Refused | None
"""``None``: there is no such row (any more)."""


class LookedUp(NamedTuple):
    """An object that was looked up for one of its polls, and the answer."""

    object: Object
    poll: int
    answer: Answer


class Lookup(Protocol):
    """Answers what the rows of objects hold now."""

    def answers(self, objects: Sequence[Object]) -> dict[Object, Answer]:
        """An answer for each of the objects."""


class NoDatabase:
    """The lookup of a run without a database: refuses every object."""

    def answers(self, objects: Sequence[Object]) -> dict[Object, Answer]:
        """``Refused`` for each of the objects."""
        refused = Refused(
            Reason.NO_DATABASE,
            "the event reads the current row and no database is set: "
            "give --database URL or [database] url",
        )
        return dict.fromkeys(objects, refused)


NO_DATABASE = NoDatabase()
