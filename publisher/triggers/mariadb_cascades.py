"""Triggers for changes that foreign keys cascade to in MariaDB, which fires no triggers for them.

The table that a key refers to gets triggers that run before its row changes, while the rows that refer to
it can still be found.  Keys of its own child tables need no such triggers: parent and child rows are one
object.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import SAWarning

from publisher.database.connection import Database
from publisher.triggers.mariadb import FORMS, quote_name, trigger_statement
from publisher.triggers.model import (
    DELETE,
    LoggedChild,
    LoggedTable,
    Statement,
    Style,
    TableRef,
    literal,
)

Event = Literal["DELETE", "UPDATE"]
Rows = Callable[[str], str]
"""Returns the condition that finds rows of a table by their alias."""


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


def _cascading_keys(
    tables: Sequence[LoggedTable], default: str | None, connection: Connection
) -> list[CascadingKey]:
    """Reads the cascading keys of classes and child tables, without those that link children to parents."""
    found = []
    for owner in tables:
        for child in (None, *owner.children):
            relation = (child or owner).relation
            for key in inspect(connection).get_foreign_keys(relation.table.name, relation.schema):
                columns = zip(key["constrained_columns"], key["referred_columns"], strict=True)
                cascading = CascadingKey(
                    str(key["name"]),
                    owner,
                    child,
                    TableRef(key["referred_schema"] or default, key["referred_table"]),
                    tuple(columns),
                    {
                        event: key["options"][option]
                        for event, option in _OPTIONS.items()
                        if key["options"].get(option) in _ACTIONS
                    },
                )
                if cascading.actions and not cascading.is_link:
                    found.append(cascading)
    return found


_OPTIONS: dict[Event, str] = {"DELETE": "ondelete", "UPDATE": "onupdate"}
_ACTIONS = ("CASCADE", "SET NULL", "SET DEFAULT")


@dataclass(slots=True)
class MariadbCascades:
    """The triggers for all cascading keys of the logged tables."""

    log: TableRef
    style: Style
    keys: Sequence[CascadingKey]
    tables: Sequence[LoggedTable]
    unlogged: dict[str, None] = field(default_factory=dict)
    """Keys whose changes are not logged, with advice."""

    def statements(self) -> list[Statement]:
        """Creates or removes the triggers of the tables that are referred to."""
        refs = [table.ref for table in self.tables]
        for key in self.keys:
            if key.target not in refs:
                self._note(key, f"log {key.target.name}, too")
        return [self._trigger(ref, event) for ref in refs for event in _OPTIONS]

    def _note(self, key: CascadingKey, advice: str) -> None:
        self.unlogged[
            f"{key.describe()} changes rows without firing triggers in MariaDB: such changes are not "
            f"logged; {advice}"
        ] = None

    def _trigger(self, ref: TableRef, event: Event) -> Statement:
        lines = list(self._effects(ref, event, None, (ref,)))
        purpose = f"before_{event.lower()}"
        return trigger_statement(self.log, ref, purpose, f"BEFORE {event}", lines)

    def _effects(
        self, ref: TableRef, event: Event, rows: Rows | None, path: tuple[TableRef, ...]
    ) -> Iterator[str]:
        """Logs the effects of a change of the row OLD of ``ref``, or of the deletion of its ``rows``."""
        for key in self.keys:
            if key.target != ref or event not in key.actions:
                continue
            alias = f"r{len(path)}"
            condition = self._referring(key, event, rows, f"r{len(path) - 1}")
            if key.child is None and event == "DELETE" and key.actions[event] == "CASCADE":
                if key.table in path:
                    self._note(key, "delete the rows yourself, from the last one to the first")
                    continue
                yield from self._effects(key.table, event, condition, (*path, key.table))
                yield from self._insert(key, alias, condition(alias), DELETE, None)
            elif key.actions[event] == "SET DEFAULT" or (
                key.child is None and not set(key.owner.key).isdisjoint(dict(key.columns))
            ):
                self._note(key, "change the rows yourself before")
            else:
                yield from self._changed_values(key, event, alias, condition(alias))

    def _changed_values(
        self, key: CascadingKey, event: Event, alias: str, found: str
    ) -> Iterator[str]:
        relation = (key.child or key.owner).relation
        if self.style is Style.PER_ROW:
            yield from self._insert(key, alias, found, self.style.update, None)
            return
        values = (key.child or key.owner).columns
        for column, target in key.columns:
            if column not in values:
                continue
            texts = None
            if self.style is Style.PER_FIELD:
                new = "NULL"
                if event == "UPDATE" and key.actions[event] == "CASCADE":
                    new = FORMS.text(self._target(key).relation, "NEW", target)
                texts = (FORMS.text(relation, alias, column), new)
            yield from self._insert(key, alias, found, self.style.update, column, texts)

    def _target(self, key: CascadingKey) -> LoggedTable:
        return next(table for table in self.tables if table.ref == key.target)

    def _insert(
        self,
        key: CascadingKey,
        alias: str,
        found: str,
        event_type: int,
        column: str | None,
        texts: tuple[str, str] | None = None,
    ) -> list[str]:
        """Logs an event for each object of the found rows."""
        owner, child = key.owner, key.child
        row = alias if child is None else "p"
        table = f"{key.table.sql(quote_name)} AS {alias}"
        if child is not None:
            link = " AND ".join(
                f"p.{quote_name(own)} = {alias}.{quote_name(link)}" for link, own in child.links
            )
            table += f" JOIN {owner.ref.sql(quote_name)} AS p ON {link}"
        values = owner.event(FORMS.key(owner, row), event_type, column, texts)
        if child is not None and column is not None:
            values["table_name"] = literal(child.written)
        return [
            f"INSERT INTO {self.log.sql(quote_name)} ({', '.join(values)})",
            f"SELECT DISTINCT {', '.join(values.values())}",
            f"FROM {table}",
            f"WHERE {found};",
        ]

    def _referring(self, key: CascadingKey, event: Event, rows: Rows | None, outer: str) -> Rows:
        """Finds the rows that refer to the changed row OLD, or to the ``rows`` of the key's target."""

        def condition(alias: str) -> str:
            row = "OLD" if rows is None else outer
            pairs = " AND ".join(
                f"{alias}.{quote_name(own)} = {row}.{quote_name(target)}"
                for own, target in key.columns
            )
            if rows is not None:
                target = key.target.sql(quote_name)
                return f"EXISTS (SELECT 1 FROM {target} AS {outer} WHERE {pairs} AND {rows(outer)})"
            if event == "DELETE":
                return pairs
            texts = self._target(key).relation
            differ = [
                FORMS.differ(FORMS.text(texts, "OLD", name), FORMS.text(texts, "NEW", name))
                for _, name in key.columns
            ]
            return f"{pairs} AND ({' OR '.join(differ)})"

        return condition


def find_cascades(
    database: Database,
    tables: Sequence[LoggedTable],
    default: str | None,
    log: TableRef,
    style: Style,
) -> MariadbCascades:
    """Finds the cascading keys of the logged tables.  Raises ``UnreachableError`` and ``FatalError``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # of types that SQLAlchemy does not know
        keys = database.run(partial(_cascading_keys, tables, default))
    return MariadbCascades(log, style, keys, tables)
