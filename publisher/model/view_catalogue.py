"""Views as classes: describes views by the prefixes of their column names, with attributes and references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from publisher.errors import ClassRefusedError
from publisher.model.catalogue import Catalogue, JobCatalogue, Reference, Table
from publisher.model.classes import ClassOptions
from publisher.model.names import equal_in_any_case
from publisher.model.view_names import (
    ViewColumns,
    ViewName,
    ViewRole,
    ambiguous_names,
    parse_view_name,
)


class TableKeyColumn(NamedTuple):
    """A column of the key of a table, or a column of a view whose name begins with ``pk_``."""

    table: str
    column: str
    is_of_view: bool


KeyColumnsOf = Callable[[str | None], Sequence[TableKeyColumn]]
"""Returns the key columns of all tables and views of a schema."""


def no_key_columns(_schema: str | None) -> Sequence[TableKeyColumn]:
    """The key columns without a database: none."""
    return ()


class KeyOwner(NamedTuple):
    """A class with a key column of some effective name."""

    table: str
    column: str
    """The key column as documents name it."""
    is_compound: bool


class ClassKeys:
    """The keys of all classes of a schema, to which the columns of views refer."""

    def __init__(self, columns: Iterable[TableKeyColumn]) -> None:
        columns = list(columns)
        of_tables = {column.column for column in columns if not column.is_of_view}
        names: dict[tuple[str, str], tuple[str, str]] = {}
        for table, column, is_of_view in columns:
            name = parse_view_name(column, of_tables) if is_of_view else ViewName(column, column)
            place = table.casefold(), name.column.casefold()
            names.setdefault(place, (table, name.schema_name))
        sizes = Counter(table for table, _ in names)
        self._owners: dict[str, list[KeyOwner]] = {}
        for (folded, effective), (table, column) in names.items():
            owner = KeyOwner(table, column, sizes[folded] > 1)
            self._owners.setdefault(effective, []).append(owner)
        self.names = frozenset(self._owners)

    def owners(self, effective: str) -> Sequence[KeyOwner]:
        """Returns the classes with a key column of this effective name, in any case."""
        return self._owners.get(effective.casefold(), ())


class ViewCatalogue:
    """Describes views with meta-identifiers by their attributes, and tables as they are."""

    def __init__(
        self,
        tables: Catalogue,
        declared: Sequence[Table],
        options: ClassOptions,
        key_columns_of: KeyColumnsOf,
    ) -> None:
        """``tables`` describes tables and views, ``declared`` are those of the job file."""
        self._tables = tables
        self._declared = declared
        self._options = options
        self._key_columns_of = key_columns_of
        self._keys: dict[str | None, ClassKeys] = {}

    @property
    def closed(self) -> bool:
        """As ``Catalogue.closed``."""
        return self._tables.closed

    def table(self, schema: str | None, name: str) -> Table | None:
        """Describes a table or view; raises ``TableRefusedError`` if a view can be no class."""
        table = self._tables.table(schema, name)
        if table is None or not (table.view and self._options.enable_meta_identifiers):
            return table
        if not self._options.lists(table.schema, table.name):
            return table
        return self._describe(table)

    def _describe(self, view: Table) -> Table:
        keys = self._keys_of(view.schema)
        minimal = self._options.minimal_metadata
        names = [parse_view_name(column, keys.names) for column in view.columns]
        if minimal:
            names = [replace(name, is_multiple=False) for name in names]
        columns = ViewColumns({name.schema_name: name for name in names}, keys.names)
        key = _key_of(view, names, columns)
        problems = [*ambiguous_names(names, keys.names), *_key_problems(view, names, key, columns)]
        references: dict[str, Reference] = {}
        if self._options.enable_refs and not minimal:
            problems += _reference_problems(names, keys)
            references = _references_of(view, names, keys)
        if problems:
            raise ClassRefusedError(f"view {view.name}: {problems[0]}")
        references |= {
            columns.attribute(column) or column: reference
            for column, reference in view.references.items()
        }
        kinds = {name.schema_name: view.columns[name.written] for name in names}
        padded = {name.schema_name for name in names if name.written in view.padded}
        declared = JobCatalogue(self._declared).table(view.schema, view.name)
        if declared is not None:  # by any variant of the names
            kinds |= columns.by_attribute(declared.columns)
            padded |= columns.by_attribute(dict.fromkeys(declared.padded)).keys()
        return replace(
            view,
            key=tuple(column for column in key if column is not None),
            columns=kinds,
            complete=True,
            padded=frozenset(padded),
            references=references,
            view_columns=columns,
        )

    def _keys_of(self, schema: str | None) -> ClassKeys:
        if schema not in self._keys:
            self._keys[schema] = ClassKeys(self._key_columns(schema))
        return self._keys[schema]

    def _key_columns(self, schema: str | None) -> Iterator[TableKeyColumn]:
        """Yields the key columns of the classes of a schema, in the database and in the job file."""
        for key in (*self._key_columns_of(schema), *self._declared_key_columns(schema)):
            if self._options.lists(schema, key.table):
                yield key

    def _declared_key_columns(self, schema: str | None) -> Iterator[TableKeyColumn]:
        for table in self._declared:
            if table.schema is None or schema is None or equal_in_any_case(table.schema, schema):
                for column in table.key:
                    yield TableKeyColumn(table.name, column, table.view)
                for column in table.columns if table.view else ():
                    if parse_view_name(column, ()).role is ViewRole.PRIMARY_KEY:
                        yield TableKeyColumn(table.name, column, is_of_view=True)


def _key_of(view: Table, names: Sequence[ViewName], columns: ViewColumns) -> tuple[str | None, ...]:
    """The attributes of the key: with ``pk_``, else those of the job file; ``None`` for unknown ones."""
    primary = tuple(name.schema_name for name in names if name.role is ViewRole.PRIMARY_KEY)
    return primary or tuple(columns.attribute(column) for column in view.key)


def _key_problems(
    view: Table, names: Sequence[ViewName], key: Sequence[str | None], columns: ViewColumns
) -> Iterator[str]:
    if not key:
        yield (
            "no column begins with pk_: name the key columns pk_COLUMN, or set the key in "
            f"[tables.{view.name}]"
        )
    declared = {columns.attribute(column) for column in view.key}
    if None not in declared and declared - set(key):
        yield f"the key in [tables.{view.name}] is not that of its columns with pk_: remove one of both"
    if None in key or None in declared:
        yield f"the key {', '.join(view.key)} is not among its columns: correct [tables.{view.name}]"
    if any(name.is_multiple and name.schema_name in key for name in names):
        yield "a column of the key begins with mv_: objects have one value of each key column"


def _reference_problems(names: Sequence[ViewName], keys: ClassKeys) -> Iterator[str]:
    advice = "refer to one key, name the classes in sync_tables, or set enable_refs = false"
    foreign = [name for name in names if name.role is ViewRole.FOREIGN_KEY]
    for name in foreign:
        if name.ref is None:
            yield f"column {name.written} names no key: write fk__KEY__{name.column}"
            continue
        owners = keys.owners(name.ref)
        if len(owners) != 1:
            classes = " and ".join(owner.table for owner in owners) or "no class"
            yield f"column {name.written} refers to {name.ref}, the key of {classes}: {advice}"
        elif owners[0].is_compound:
            yield (
                f"column {name.written} refers to {name.ref}, a part of the key of "
                f"{owners[0].table}: {advice}"
            )
    for group, count in Counter(name.group for name in foreign).items():
        if group is not None and count > 1:
            yield f"{count} columns are the foreign key of group {group}: {advice}"


def _references_of(view: Table, names: Sequence[ViewName], keys: ClassKeys) -> dict[str, Reference]:
    return {
        name.schema_name: Reference(owner.table, view.schema, owner.column)
        for name in names
        if name.role is ViewRole.FOREIGN_KEY and name.ref is not None
        for owner in keys.owners(name.ref)
    }
