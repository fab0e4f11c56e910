"""Names and keys of the tables of a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from publisher.formats.columns.declared_names import DeclaredNames
from publisher.formats.columns.key_texts import ColumnKeys, quote_values
from publisher.formats.dispatch_queue.images.column_types import WHOLE, ImageColumn
from publisher.formats.dispatch_queue.images.decode import ImageReader
from publisher.formats.dispatch_queue.images.layout import ImageLayout, image_layout
from publisher.formats.dispatch_queue.options import DispatchQueueOptions, QueueTable
from publisher.formats.dispatch_queue.rows.rows import Destination
from publisher.model.catalogue import Catalogue, ColumnKind, Table


@dataclass(frozen=True, slots=True)
class QueueTableNames(DeclaredNames):
    """Names of a table and its columns in changes, the form of its keys, and its row images."""

    types: tuple[ImageColumn, ...]
    """Type of each column in the row image."""
    numbers: Mapping[int, int]
    """Index of each column by its ATRNUM."""
    reader: ImageReader

    @classmethod
    def of_table(
        cls,
        table: QueueTable,
        destination: Destination,
        options: DispatchQueueOptions,
        catalogue: Catalogue,
    ) -> Self:
        """Determines the names of a table."""
        types = table.parse_columns()
        numbers = table.numbers or tuple(range(1, len(types) + 1))
        return cls.of(
            describe_table(table, destination, options),
            [column.name for column in types],
            catalogue,
            options.identifier_case,
            types=types,
            numbers={number: place for place, number in enumerate(numbers)},
            reader=ImageReader(image_layout(options, table), options.of_table(table), table),
        )

    @property
    def layout(self) -> ImageLayout:
        """Layout of the row images."""
        return self.reader.layout

    @property
    def published(self) -> tuple[int, ...]:
        """Indexes of the columns outside the key whose values are published."""
        places = self.values
        if places is None:
            places = tuple(place for place in range(len(self.types)) if place not in self.key)
        return tuple(place for place in places if self.types[place].type != "BLOB")

    def keys(self, texts: list[pa.Array]) -> ColumnKeys:
        """Builds the keys of rows from the texts of all columns."""
        parts = [texts[place] for place in self.key]
        complete = np.all([p.is_valid().to_numpy(zero_copy_only=False) for p in parts], axis=0)
        plain = [self._plain(place, part) for place, part in zip(self.key, parts, strict=True)]
        keys = self.join_keys(parts, plain)
        for row in np.flatnonzero(~complete).tolist():
            keys.problems[row] = (
                "a column of the key is NULL; fix the key or null_mode of the table"
            )
        return keys

    def _plain(self, place: int, texts: pa.Array) -> pa.Array | None:
        """Returns the values as they appear in keys; ``None`` if they must be converted one by one."""
        column, kind = self.types[place], self.kinds[place]
        if column.type in WHOLE or (column.type == "DECIMAL" and column.scale == 0):
            return texts
        if kind in (ColumnKind.INT, ColumnKind.DECIMAL):
            return None
        return quote_values(texts)


class QueueNames:
    """Names of the tables of a queue whose columns are known."""

    def __init__(self, options: DispatchQueueOptions, catalogue: Catalogue) -> None:
        self._options = options
        self._catalogue = catalogue
        self._tables: dict[tuple[str, int], QueueTable | None] = {}
        self._names: dict[tuple[str | None, int, Destination | None], QueueTableNames] = {}

    def depends_on_destination(self, node: str, number: int) -> bool:
        """Tests whether a table is named after its destination, because the settings give no name."""
        table = self._table(node, number)
        return table is not None and table.name is None

    def _table(self, node: str, number: int) -> QueueTable | None:
        key = node, number
        if key not in self._tables:
            table = self._options.table(node, number)
            self._tables[key] = table if table is not None and table.columns else None
        return self._tables[key]

    def of(self, node: str, number: int, destination: Destination) -> QueueTableNames | None:
        """Returns the names of a table in a database; ``None`` if its columns are unknown."""
        table = self._table(node, number)
        if table is None:
            return None
        key = table.node, number, destination if table.name is None else None
        if key not in self._names:
            self._names[key] = QueueTableNames.of_table(
                table, destination, self._options, self._catalogue
            )
        return self._names[key]


def describe_table(
    table: QueueTable, destination: Destination, options: DispatchQueueOptions
) -> Table:
    """Describes a table from the settings; without a name there, it has the name at its destination."""
    schema = table.schema or options.schema
    if schema is None and table.name is None:
        schema = destination.owner or None
    kinds = {column.name: options.kind_of(column) for column in table.parse_columns()}
    return Table(schema, table.name or destination.table, table.key, kinds)
