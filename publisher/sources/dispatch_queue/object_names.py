"""Names and keys of the tables of a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.catalogue import Catalogue, ColumnKind, JobCatalogue, LayeredCatalogue, Table
from publisher.model.keys import KeyForm
from publisher.model.lanes import table_hash
from publisher.sources.columns.key_lanes import key_lanes
from publisher.sources.columns.key_texts import canonical_keys, join_key, quote_values
from publisher.sources.dispatch_queue.images.column_types import WHOLE, ImageColumn
from publisher.sources.dispatch_queue.images.decode import ImageReader
from publisher.sources.dispatch_queue.images.layout import ImageLayout, image_layout
from publisher.sources.dispatch_queue.options import DispatchQueueOptions, QueueTable
from publisher.sources.dispatch_queue.rows.rows import Destination


class ImageKeys(NamedTuple):
    """Canonical keys of rows, null for rows without a valid key, and the problems of those rows."""

    texts: pa.Array
    problems: dict[int, str]


@dataclass(frozen=True, slots=True)
class QueueTableNames:
    """Names of a table and its columns in changes, and the form of its keys."""

    schema: str | None
    table: str
    columns: tuple[ImageColumn, ...]
    spelled: tuple[str, ...]
    """Names in changes, by column."""
    numbers: Mapping[int, int]
    """Place of a column by its ATRNUM."""
    key: tuple[int, ...]
    """Places of the key's columns, in the order of the code points of their names."""
    kinds: tuple[ColumnKind | None, ...]
    form: KeyForm
    hash: int
    reader: ImageReader

    @property
    def layout(self) -> ImageLayout:
        """Layout of the row images."""
        return self.reader.layout

    @property
    def others(self) -> tuple[int, ...]:
        """Places of the columns whose values are published."""
        omit = self.reader.options.blob_columns == "omit"
        return tuple(
            place
            for place, column in enumerate(self.columns)
            if place not in self.key and not (omit and column.type == "BLOB")
        )

    def keys(self, texts: list[pa.Array]) -> ImageKeys:
        """Builds the keys of rows from the texts of all columns."""
        mine = [texts[place] for place in self.key]
        names = [self.spelled[place] for place in self.key]
        complete = np.all([t.is_valid().to_numpy(zero_copy_only=False) for t in mine], axis=0)
        simple = [
            self._simple_texts(place, text) for place, text in zip(self.key, mine, strict=True)
        ]
        problems: dict[int, str] = {}
        if any(part is None for part in simple):
            keys, problems = canonical_keys(self.form, names, mine)
        else:
            keys = join_key(names, simple)
        for row in np.flatnonzero(~complete).tolist():
            problems[row] = "a column of the key is NULL; fix the key or null_mode of the table"
        return ImageKeys(keys, problems)

    def _simple_texts(self, place: int, texts: pa.Array) -> pa.Array | None:
        """The canonical texts of a column; ``None`` if each value needs its own treatment."""
        column, kind = self.columns[place], self.kinds[place]
        if column.type in WHOLE or (column.type == "DECIMAL" and column.scale == 0):
            return texts
        if kind in (ColumnKind.INT, ColumnKind.DECIMAL):
            return None
        return quote_values(texts)

    def lanes(self, keys: pa.Array, lanes: int) -> pa.Array:
        """The lane of each key."""
        return pa.array(key_lanes(self.hash, keys, lanes), pa.int32())


class QueueNames:
    """Names of the tables of a queue, as far as their columns are known."""

    def __init__(self, options: DispatchQueueOptions, catalogue: Catalogue) -> None:
        self._options = options
        self._catalogue = catalogue
        self._tables: dict[tuple[str, int], QueueTable | None] = {}
        self._found: dict[tuple[str | None, int, Destination | None], QueueTableNames] = {}

    def depends_on_destination(self, node: str, number: int) -> bool:
        """Tells whether a table has the name of its destination because the settings give none."""
        table = self._table(node, number)
        return table is not None and table.name is None

    def _table(self, node: str, number: int) -> QueueTable | None:
        key = node, number
        if key not in self._tables:
            table = self._options.table(node, number)
            self._tables[key] = table if table is not None and table.columns else None
        return self._tables[key]

    def of(self, node: str, number: int, destination: Destination) -> QueueTableNames | None:
        """Names of a database's table; ``None`` if its columns are unknown."""
        table = self._table(node, number)
        if table is None:
            return None
        key = table.node, number, destination if table.name is None else None
        if key not in self._found:
            self._found[key] = names_of(table, destination, self._options, self._catalogue)
        return self._found[key]


def describe_table(
    table: QueueTable, destination: Destination, options: DispatchQueueOptions
) -> Table:
    """Describes a table by the settings; without a name there it has that of its destination."""
    schema = table.schema or options.schema
    if schema is None and table.name is None:
        schema = destination.owner or None
    kinds = {column.name: options.kind_of(column) for column in table.parse_columns()}
    return Table(schema, table.name or destination.table, table.key, kinds)


def names_of(
    table: QueueTable, destination: Destination, options: DispatchQueueOptions, catalogue: Catalogue
) -> QueueTableNames:
    """Determines the names of a table: the catalogue's spelling and types, or else those of the settings."""
    columns, case = table.parse_columns(), options.identifier_case
    own = describe_table(table, destination, options)
    schema = own.schema
    known = LayeredCatalogue(catalogue, JobCatalogue([own])).table(schema, own.name)
    assert known is not None  # the settings describe it
    schema = schema or known.schema
    spelled_table = case.apply(own.name, known.name)
    if schema is not None:
        schema = case.apply(schema, known.schema)
    theirs = [known.column(column.name) for column in columns]
    spelled = tuple(case.apply(c.name, t) for c, t in zip(columns, theirs, strict=True))
    names = [column.name for column in columns]
    numbers = table.numbers or tuple(range(1, len(columns) + 1))
    return QueueTableNames(
        schema=schema,
        table=spelled_table,
        columns=columns,
        spelled=spelled,
        numbers={number: place for place, number in enumerate(numbers)},
        key=tuple(sorted((names.index(n) for n in table.key), key=lambda place: spelled[place])),
        kinds=tuple(None if other is None else known.columns[other] for other in theirs),
        form=KeyForm(dict(known.columns), case, known.columns),
        hash=table_hash(schema, spelled_table),
        reader=ImageReader(image_layout(options, table), options.of_table(table), table),
    )
