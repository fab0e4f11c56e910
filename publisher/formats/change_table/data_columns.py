"""Data columns of a change table as text, in the form that documents use."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from publisher.errors import FatalError
from publisher.formats.change_table.change_seq import Flags
from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.columns.base64_columns import column_texts
from publisher.formats.columns.object_names import NamedColumn, Names, RecordFault, TargetTable
from publisher.model.catalogue import ChildTable


def link_of(target: TargetTable) -> dict[str, str]:
    """Returns the columns of a child table that hold the key of its class, each with the key's column.

    Empty for the table of a class."""
    child = _child_of(target)
    return {
        link: target.form.column(key)[0] for link, key in zip(child.link, child.key, strict=True)
    }


def value_columns(target: TargetTable) -> tuple[str, ...]:
    """Returns the columns of a child table that hold values; empty for the table of a class."""
    return tuple(_child_of(target).columns)


def _child_of(target: TargetTable) -> ChildTable:
    if target.known is None or target.child is None:
        return ChildTable()
    return target.known.children[target.child]


class DataColumns:
    """The data columns of one table: their names in documents, the text of their values."""

    def __init__(
        self, layout: ChangeTableLayout, names: Names, options: ChangeTableOptions, where: str
    ) -> None:
        """Raises ``FatalError`` if the name of the table cannot be resolved."""
        target = names.target(layout.table)
        if isinstance(target, RecordFault):
            raise FatalError(f"{where}: {target.detail}; or set source_table")
        self.target: TargetTable = target
        columns = {name: names.column(layout.table, target, name) for name in layout.data}
        self.faults = {
            name: fault
            for name, fault in columns.items()
            if isinstance(fault, RecordFault) and target.child is None
        }
        """Columns that the table does not have; a child table may have columns without values."""
        self._known: Mapping[str, NamedColumn] = {
            name: column for name, column in columns.items() if isinstance(column, NamedColumn)
        }
        self._links = {name.casefold(): key for name, key in link_of(target).items()}
        self._binary_text = options.binary_text
        self._where = where

    def name(self, column: str) -> str:
        """The name of a column in documents."""
        known = self._known.get(column)
        return known.name if known else column

    def key_name(self, column: str) -> str:
        """The name of a key column in keys; for a child table, the column of its class that it holds."""
        return self._links.get(column.casefold()) or self.name(column)

    def holds_values(self, column: str) -> bool:
        """Returns whether a column of a child table holds values of an attribute."""
        return column in self._known

    def text(self, column: str, array: pa.Array) -> tuple[pa.Array, Flags]:
        """Converts the values of a column to text, binary ones to Base64; marks the valid values."""
        known = self._known.get(column)
        return column_texts(
            array,
            f"{self._where}: column {column}",
            octet=known is not None and known.octet,
            untyped=self.target.known is None,
            binary_text=self._binary_text,
        )
