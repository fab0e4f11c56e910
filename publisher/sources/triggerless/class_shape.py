"""The shape of a class: a compared table with the child tables that hold its multi-valued attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from publisher.errors import FatalError, TableRefusedError
from publisher.model.catalogue import Catalogue, ChildTable, Table
from publisher.model.classes import attribute_of
from publisher.model.names import find_name
from publisher.sources.columns.object_names import RecordFault, split_name
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.table_shape import (
    FoundTable,
    TableShape,
    find_table,
)


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


def with_children(
    shape: TableShape,
    columns: Mapping[str, Sequence[str]],
    catalogue: Catalogue,
    options: TriggerlessOptions,
    where: str,
) -> TableShape:
    """Adds the child tables to the shape of their parent; ``columns`` has their columns in the input.

    Raises ``FatalError`` if a child table does not fit its parent.
    """
    if not columns:
        return shape
    found = find_table(shape.source_name, catalogue, options, where)
    children = tuple(
        _child_shape(shape, found, name, found.known.children[name], names, where)
        for name, names in columns.items()
    )
    attributes = sorted(name for child in children for name in child.columns)
    return replace(
        shape,
        columns=(*shape.columns, *attributes),
        children=children,
        multiple=shape.multiple | frozenset(attributes),
    )


def _child_shape(
    parent: TableShape,
    found: FoundTable,
    name: str,
    child: ChildTable,
    columns: Sequence[str],
    where: str,
) -> TableShape:
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
