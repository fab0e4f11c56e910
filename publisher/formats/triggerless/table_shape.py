"""The shape of a compared table: its columns and key, and the child tables of its class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from publisher.errors import FatalError, TableRefusedError, UsageError
from publisher.formats.columns.object_names import Names, RecordFault, TargetTable, split_name
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.model.catalogue import (
    Catalogue,
    ChildTable,
    ColumnKind,
    JobCatalogue,
    LayeredCatalogue,
    Table,
)
from publisher.model.classes import attribute_of
from publisher.model.keys import IdentifierCase, KeyProblem, canonical, parse
from publisher.model.names import equal_in_any_case, find_name


@dataclass(frozen=True, slots=True)
class ComparedKeyColumn:
    """A key column: its names in documents (``name``) and in the input (``read``), and its type."""

    name: str
    read: str
    kind: ColumnKind | None
    padded: bool


@dataclass(frozen=True, slots=True)
class TableShape:
    """Names and types of a compared table."""

    source_name: str
    """Name of the table in the source, which is also the first part of positions."""
    schema: str | None
    table: str
    read: tuple[str, ...]
    """Names in the input of all columns, in their order."""
    key: tuple[ComparedKeyColumn, ...]
    """Key columns, sorted by the code points of their names."""
    columns: tuple[str, ...]
    """Names in documents of the columns outside the key, in the table's order, then of the attributes of
    child tables."""
    others: tuple[str, ...]
    """Names in the input of the columns outside the key."""
    octets: frozenset[str]
    """Names in the input of binary columns."""
    children: tuple[TableShape, ...] = ()
    """Child tables.  Their keys are those of their parents, ``columns`` are names of attributes."""
    multiple: frozenset[str] = frozenset()
    """Columns with any number of values."""
    is_view: bool = False
    """A view that is a class: its rows with one key are one object."""
    key_change_by: tuple[str, ...] = ()
    """Columns whose values identify an object whatever its key is; empty if changed keys are not joined."""

    @property
    def identity(self) -> tuple[str | None, str, tuple[str, ...]]:
        """Schema, table and key, which must agree with those in a stored state."""
        return self.schema, self.table, tuple(part.name for part in self.key)

    @property
    def child_tables(self) -> dict[str, str]:
        """The child table of each attribute of child tables."""
        return {name: child.source_name for child in self.children for name in child.columns}

    def canonical(self, key: str) -> str:
        """Canonicalises a key that a user wrote.  Raises ``UsageError``."""
        kinds = {part.name: str(part.kind) for part in self.key if part.kind is not None}
        names = [part.name for part in self.key]
        try:
            parts = parse(key)
            text = canonical(parts, kinds, IdentifierCase.DATABASE, names)
            if sorted(part.column for part in parse(text)) != names:
                raise KeyProblem(
                    f"the key of {self.source_name} is {', '.join(names)}: write these columns"
                )
        except KeyProblem as problem:
            raise UsageError(f"{key}: {problem}") from problem
        return text


def shape_of(
    table: str,
    columns: Sequence[str],
    catalogue: Catalogue,
    options: TriggerlessOptions,
    where: str,
    children: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> TableShape:
    """Determines the shape of a table with these columns in the input, and of its ``children`` with theirs.

    Raises ``FatalError`` if its key is unknown, or columns or child tables do not fit.
    """
    found = find_table(table, catalogue, options, where)
    names, target, known = found
    spelled, octets = _columns(table, target, columns, names, where)
    key = [_key_part(name, known, spelled, where) for name in known.key]
    inside = {part.read for part in key}
    others = tuple(name for name in columns if name not in inside)
    multiple = frozenset(
        spelled[name] for name in others if known.is_multiple(known.column(name) or name)
    )
    own = tuple(spelled[name] for name in others)
    shape = TableShape(
        source_name=table,
        schema=target.schema,
        table=target.table,
        read=tuple(columns),
        key=tuple(sorted(key, key=lambda part: part.name)),
        columns=own,
        others=others,
        octets=octets,
        multiple=multiple,
        is_view=known.view_columns is not None,
        key_change_by=_key_change_by(table, target, own, multiple, options, where),
    )
    if not children:
        return shape
    parts = tuple(_child_shape(shape, found, name, of, where) for name, of in children.items())
    attributes = sorted(name for part in parts for name in part.columns)
    return replace(
        shape,
        columns=(*own, *attributes),
        children=parts,
        multiple=multiple | frozenset(attributes),
    )


def _key_change_by(
    table: str,
    target: TargetTable,
    columns: Sequence[str],
    multiple: frozenset[str],
    options: TriggerlessOptions,
    where: str,
) -> tuple[str, ...]:
    """Returns the columns of the setting ``key_change_by`` by their names in documents."""
    wanted = next(
        (
            by
            for name, by in options.key_change_by.items()
            if is_name_of(name, target.schema, target.table)
        ),
        (),
    )
    names = [find_name(name, columns) for name in wanted]
    for name, column in zip(wanted, names, strict=True):
        if column is None or column in multiple:
            raise FatalError(
                f"{where}: key_change_by names {name}, which is not a single-valued column of {table} outside"
                " the key: name columns that identify an object whatever its key is"
            )
    return tuple(name for name in names if name is not None)


def is_name_of(text: str, schema: str | None, table: str) -> bool:
    """Tests whether a name such as ``schema.table`` names a table, in any case; an absent schema fits all."""
    parts = split_name(text)
    if parts is None or not equal_in_any_case(parts[1], table):
        return False
    return parts[0] is None or schema is None or equal_in_any_case(parts[0], schema)


class FoundTable(NamedTuple):
    """A compared table in the catalogue."""

    names: Names
    target: TargetTable
    known: Table


def find_table(
    table: str, catalogue: Catalogue, options: TriggerlessOptions, where: str
) -> FoundTable:
    """Finds a table and its key in the catalogue.  Raises ``FatalError`` if there is none."""
    names = Names(_with_keys(catalogue, options), options.schema, options.identifier_case, 1)
    target = names.target(table)
    if isinstance(target, RecordFault):
        raise FatalError(f"{where}: {target.detail}; or name it in tables")
    known = target.known
    if known is None or not known.key:
        raise FatalError(
            f"{where}: the primary key of {table} is unknown; set key in the source or in"
            f" [tables.{target.table}]"
        )
    return FoundTable(names, target, known)


def _columns(
    table: str, target: TargetTable, columns: Sequence[str], names: Names, where: str
) -> tuple[dict[str, str], frozenset[str]]:
    """Returns the names in documents by the names in the input, and the binary columns."""
    spelled: dict[str, str] = {}
    octets = set()
    for name in columns:
        column = names.column(table, target, name)
        if isinstance(column, RecordFault):
            raise FatalError(f"{where}: {column.detail}; or leave the column out of the export")
        if name in spelled or column.name in spelled.values():
            raise FatalError(f"{where}: column {name} appears twice; export it once")
        spelled[name] = column.name
        if column.octet:
            octets.add(name)
    return spelled, frozenset(octets)


def _with_keys(catalogue: Catalogue, options: TriggerlessOptions) -> Catalogue:
    """Returns the catalogue, in which the keys of the settings take precedence."""
    described = []
    for name, key in options.key.items():
        parts = split_name(name)
        if parts is not None:
            described.append(Table(parts[0], parts[1], key))
    if not described:
        return catalogue
    return LayeredCatalogue(JobCatalogue(described), catalogue)


def _key_part(name: str, known: Table, spelled: dict[str, str], where: str) -> ComparedKeyColumn:
    column = known.column(name)
    read = [read for read, column in spelled.items() if column.casefold() == name.casefold()]
    if len(read) != 1:
        raise FatalError(
            f"{where}: the key column {name} of {known.name} {'is missing' if not read else 'appears twice'};"
            " export it once, or fix the key"
        )
    kind = known.columns.get(column) if column is not None else None
    return ComparedKeyColumn(spelled[read[0]], read[0], kind, column in known.padded)


def parent_of(table: str, catalogue: Catalogue, options: TriggerlessOptions) -> Table | None:
    """Returns the parent of a child table; ``None`` if the table is a class, or unknown."""
    parts = split_name(table)
    return None if parts is None else _parent(parts[0] or options.schema, parts[1], catalogue)


def _parent(schema: str | None, name: str, catalogue: Catalogue) -> Table | None:
    try:
        known = catalogue.table(schema, name)
    except TableRefusedError:  # its shape cannot be determined either, which reports the problem
        return None
    return None if known is None else known.parent


def child_tables(
    table: str, catalogue: Catalogue, options: TriggerlessOptions, where: str
) -> tuple[str, ...]:
    """Names the child tables of a compared table.

    Raises ``FatalError`` if it is a child table itself, or unknown, or shares a child table.
    """
    parent = parent_of(table, catalogue, options)
    if parent is not None:
        raise FatalError(
            f"{where}: {table} is a child table of {parent.name}, which publishes its rows as values:"
            f" compare {parent.name} instead"
        )
    known = find_table(table, catalogue, options, where).known
    for child in known.children:
        owner = _parent(known.schema, child, catalogue)
        if owner is not None and owner.name != known.name:
            raise FatalError(
                f"{where}: {child} is a child table of {owner.name} and of {known.name}: declare it in the"
                f" children of one of them, and refer to the other in references"
            )
    return tuple(known.children)


def _child_shape(
    parent: TableShape, found: FoundTable, name: str, columns: Sequence[str], where: str
) -> TableShape:
    """Determines the shape of a child table.  Raises ``FatalError`` if it does not fit its parent."""
    child = found.known.children[name]

    def find(column: str) -> str:
        own_name = find_name(column, columns)
        if own_name is None:
            raise FatalError(
                f"{where}: child table {name} of {parent.source_name} has no column {column}: export it,"
                f" or correct [tables.{parent.table}.children]"
            )
        return own_name

    attributes: dict[str, str] = {}
    octets = set()
    for column in child.columns:
        attribute = found.names.column(parent.source_name, found.target, attribute_of(name, column))
        assert not isinstance(attribute, RecordFault)  # attributes are columns of the class
        attributes[attribute.name] = find(column)
        if attribute.octet:
            octets.add(attributes[attribute.name])
    links = _links(parent, found.known, name, child, where)
    return TableShape(
        source_name=name,
        schema=parent.schema,
        table=parent.table,
        read=tuple(columns),
        key=tuple(replace(part, read=find(links[part.name.casefold()])) for part in parent.key),
        columns=tuple(attributes),
        others=tuple(attributes.values()),
        octets=frozenset(octets),
    )


def _links(
    parent: TableShape, known: Table, name: str, child: ChildTable, where: str
) -> Mapping[str, str]:
    """Returns the child's column for each column of the parent's key, whose name is case-folded."""
    key = child.key or known.key
    links = dict(zip(map(str.casefold, key), child.link or key, strict=False))
    if links.keys() != {part.name.casefold() for part in parent.key}:
        raise FatalError(
            f"{where}: child table {name} is linked to a part of the key of {parent.source_name}, so a row"
            " may belong to several objects: link it to the whole key, or leave it out of the class with"
            ' child_columns = "reject"'
        )
    return links
