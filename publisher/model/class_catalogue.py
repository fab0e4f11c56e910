"""The catalogue of classes: tables with their child tables and references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from publisher.errors import TableRefusedError
from publisher.model.catalogue import (
    Catalogue,
    ChildTable,
    Reference,
    Table,
    equal_in_any_case,
)
from publisher.model.classes import ClassOptions, with_children


class ClassCatalogue:
    """Describes tables as classes; a child table is described with its class as ``parent``."""

    def __init__(self, tables: Catalogue, declared: Iterable[Table], options: ClassOptions) -> None:
        """``tables`` describes single tables, ``declared`` are those of the job file."""
        self._tables = tables
        self._options = options
        self._parents = tuple(table for table in declared if table.children)
        self._described: dict[tuple[str | None, str], Table | None] = {}

    @property
    def closed(self) -> bool:
        """As ``Catalogue.closed``."""
        return self._tables.closed

    def table(self, schema: str | None, name: str) -> Table | None:
        """Describes a table with its class; raises ``TableRefusedError`` if it is part of none."""
        if (schema, name) not in self._described:
            self._described[schema, name] = self._describe(schema, name)
        return self._described[schema, name]

    def _describe(self, schema: str | None, name: str) -> Table | None:
        table = self._tables.table(schema, name)
        declared = self._declared_parent(schema, name)
        if declared is None:
            return None if table is None else self._class_of(table)
        parent, child = declared
        parent = self._tables.table(schema or parent.schema, parent.name) or parent
        own = table or Table(schema=parent.schema, name=child)
        return replace(own, name=child, parent=self._class_of(parent))

    def _declared_parent(self, schema: str | None, name: str) -> tuple[Table, str] | None:
        """Finds the parent that declares a child table of this name, and the name as declared."""
        for equal in (str.__eq__, equal_in_any_case):
            for parent in self._parents:
                if schema and parent.schema and not equal_in_any_case(schema, parent.schema):
                    continue
                for child in parent.children:
                    if equal(child, name):
                        return parent, child
        return None

    def _class_of(self, table: Table) -> Table:
        children = {
            name: self._complete_child(table, name, child) for name, child in table.children.items()
        }
        return with_children(table, children, self._complete_references(table))

    def _complete_child(self, parent: Table, name: str, child: ChildTable) -> ChildTable:
        if not child.columns:
            raise TableRefusedError(
                f"the child table {name} of {parent.name} has no columns of values: name them in "
                f"[tables.{parent.name}.children.{name}.columns]"
            )
        return replace(child, link=child.link or parent.key)

    def _complete_references(self, table: Table) -> Mapping[str, Reference]:
        if not self._options.enable_refs:
            return {}
        return {
            column: self._complete_reference(table, column, reference)
            for column, reference in table.references.items()
        }

    def _complete_reference(self, table: Table, column: str, reference: Reference) -> Reference:
        """Adds the schema and the key of the target, spelled as in its description."""
        schema = reference.schema or table.schema
        target = self._tables.table(schema, reference.table)
        key = reference.key or (target.key[0] if target and len(target.key) == 1 else None)
        if key is None:
            raise TableRefusedError(
                f"column {column} of {table.name} refers to {reference.table}, whose key is not known "
                f"or has several columns: name its key column in [tables.{table.name}.references]"
            )
        if target is None:
            return Reference(reference.table, schema, key)
        return Reference(target.name, target.schema or schema, target.column(key) or key)
