"""Classes: builds the class of a table from the keys of its own and of its child tables.

A class is a parent table with its child tables.  Each child table holds the values of a multi-valued
attribute, ``usr_phone.phoneno``; columns that refer to the key of a class are references.  Keys come from
the database or from ``[tables]``, where the description of ``[tables]`` takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from publisher.model.catalogue import ChildTable, Reference, Table

ChildRowEvents = Literal["reject", "read"]


@dataclass(frozen=True, slots=True)
class ClassOptions:
    """``[classes]``: how tables become classes, attributes and references."""

    minimal_metadata: bool = False
    """Publish the rows of each table without regard to children and references."""
    child_row_events: ChildRowEvents = "reject"
    """Handling of events of whole rows (types 4, 5, 6) of a child table: reject them, or read the
    current values of its attributes as type 8 does."""
    child_after_delete: Literal["ignore", "publish"] = "ignore"
    """Handling of events on columns of child tables after the delete of their object, which cascades
    of the database write, until the object is inserted again."""
    enable_refs: bool = True
    """Publish columns of foreign keys as references; ``false`` publishes their plain values."""


class ForeignKey(NamedTuple):
    """A foreign key of a table."""

    columns: tuple[str, ...]
    schema: str | None
    table: str
    """The table that it refers to."""
    target: tuple[str, ...]
    """Columns of this table, one for each of ``columns``."""


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A table with its foreign keys."""

    table: Table
    foreign_keys: tuple[ForeignKey, ...] = ()


class Omission(NamedTuple):
    """A child table or column that is not part of a class as its keys suggest, and the reason."""

    name: str
    reason: str
    """The reason, ending with advice."""


class ChildFindings(NamedTuple):
    """A child table as part of a class: its description, or the reason why it is left out."""

    child: ChildTable | None
    references: Mapping[str, Reference]
    """By name of the child's column."""
    omissions: tuple[Omission, ...] = ()


@dataclass(frozen=True, slots=True)
class TableClass:
    """A class with the parts of its tables that are left out."""

    table: Table
    omissions: tuple[Omission, ...] = field(default=())


def attribute_of(child: str, column: str) -> str:
    """The name of the attribute whose values a column of a child table holds."""
    return f"{child}.{column}"


def with_children(
    parent: Table, children: Mapping[str, ChildTable], references: Mapping[str, Reference]
) -> Table:
    """Adds child tables and references to a table; attributes of children follow its own columns."""
    attributes = {
        attribute_of(name, column): kind
        for name, child in children.items()
        for column, kind in child.columns.items()
    }
    own = {name: kind for name, kind in parent.columns.items() if name not in attributes}
    return replace(
        parent,
        columns=own | dict(sorted(attributes.items())),
        children=dict(children),
        references=dict(references),
    )
