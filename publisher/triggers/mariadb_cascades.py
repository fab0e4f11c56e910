"""Changes of rows by foreign keys in MariaDB, which fires no triggers for them.

The table that a key refers to gets triggers that run before its row changes, while the rows that refer to
it can still be found.  Keys of its own child tables need no such triggers: parent and child rows are one
object.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import SAWarning

from publisher.database.connection import Database
from publisher.triggers.model import LoggedChild, LoggedTable, Style, TableRef

Event = Literal["DELETE", "UPDATE"]
_OPTIONS: dict[Event, str] = {"DELETE": "ondelete", "UPDATE": "onupdate"}
_ACTIONS = ("CASCADE", "SET NULL", "SET DEFAULT")


class CascadingKey(NamedTuple):
    """A foreign key of a class or child table, by which a database changes rows."""

    name: str
    owner: LoggedTable
    """The class of the rows."""
    child: LoggedChild | None
    """The child table that has the key; ``None`` if the class has it."""
    target: TableRef
    columns: tuple[tuple[str, str], ...]
    """Columns of the key, each with the column that it refers to."""
    actions: dict[Event, str]
    """CASCADE, SET NULL or SET DEFAULT; other actions change no rows."""

    @property
    def table(self) -> TableRef:
        """The table that has the key."""
        return (self.child or self.owner).ref

    @property
    def is_link(self) -> bool:
        """True if the key links a child table to its parent."""
        return (
            self.child is not None
            and self.target == self.owner.ref
            and {own for own, _ in self.columns} == {link for link, _ in self.child.links}
        )

    def describe(self) -> str:
        """The key with its actions."""
        actions = ", ".join(f"ON {event} {action}" for event, action in self.actions.items())
        written = (self.child or self.owner).written
        return f"foreign key {self.name} of {written} ({actions})"


class Effect(NamedTuple):
    """An event for the rows that a change of another row changes."""

    event: Event
    """The change of the other row."""
    path: tuple[CascadingKey, ...]
    """Keys from the other row to the changed rows, which have the last key."""
    type: int
    column: str | None = None
    """The column whose value changes; ``None`` for events of whole rows."""
    new: str | None = None
    """The column of the other row with the new value; ``None`` for NULL."""

    @property
    def source(self) -> CascadingKey:
        """The key of the changed rows."""
        return self.path[-1]


class MariadbCascades:
    """The effects of all cascading keys of the logged tables."""

    def __init__(
        self, style: Style, keys: Sequence[CascadingKey], tables: Sequence[LoggedTable]
    ) -> None:
        self._style, self._keys = style, keys
        self.unlogged: dict[str, None] = {}
        """Keys whose changes are not logged, with advice."""
        refs = [table.ref for table in tables]
        for key in keys:
            if key.target not in refs:
                self._note(key, f"log {key.target.name}, too")

    def _note(self, key: CascadingKey, advice: str) -> None:
        self.unlogged[
            f"{key.describe()} changes rows without firing triggers in MariaDB: such changes are not "
            f"logged; {advice}"
        ] = None

    def effects(
        self, ref: TableRef, event: Event, path: tuple[CascadingKey, ...] = ()
    ) -> Iterator[Effect]:
        """Returns the effects of a change of a row of a table, or of the rows at the end of a path.

        Notes the effects that cannot be logged.
        """
        seen = {ref, *(key.target for key in path)}
        for key in self._keys:
            if key.target != ref or event not in key.actions:
                continue
            longer, action = (*path, key), key.actions[event]
            if key.child is None and event == "DELETE" and action == "CASCADE":
                if key.table in seen:
                    self._note(key, "delete the rows yourself, from the last one to the first")
                    continue
                yield from self.effects(key.table, event, longer)
                yield Effect(event, longer, 4)
            elif action == "SET DEFAULT" or (
                key.child is None and not set(key.owner.key).isdisjoint(dict(key.columns))
            ):
                self._note(key, "change the rows yourself before")
            elif self._style is Style.PER_ROW:
                yield Effect(event, longer, self._style.update)
            else:
                follows = event == "UPDATE" and action == "CASCADE"
                for column, target in key.columns:
                    if column in (key.child or key.owner).columns:
                        new = target if follows else None
                        yield Effect(event, longer, self._style.update, column, new)


def find_keys(
    database: Database, tables: Sequence[LoggedTable], default: str | None
) -> list[CascadingKey]:
    """Finds the cascading keys of the logged tables.  Raises ``UnreachableError`` and ``FatalError``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # of types that SQLAlchemy does not know
        return database.run(partial(_cascading_keys, tables, default))


def _cascading_keys(
    tables: Sequence[LoggedTable], default: str | None, connection: Connection
) -> list[CascadingKey]:
    """Reads the cascading keys of classes and child tables, without those that link children to parents."""
    found = []
    for owner in tables:
        for child in (None, *owner.children):
            relation = (child or owner).relation
            for key in inspect(connection).get_foreign_keys(relation.table.name, relation.schema):
                cascading = CascadingKey(
                    str(key["name"]),
                    owner,
                    child,
                    TableRef(key["referred_schema"] or default, key["referred_table"]),
                    tuple(zip(key["constrained_columns"], key["referred_columns"], strict=True)),
                    {
                        event: key["options"][option]
                        for event, option in _OPTIONS.items()
                        if key["options"].get(option) in _ACTIONS
                    },
                )
                if cascading.actions and not cascading.is_link:
                    found.append(cascading)
    return found
