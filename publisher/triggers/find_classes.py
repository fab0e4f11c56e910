"""Finds the classes to log: the tables that are named, with their child tables and foreign keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, inspect

from publisher.database.catalogue import DatabaseCatalogue, Relation, catalogue_of
from publisher.database.connection import Database
from publisher.errors import FatalError, TableRefusedError, UsageError
from publisher.model.catalogue import ChildTable, Table
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions, keyed_child_note
from publisher.triggers.model import (
    DatabaseKind,
    LoggedChild,
    LoggedRelation,
    LoggedTable,
    Style,
    TableRef,
)


class ClassFinder:
    """Finds classes in a database; ``notes`` collects the tables that are left out."""

    def __init__(
        self, database: Database, default: str | None, style: Style, *, joins_keys: bool
    ) -> None:
        self._database = database
        self._kind = DatabaseKind.of(database)
        self._style = style
        self._tables: DatabaseCatalogue = catalogue_of(database)
        self._classes = ClassCatalogue(self._tables, (), ClassOptions(), self._tables.keys_of)
        self._default = default
        self._joins_keys = joins_keys
        self.notes: list[str] = []

    def find(self, refs: Sequence[TableRef]) -> list[LoggedTable]:
        """Finds the classes of the named tables; a child table names its class.

        Raises ``FatalError`` for tables that do not exist, ``UsageError`` for child tables of no class.
        """
        classes: dict[TableRef, tuple[Relation, Table | None]] = {}
        for ref in refs:
            relation, table = self._class_of(ref)
            classes.setdefault(TableRef(relation.schema, relation.table.name), (relation, table))
        return [self._describe(relation, table) for relation, table in classes.values()]

    def _class_of(self, ref: TableRef) -> tuple[Relation, Table | None]:
        """Finds the class of a table, and its parent table; a table of no class is logged by itself."""
        relation = self._relation(ref)
        try:
            table = self._classes.table(relation.table.schema, relation.table.name)
        except TableRefusedError as refused:
            if not relation.table.key:
                raise UsageError(refused.message) from None
            self.notes.append(f"{relation.table.name} is logged by itself: {refused.message}")
            return relation, None
        if table is None or table.parent is None:
            return relation, table
        return self._relation(TableRef(ref.schema, table.parent.name)), table.parent

    def _describe(self, relation: Relation, table: Table | None) -> LoggedTable:
        children = tuple(self._children(table)) if table is not None else ()
        self._note_left_out(relation.table, children)
        ref, definition = self._ref(relation), self._definition(relation)
        logged = LoggedTable(relation, ref, definition, children, self._joins_keys)
        for child in children:
            self._database.run(partial(self._check_child, logged, child))
        return logged

    def _ref(self, relation: Relation) -> TableRef:
        return TableRef(relation.schema or self._default, relation.table.name)

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
            options = self._options_of(relation, child)
            is_deferrable = bool(options.get("deferrable"))
            is_postgresql = self._kind is DatabaseKind.POSTGRESQL
            yield LoggedChild(
                relation,
                self._ref(relation),
                self._definition(relation),
                links=tuple(zip(child.link, child.key, strict=True)),
                columns=tuple(child.columns),
                moves_along=options.get("onupdate") == "CASCADE" and not is_deferrable,
                may_precede=not is_postgresql or not options or is_deferrable,
            )

    def _definition(self, relation: Relation) -> str:
        """The statement that created a table of SQLite; empty in other databases."""
        if self._kind is not DatabaseKind.SQLITE:
            return ""
        query, name = self._kind.query("definition"), {"name": relation.table.name}
        return str(self._database.run(lambda connection: connection.execute(query, name).scalar()))

    def _note_left_out(self, table: Table, children: Sequence[LoggedChild]) -> None:
        """Notes the child tables that cannot be part of the class, and those with a primary key."""
        logged = {child.relation.table.name for child in children}
        self._note_keyed(table)
        for name in self._tables.keys_of(table.schema, table.name).referring:
            other = self._tables.table(table.schema, name)
            self._note_keyed(other)
            if other is None or other.key or other.name in logged:
                continue
            try:
                self._classes.table(other.schema, other.name)
            except TableRefusedError as refused:
                self.notes.append(f"{other.name} is not logged: {refused.message}")

    def _note_keyed(self, table: Table | None) -> None:
        if table is not None:
            keys = self._tables.keys_of(table.schema, table.name).foreign_keys
            note = keyed_child_note(table, keys)
            if note is not None and note not in self.notes:
                self.notes.append(note)

    def _check_child(self, parent: LoggedTable, child: LoggedChild, connection: Connection) -> None:
        links = [link for link, _ in child.links]
        if self._kind is DatabaseKind.POSTGRESQL:
            _check_postgresql(connection, parent, [key for _, key in child.links])
            _check_postgresql(connection, child, links)
        name, schema = child.relation.table.name, child.relation.schema
        inspector = inspect(connection)
        unique = [entry["column_names"] for entry in inspector.get_unique_constraints(name, schema)]
        indexed = [*unique, list(child.relation.table.key)]
        for index in inspector.get_indexes(name, schema):
            columns = [column for column in index["column_names"] if column is not None]
            indexed.append(columns)
            if index["unique"]:
                unique.append(columns)
        if not any(set(columns[: len(links)]) == set(links) for columns in indexed):
            self.notes.append(
                f"{child.written} has no index that begins with {', '.join(links)}, so its triggers read the "
                "whole table: create one"
            )
        row = {*links, *child.columns}
        if self._style is Style.PER_FIELD and not any(
            row.issuperset(columns) for columns in unique
        ):
            self.notes.append(
                f"{child.written} may hold equal rows: transactions that insert and delete equal rows at the "
                f"same time may be logged out of order; create a unique index on {', '.join(sorted(row))}"
            )

    def _options_of(self, relation: Relation, child: ChildTable) -> dict[str, Any]:
        """The options of the foreign key that links a child table to its parent; empty without one."""

        def ask(connection: Connection) -> dict[str, Any]:
            if self._kind is DatabaseKind.SQLITE:
                names = {"name": relation.table.name, "column": child.link[0]}
                rows = connection.execute(self._kind.query("link"), names).mappings().all()
                return dict(rows[0]) if rows else {}
            for key in inspect(connection).get_foreign_keys(relation.table.name, relation.schema):
                if set(key["constrained_columns"]) == set(child.link):
                    return {"name": key["name"], **key["options"]}
            return {}

        return self._database.run(ask)


def _check_postgresql(
    connection: Connection, table: LoggedRelation, columns: Sequence[str]
) -> None:
    """Refuses a table that the functions of its class cannot read safely.  Raises ``UsageError``."""
    names = {**table.ref._asdict(), "columns": list(columns)}
    rows = connection.execute(DatabaseKind.POSTGRESQL.query("unsuitable"), names)
    for has_row_security, column in rows:
        if has_row_security:
            raise UsageError(
                f"{table.written} has row-level security, but the triggers of a class must see all of its "
                "rows: disable it, or move the child table to another class"
            )
        raise UsageError(
            f"column {column} of {table.written} has a user-defined type, whose operators could run with "
            "the rights of the log: columns that link child tables need built-in types"
        )
