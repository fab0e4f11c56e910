"""The catalogue of classes: tables with their child tables and references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from publisher.errors import ClassRefusedError, TableRefusedError
from publisher.model.catalogue import (
    Catalogue,
    ChildTable,
    Reference,
    Table,
)
from publisher.model.classes import (
    ChildFindings,
    ClassOptions,
    ForeignKey,
    TableKeys,
    attribute_of,
    describe_child,
    double_names,
    owner_of,
    with_children,
)
from publisher.model.names import equal_in_any_case, find_name
from publisher.model.view_catalogue import KeyColumnsOf, ViewCatalogue, no_key_columns

KeysOf = Callable[[str | None, str], TableKeys]
"""Returns the foreign keys that concern a table, by its schema and name."""


def no_keys(_schema: str | None, _name: str) -> TableKeys:
    """The keys without a database: none."""
    return TableKeys()


class ClassCatalogue:
    """Describes tables as classes; a child table is described with its class as ``parent``.

    Keys come from the database; descriptions of children and references in the job file take precedence.
    """

    def __init__(
        self,
        tables: Catalogue,
        declared: Iterable[Table],
        options: ClassOptions,
        keys_of: KeysOf = no_keys,
        key_columns_of: KeyColumnsOf = no_key_columns,
    ) -> None:
        """``tables`` describes single tables, ``declared`` are those of the job file."""
        declared = tuple(declared)
        self._tables = ViewCatalogue(tables, declared, options, key_columns_of)
        self._options = options
        self._keys_of = keys_of
        self._parents = tuple(table for table in declared if table.children)
        self._described: dict[tuple[str | None, str], Table | TableRefusedError | None] = {}

    @property
    def closed(self) -> bool:
        """As ``Catalogue.closed``."""
        return self._tables.closed

    def table(self, schema: str | None, name: str) -> Table | None:
        """Describes a table with its class; raises ``TableRefusedError`` if it can be part of none."""
        place = (schema, name)
        if place not in self._described:
            try:
                self._described[place] = self._describe(schema, name)
            except TableRefusedError as refused:
                self._described[place] = refused
        described = self._described[place]
        if isinstance(described, TableRefusedError):
            raise described
        return described

    def _class_of(self, table: Table) -> Table:
        children: dict[str, ChildTable] = {}
        references: dict[str, Reference] = {}
        for name, findings in self._found_children(table):
            declared = find_name(name, table.children)
            if findings.problem is not None and declared is None:
                continue  # events on this child table are rejected with the problem
            if declared and not (findings.child.link or table.children[declared].link):
                raise ClassRefusedError(findings.problem or "")
            children[name] = findings.child
            references |= {
                attribute_of(name, column): reference
                for column, reference in findings.references.items()
            }
        for name, child in table.children.items():
            own_name = next((own for own in children if equal_in_any_case(own, name)), name)
            children[own_name] = self._complete_child(table, own_name, child, children)
        references |= self._own_references(table)
        references |= self._declared_references(table)
        return with_children(table, children, references)

    def _describe(self, schema: str | None, name: str) -> Table | None:
        table = self._tables.table(schema, name)
        if self._options.minimal_metadata:
            return table
        declared = self._declared_parent(schema, name)
        if declared is not None:
            parent, child = declared
            own = table or Table(schema=parent.schema, name=child)
            if self._options.sync_filter == "list" and not self._is_class(parent):
                raise ClassRefusedError(_outside_the_list(own))
            parent_class = self._class_of(parent)
            spelled = next(c for c in parent_class.children if equal_in_any_case(c, child))
            return replace(own, name=spelled, parent=parent_class)
        if table is None:
            return None
        if not self._is_class(table):
            found = self._parent_of(table)
            if found is not None:
                findings = self._findings(table, found)
                if findings.problem is not None:
                    raise ClassRefusedError(findings.problem or "")
                return replace(table, parent=self._class_of(found))
            if self._options.sync_filter == "list":
                raise ClassRefusedError(_outside_the_list(table))
        return self._class_of(table)

    def _is_class(self, table: Table) -> bool:
        if self._options.sync_filter != "list":
            return bool(table.key)
        return self._options.lists(table.schema, table.name)

    def _declared_parent(self, schema: str | None, name: str) -> tuple[Table, str] | None:
        """Finds the parent that declares a child table of this name, and the name as declared."""
        for equal in (str.__eq__, equal_in_any_case):
            for parent in self._parents:
                if schema and parent.schema and not equal_in_any_case(schema, parent.schema):
                    continue
                for child in parent.children:
                    if equal(child, name):
                        place = (schema or parent.schema, parent.name)
                        return self._tables.table(*place) or parent, child
        return None

    def _parent_of(self, table: Table) -> Table | None:
        """Finds the parent of a table without a key by its first constrained column."""
        owner = owner_of(table, self._foreign_keys(table))
        if owner is None or owner.table is None or table.key:
            return None
        parent = self._tables.table(table.schema, owner.table)
        return parent if parent is not None and self._is_class(parent) and parent.key else None

    def _found_children(self, parent: Table) -> Iterable[tuple[str, ChildFindings]]:
        """Yields the child tables that the keys of the database show, and those that are declared."""
        if not parent.key:
            return
        for name in self._keys_of(parent.schema, parent.name).referring:
            table = self._tables.table(parent.schema, name)
            if table is None or equal_in_any_case(name, parent.name):
                continue
            owner = owner_of(table, self._foreign_keys(table))
            is_own = owner is not None and equal_in_any_case(owner.table or "", parent.name)
            is_child = not (table.key or self._is_class(table))
            if is_own and (is_child or find_name(name, parent.children)):
                yield table.name, self._findings(table, parent)

    def _findings(self, table: Table, parent: Table) -> ChildFindings:
        return describe_child(
            table,
            self._foreign_keys(table),
            parent,
            lambda key: self._reference(table, key),
            takes_each_column=self._options.child_columns == "each",
        )

    def _foreign_keys(self, table: Table) -> Sequence[ForeignKey]:
        return self._keys_of(table.schema, table.name).foreign_keys

    def _reference(self, table: Table, key: ForeignKey) -> Reference | None:
        """The reference of a foreign key; ``None`` if its target is no key of a class in the schema."""
        if not self._options.enable_refs or key.table is None:
            return None
        target = self._tables.table(table.schema, key.table)
        if target is None or not target.key or not self._is_class(target):
            return None
        if set(key.target or target.key) != set(target.key):
            return None
        if len(key.columns) > 1:
            raise ClassRefusedError(
                f"columns {', '.join(key.columns)} of {table.name} refer together to {target.name}: set "
                "enable_refs = false, or exclude the table"
            )
        return Reference(target.name, target.schema, target.key[0])

    def _own_references(self, table: Table) -> Mapping[str, Reference]:
        found: dict[str, Reference] = {}
        for key in self._foreign_keys(table):
            reference = self._reference(table, key)
            if reference is not None and key.columns[0] not in table.key:
                found.setdefault(key.columns[0], reference)
        return found

    def _complete_child(
        self, parent: Table, name: str, child: ChildTable, found: Mapping[str, ChildTable]
    ) -> ChildTable:
        by_keys = found.get(name, ChildTable())
        table = self._tables.table(parent.schema, name)
        columns = dict(child.columns) or dict(by_keys.columns)
        if not columns:
            raise ClassRefusedError(
                f"the child table {name} of {parent.name} has no columns of values: name them in "
                f"[tables.{parent.name}.children.{name}.columns]"
            )
        problem = next(double_names(parent, name, columns), None)
        if problem is not None:
            raise ClassRefusedError(problem)
        if table is not None:
            columns = {table.column(column) or column: kind for column, kind in columns.items()}
        key = child.key or by_keys.key or parent.key
        return ChildTable(columns, child.link or by_keys.link or key, key)

    def _declared_references(self, table: Table) -> Mapping[str, Reference]:
        if not self._options.enable_refs:
            return {}
        return {
            table.column(column) or column: self._complete_reference(table, column, reference)
            for column, reference in table.references.items()
        }

    def _complete_reference(self, table: Table, column: str, reference: Reference) -> Reference:
        """Adds the schema and the key of the target, spelled as in its description."""
        schema = reference.schema or table.schema
        try:
            target = self._tables.table(schema, reference.table)
        except TableRefusedError:
            if reference.key is None:
                raise
            target = None  # the values name the key, whether the target is a class or not
        key = reference.key or (target.key[0] if target and len(target.key) == 1 else None)
        if key is None:
            raise ClassRefusedError(
                f"column {column} of {table.name} refers to {reference.table}, whose key is not known "
                f"or has several columns: name its key column in [tables.{table.name}.references]"
            )
        if target is None:
            return Reference(reference.table, schema, key)
        return Reference(target.name, target.schema or schema, target.column(key) or key)


def _outside_the_list(table: Table) -> str:
    return (
        f"table {table.name} is neither in sync_tables nor a child of a table there: list it, "
        "or exclude it"
    )


def without_keys_of_children(tables: Iterable[Table], classes: ClassCatalogue) -> list[Table]:
    """Removes the keys of child tables from descriptions of a source, which would make them classes.

    Linkexpress and DISPATCH_ATTRS name keys that the tables of the database do not have."""
    return [replace(table, key=()) if _is_child(table, classes) else table for table in tables]


def _is_child(table: Table, classes: ClassCatalogue) -> bool:
    try:
        described = classes.table(table.schema, table.name)
    except TableRefusedError:
        return False
    return described is not None and described.parent is not None
