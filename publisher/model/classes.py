"""Classes: builds the class of a table from the keys of its own and of its child tables.

A class is a parent table with its child tables.  Each child table holds the values of a multi-valued
attribute, ``usr_phone.phoneno``; columns that refer to the key of a class are references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, NamedTuple

from publisher.errors import TableRefusedError
from publisher.model.catalogue import ChildTable, ColumnKind, Reference, Table
from publisher.model.names import equal_in_any_case

ChildRowEvents = Literal["reject", "read"]


@dataclass(frozen=True, slots=True)
class ClassOptions:
    """``[classes]``: how tables become classes, attributes and references."""

    sync_filter: Literal["schema", "list"] | None = None
    """Choice of classes: ``"schema"``, all tables with a primary key, or ``"list"``, those of
    ``sync_tables``. By default event logs have the classes of ``"schema"``, and other formats publish
    the rows of each table unless ``[tables]`` declares children, references or views."""
    sync_tables: tuple[str, ...] = ()
    """Tables and views that are classes with ``sync_filter = "list"``, as ``table`` or
    ``schema.table``; never child tables."""
    minimal_metadata: bool = False
    """Publish the rows of each table without regard to children and references. Columns of views have one
    value and are no references; the prefixes of their names still describe the key."""
    child_columns: Literal["reject", "each"] = "reject"
    """Handling of child tables with several columns of values, or that are linked to a part of the
    parent's key: reject their events, or make each column an attribute."""
    child_row_events: ChildRowEvents = "reject"
    """Handling of events of whole rows (types 4, 5, 6) of a child table, and of rows of other formats
    that do not hold the value that was removed: reject them, or read the current values of its
    attributes as type 8 does."""
    child_after_delete: Literal["ignore", "publish"] = "ignore"
    """Handling of events on columns of child tables, and ``mv_`` columns of views, after the delete of
    their object or a change of its key in the same run (formats without polls: in the same transaction),
    which cascades of the database write, until an event inserts the object again (types 1, 5, 7) or
    another object gets the key. Each lane remembers the last 100,000 such objects."""
    enable_refs: bool = True
    """Publish columns of foreign keys as references; ``false`` publishes their plain values."""
    enable_meta_identifiers: bool = True
    """Read the prefixes of the column names of views (``pk_``, ``fk_``, ``sv_``, ``mv_``) as
    descriptions of the columns; ``false`` takes them as parts of the names."""

    def lists(self, schema: str | None, name: str) -> bool:
        """Returns whether a table or view may be a class by ``sync_tables``."""
        if self.sync_filter != "list":
            return True
        names = (name, f"{schema}.{name}")
        return any(equal_in_any_case(own, listed) for own in names for listed in self.sync_tables)


class ForeignKey(NamedTuple):
    """A foreign key of a table."""

    columns: tuple[str, ...]
    table: str | None
    """The table that it refers to; ``None`` if this table is in another schema."""
    target: tuple[str, ...]
    """Columns of this table, one for each of ``columns``; empty if they are its primary key."""


class TableKeys(NamedTuple):
    """The foreign keys that concern a table."""

    foreign_keys: tuple[ForeignKey, ...] = ()
    """Those of the table."""
    referring: tuple[str, ...] = ()
    """Tables of the same schema with foreign keys to the table."""


class ChildFindings(NamedTuple):
    """The description of a child table by its keys."""

    child: ChildTable
    references: Mapping[str, Reference]
    """By column of the child table."""
    problem: str | None
    """The reason why it is part of no class, ending with advice."""


ReferenceOf = Callable[[ForeignKey], Reference | None]
"""Returns the reference of a foreign key; ``None`` if its values are plain.

Raises ``TableRefusedError`` for a reference of several columns."""


def attribute_of(child: str, column: str) -> str:
    """The name of the attribute whose values a column of a child table holds."""
    return f"{child}.{column}"


def owner_of(table: Table, foreign_keys: Sequence[ForeignKey]) -> ForeignKey | None:
    """Returns the foreign key to a child table's parent, that of its first constrained column."""
    for column in table.columns:
        keys = [key for key in foreign_keys if column in key.columns]
        if keys:
            return max(keys, key=lambda key: len(key.columns))
    return None


def keyed_child(table: Table, foreign_keys: Sequence[ForeignKey]) -> ForeignKey | None:
    """Returns the foreign key by which a table would be a child table if it had no primary key.

    Example: ``phones (user_id, number, PRIMARY KEY (user_id, number))`` with ``user_id`` referring to
    ``users``.  A join table, whose key consists of foreign keys, is a class for good reason.
    """
    own = [key for key in foreign_keys if set(key.columns) & set(table.key)]
    owner = own[0] if len(own) == 1 else None
    if owner is None or owner.table is None or equal_in_any_case(owner.table, table.name):
        return None
    return owner if set(owner.columns) < set(table.key) else None


def keyed_child_note(table: Table, foreign_keys: Sequence[ForeignKey]) -> str | None:
    """Explains why such a table is a class, and how it becomes a child table; ``None`` for others."""
    owner = keyed_child(table, foreign_keys)
    if owner is None:
        return None
    return (
        f"{table.name} refers to {owner.table} but has a primary key, so it is a class of its own: to "
        f"publish its rows as values of {owner.table}, make PRIMARY KEY ({', '.join(table.key)}) a UNIQUE "
        "constraint, then run ddl again if triggers log the tables"
    )


def describe_child(
    table: Table,
    foreign_keys: Sequence[ForeignKey],
    parent: Table,
    reference_of: ReferenceOf,
    *,
    takes_each_column: bool,
) -> ChildFindings:
    """Describes a child table of ``parent``, to which its owner's foreign key refers."""
    owner = owner_of(table, foreign_keys)
    assert owner is not None  # callers have found the parent by it
    link_of = dict(zip(owner.target or parent.key, owner.columns, strict=False))
    key = tuple(column for column in parent.key if column in link_of)
    link = tuple(link_of[column] for column in key)
    others = [key for key in foreign_keys if key is not owner]
    values = [
        name
        for name in table.columns
        if name not in owner.columns and (name not in table.key or _key_with(others, name))
    ]
    references = {
        key.columns[0]: reference
        for key in others
        if len(key.columns) == 1 and key.columns[0] in values
        if (reference := reference_of(key)) is not None
    }
    child = ChildTable({name: table.columns[name] for name in values}, link, key)
    problems = chain(
        _problems_of_child(table, owner, parent, values, takes_each_column),
        _joint_references(others, reference_of),
    )
    return ChildFindings(child, references, next(problems, None))


def _joint_references(keys: Sequence[ForeignKey], reference_of: ReferenceOf) -> Iterator[str]:
    """Yields the problems of foreign keys of several columns."""
    for key in keys:
        try:
            reference_of(key)
        except TableRefusedError as refused:
            yield refused.message


def _key_with(foreign_keys: Sequence[ForeignKey], column: str) -> ForeignKey | None:
    return next((key for key in foreign_keys if column in key.columns), None)


def _problems_of_child(
    table: Table, owner: ForeignKey, parent: Table, values: Sequence[str], takes_each_column: bool
) -> Iterator[str]:
    target = set(owner.target or parent.key)
    is_link = bool(target) and target <= set(parent.key)
    if not is_link:
        yield (
            f"child table {table.name} refers to {', '.join(owner.target)} of {parent.name}, which is not "
            "its key: refer to the key, or exclude the table"
        )
    if not values:
        yield f"child table {table.name} has no column of values: add one, or exclude the table"
    yield from double_names(parent, table.name, values)
    if takes_each_column:
        return
    advice = f'set child_columns = "each", or declare it in [tables.{parent.name}.children]'
    if is_link and target != set(parent.key):
        yield f"child table {table.name} is linked to a part of the key of {parent.name}: {advice}"
    if len(values) > 1:
        yield f"child table {table.name} has several columns of values, {', '.join(values)}: {advice}"


def double_names(parent: Table, child: str, columns: Iterable[str]) -> Iterator[str]:
    """Yields the problems of columns of a child table whose attributes have the name of a parent's column."""
    for column in columns:
        attribute = attribute_of(child, column)
        if any(equal_in_any_case(own, attribute) for own in parent.columns):
            yield (
                f"column {column} of child table {child} is the attribute {attribute}, and {parent.name} "
                "has a column of this name: rename one of both, or exclude the child table"
            )


def with_children(
    parent: Table, children: Mapping[str, ChildTable], references: Mapping[str, Reference]
) -> Table:
    """Adds child tables and references to a table; attributes of children follow its own columns."""
    attributes = {
        attribute_of(name, column): kind
        for name, child in children.items()
        for column, kind in child.columns.items()
    }
    own = dict(parent.columns)
    if not parent.complete:
        own = dict.fromkeys(references.keys() - attributes.keys(), ColumnKind.STRING) | own
    return replace(
        parent,
        columns=own | dict(sorted(attributes.items())),
        children=dict(children),
        references=dict(references),
    )
