"""Names and keys of the tables of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.declared_names import DeclaredNames
from publisher.formats.columns.key_texts import ColumnKeys, quote_values
from publisher.formats.linkexpress.options import ExtractedTable
from publisher.formats.linkexpress.types import Item
from publisher.model.catalogue import Catalogue, ColumnKind
from publisher.model.keys import IdentifierCase, format_key

_INTEGERS = ("SMALLINT", "INTEGER")
_DECIMALS = ("NUMERIC", "DECIMAL")


@dataclass(frozen=True, slots=True)
class ExtractedTableNames(DeclaredNames):
    """The names of a table and its items in changes, and the form of its keys."""

    items: tuple[Item, ...]
    certain: frozenset[int]
    """Places of the items that deletes show for certain and updates never change: the key of the table."""

    @classmethod
    def of_table(
        cls, table: ExtractedTable, schema: str | None, catalogue: Catalogue, case: IdentifierCase
    ) -> Self:
        """Determines the names of a table.  Raises ``KeyProblem`` if they cannot be in a key."""
        items = table.parse_items()
        columns = [item.name for item in items]
        certain = frozenset(columns.index(name) for name in table.key)
        declared = table.definition(schema)
        names = cls.of(declared, columns, catalogue, case, items=items, certain=certain)
        format_key([(name, "") for name in names.key_names])
        return names

    @property
    def published(self) -> tuple[int, ...]:
        """Numbers of the items outside the key, of a child table those with values."""
        if self.values is not None:
            return self.values
        return tuple(n for n in range(len(self.columns)) if n not in self.key)

    def keys(self, texts: list[pa.Array]) -> ColumnKeys:
        """Builds the canonical keys of rows from the texts of the key items; no text is null."""
        plain = [self._plain(place, text) for place, text in zip(self.key, texts, strict=True)]
        return self.join_keys(texts, plain)

    def _plain(self, place: int, texts: pa.Array) -> pa.Array | None:
        """Returns the values as they appear in keys; ``None`` if they must be converted one by one."""
        item, kind = self.items[place], self.kinds[place]
        numeric = kind in (ColumnKind.INT, ColumnKind.DECIMAL)
        if item.type in _INTEGERS or (numeric and item.type in _DECIMALS and not item.scale):
            return texts
        if kind is ColumnKind.DECIMAL and item.type in _DECIMALS:
            return pc.replace_substring_regex(texts, r"\.?0+$", "")
        if numeric:
            return None
        return quote_values(texts)
