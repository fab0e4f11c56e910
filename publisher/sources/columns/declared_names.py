"""Names and keys of tables whose columns the settings declare, spelled as in the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from publisher.model.catalogue import Catalogue, ColumnKind, JobCatalogue, LayeredCatalogue, Table
from publisher.model.keys import IdentifierCase, KeyForm
from publisher.model.lanes import table_hash
from publisher.sources.columns.key_lanes import key_lanes
from publisher.sources.columns.key_texts import ColumnKeys, canonical_keys, join_key


@dataclass(frozen=True, slots=True)
class DeclaredNames:
    """Names of a table and its columns in changes, and the form of its keys."""

    schema: str | None
    table: str
    columns: tuple[str, ...]
    """Names in changes, in the order of their declaration."""
    key: tuple[int, ...]
    """Places of the key's columns, sorted by the code points of the columns' names."""
    kinds: tuple[ColumnKind | None, ...]
    """By column."""
    form: KeyForm
    hash: int

    @classmethod
    def of(
        cls,
        declared: Table,
        columns: Sequence[str],
        catalogue: Catalogue,
        case: IdentifierCase,
        **subclass_fields: Any,
    ) -> Self:
        """Builds the names of a table, with the catalogue's spelling and types, or else the declared ones.

        ``columns`` are the declared names in order.
        """
        layers = LayeredCatalogue(catalogue, JobCatalogue([declared]))
        known = layers.table(declared.schema, declared.name)
        assert known is not None  # the settings describe it
        schema = declared.schema or known.schema
        if schema is not None:
            schema = case.apply(schema, known.schema)
        table = case.apply(declared.name, known.name)
        catalogued = [known.column(name) for name in columns]
        spelled = tuple(case.apply(name, c) for name, c in zip(columns, catalogued, strict=True))
        places = (columns.index(name) for name in declared.key)
        return cls(
            schema=schema,
            table=table,
            columns=spelled,
            key=tuple(sorted(places, key=lambda place: spelled[place])),
            kinds=tuple(None if name is None else known.columns[name] for name in catalogued),
            form=KeyForm(dict(known.columns), case, known.columns),
            hash=table_hash(schema, table),
            **subclass_fields,
        )

    def join_keys(self, texts: Sequence[pa.Array], plain: Sequence[pa.Array | None]) -> ColumnKeys:
        """Builds the keys of rows from the texts of the key's columns.

        ``plain`` has each column's values as they appear in keys, or ``None`` if they must be converted
        one by one.
        """
        names = [self.columns[place] for place in self.key]
        parts = [part for part in plain if part is not None]
        if len(parts) < len(names):
            return canonical_keys(self.form, names, texts)
        return ColumnKeys(join_key(names, parts), {})

    def lanes(self, keys: pa.Array, lanes: int) -> pa.Array:
        """Computes the lane of each key."""
        return pa.array(key_lanes(self.hash, keys, lanes), pa.int32())
