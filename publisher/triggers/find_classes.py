"""Finds the classes to log: the tables that are named, with their child tables and foreign keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, inspect

from publisher.database.catalogue import DatabaseCatalogue, Relation, catalogue_of
from publisher.database.connection import Database
from publisher.errors import FatalError, TableRefusedError, UsageError
from publisher.model.catalogue import ChildTable, Table
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions
from publisher.triggers.model import LoggedChild, LoggedTable, TableRef, written_name


class ClassFinder:
    """Finds classes in a database; ``notes`` collects the tables that are left out."""

    def __init__(self, database: Database, default: str | None, *, joins_keys: bool) -> None:
        self._database = database
        self._tables: DatabaseCatalogue = catalogue_of(database)
        self._classes = ClassCatalogue(self._tables, (), ClassOptions(), self._tables.keys_of)
        self._default = default
        self._joins_keys = joins_keys
        self.notes: list[str] = []

    def find(self, refs: Sequence[TableRef]) -> list[LoggedTable]:
        """Finds the classes of the named tables; a child table stands for its class.

        Raises ``FatalError`` for tables that do not exist, ``UsageError`` for child tables of no class.
        """
        found: dict[TableRef, LoggedTable] = {}
        for ref in refs:
            table = self._find(ref)
            found.setdefault(table.ref, table)
        return list(found.values())

    def _find(self, ref: TableRef) -> LoggedTable:
        relation = self._relation(ref)
        try:
            table = self._classes.table(relation.table.schema, relation.table.name)
        except TableRefusedError as refused:
            if not relation.table.key:
                raise UsageError(refused.message) from None
            self.notes.append(f"{relation.table.name} is logged by itself: {refused.message}")
            table = None
        if table is not None and table.parent is not None:
            relation, table = self._relation(TableRef(ref.schema, table.parent.name)), table.parent
        schema = relation.schema or self._default
        written = written_name(relation.table.schema, relation.table.name)
        children = tuple(self._children(table)) if table is not None else ()
        self._note_left_out(relation.table, children)
        return LoggedTable(relation, schema, written, children, self._joins_keys)

    def _relation(self, ref: TableRef) -> Relation:
        relation = self._tables.relation(ref.schema, ref.name)
        if relation is None:
            where = f" in schema {ref.schema}" if ref.schema else ""
            raise FatalError(
                f"{self._database.name} has no table {ref.name}{where}: correct the table's name, with a "
                "dot in double quotes, or grant the user SELECT on it"
            )
        return relation

    def _children(self, table: Table) -> Iterator[LoggedChild]:
        for name, child in table.children.items():
            relation = self._relation(TableRef(table.schema, name))
            written = written_name(relation.table.schema, relation.table.name)
            options = self._options_of(relation, child)
            is_postgresql = self._database.engine.dialect.name == "postgresql"
            yield LoggedChild(
                relation,
                relation.schema or self._default,
                written,
                tuple(zip(child.link, child.key, strict=True)),
                tuple(child.columns),
                moves_along=_follows_key(options),
                may_precede=not is_postgresql or bool(options.get("deferrable")),
            )

    def _note_left_out(self, table: Table, children: Sequence[LoggedChild]) -> None:
        """Notes the child tables that cannot be part of the class."""
        logged = {child.relation.table.name for child in children}
        for name in self._tables.keys_of(table.schema, table.name).referring:
            other = self._tables.table(table.schema, name)
            if other is None or other.key or other.name in logged:
                continue
            try:
                self._classes.table(other.schema, other.name)
            except TableRefusedError as refused:
                self.notes.append(f"{other.name} is not logged: {refused.message}")

    def _options_of(self, relation: Relation, child: ChildTable) -> dict[str, Any]:
        """The options of the foreign key by which a child table is linked to its parent."""

        def ask(connection: Connection) -> dict[str, Any]:
            for key in inspect(connection).get_foreign_keys(relation.table.name, relation.schema):
                if set(key["constrained_columns"]) == set(child.link):
                    return dict(key["options"])
            return {}

        return self._database.run(ask)


def _follows_key(options: dict[str, Any]) -> bool:
    return options.get("onupdate") == "CASCADE" and not options.get("deferrable")
