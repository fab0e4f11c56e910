"""Names and keys of the tables of a file."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.catalogue import Catalogue, ColumnKind, JobCatalogue, LayeredCatalogue
from publisher.model.keys import IdentifierCase, KeyForm, format_key
from publisher.model.lanes import table_hash
from publisher.sources.columns.key_lanes import key_lanes
from publisher.sources.columns.key_texts import canonical_keys, join_key, quote_values
from publisher.sources.linkexpress.options import ExtractedTable
from publisher.sources.linkexpress.types import Item

_INTEGERS = ("SMALLINT", "INTEGER")
_DECIMALS = ("NUMERIC", "DECIMAL")


@dataclass(frozen=True, slots=True)
class ExtractedTableNames:
    """The names of a table and its columns in changes, and the form of its keys."""

    schema: str | None
    table: str
    columns: tuple[str, ...]
    """By item."""
    key: tuple[int, ...]
    """Numbers of the items of the key, in the order of their names."""
    kinds: tuple[ColumnKind | None, ...]
    """By item."""
    form: KeyForm
    hash: int

    @property
    def others(self) -> tuple[int, ...]:
        """Numbers of the items outside the key."""
        return tuple(n for n in range(len(self.columns)) if n not in self.key)

    def keys(
        self, items: tuple[Item, ...], texts: list[pa.Array]
    ) -> tuple[pa.Array, dict[int, str]]:
        """Builds the canonical keys of rows from the texts of the items of the key, which are not null.

        Returns problems by row, too.
        """
        names = [self.columns[number] for number in self.key]
        written = [
            self._plain(items[n], self.kinds[n], text)
            for n, text in zip(self.key, texts, strict=True)
        ]
        if any(part is None for part in written):
            return canonical_keys(self.form, names, texts)
        return join_key(names, written), {}

    def _plain(self, item: Item, kind: ColumnKind | None, texts: pa.Array) -> pa.Array | None:
        """The values as in a key; ``None`` if they must be checked one by one."""
        numeric = kind in (ColumnKind.INT, ColumnKind.DECIMAL)
        if item.type in _INTEGERS or (numeric and item.type in _DECIMALS and not item.scale):
            return texts
        if kind is ColumnKind.DECIMAL and item.type in _DECIMALS:
            return pc.replace_substring_regex(texts, r"\.?0+$", "")
        if numeric:
            return None
        return quote_values(texts)

    def lanes(self, keys: pa.Array, lanes: int) -> pa.Array:
        """Lane of each key."""
        return pa.array(key_lanes(self.hash, keys, lanes), pa.int32())


def names_of(
    table: ExtractedTable, schema: str | None, catalogue: Catalogue, case: IdentifierCase
) -> ExtractedTableNames:
    """The names of a table, spelled as in the catalogue, else as in its definition."""
    own = table.definition(schema)
    known = LayeredCatalogue(catalogue, JobCatalogue([own])).table(own.schema, own.name)
    assert known is not None  # the definition knows it
    schema = own.schema or known.schema
    spelled = case.apply(table.name, known.name)
    if schema is not None:
        schema = case.apply(schema, known.schema)
    items = [item.name for item in table.parse_items()]
    theirs = [known.column(name) for name in items]
    columns = tuple(case.apply(name, other) for name, other in zip(items, theirs, strict=True))
    kinds = tuple(None if other is None else known.columns[other] for other in theirs)
    numbers = sorted((items.index(name) for name in table.key), key=lambda n: columns[n])
    form = KeyForm(dict(known.columns), case, known.columns)
    format_key([(columns[n], "") for n in numbers])
    return ExtractedTableNames(
        schema, spelled, columns, tuple(numbers), kinds, form, table_hash(schema, spelled)
    )
