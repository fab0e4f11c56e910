"""Names and keys of tables whose columns the settings declare, spelled as in the catalogue.

The rows of a child table belong to the objects of its class: they have the table and the key of the parent,
and their columns of values are attributes of the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from publisher.errors import FatalError
from publisher.formats.columns.key_lanes import key_lanes
from publisher.formats.columns.key_texts import ColumnKeys, canonical_keys, join_key
from publisher.model.catalogue import (
    Catalogue,
    ColumnKind,
    JobCatalogue,
    LayeredCatalogue,
    Table,
)
from publisher.model.classes import attribute_of
from publisher.model.keys import IdentifierCase, KeyForm, merged_names
from publisher.model.lanes import table_hash
from publisher.model.names import find_name


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
    key_names: tuple[str, ...]
    """Names of the key's columns in keys, in the order of ``key``."""
    values: tuple[int, ...] | None
    """Places of the columns that hold values of a child table; ``None`` for the table of a class."""
    child: str | None
    """Name of the child table; ``None`` for the table of a class."""

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

        ``columns`` are the declared names in order.  Raises ``FatalError`` for a child table without the
        key of its parent, or without its columns of values.
        """
        described = catalogue.table(declared.schema, declared.name)
        if described is not None and described.parent is not None:
            parts = _parts_of_child(described.name, described.parent, columns, case)
            return cls(**parts, **subclass_fields)
        known = _known_table(declared, catalogue, case)
        schema = declared.schema or known.schema
        if schema is not None:
            schema = case.apply(schema, known.schema)
        table = case.apply(declared.name, known.name)
        catalogued = [known.column(name) for name in columns]
        spelled = tuple(case.apply(name, c) for name, c in zip(columns, catalogued, strict=True))
        key = tuple(sorted(map(columns.index, declared.key), key=spelled.__getitem__))
        return cls(
            schema=schema,
            table=table,
            columns=spelled,
            key=key,
            key_names=tuple(spelled[place] for place in key),
            values=None,
            child=None,
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
        names = self.key_names
        parts = [part for part in plain if part is not None]
        if len(parts) < len(names):
            return canonical_keys(self.form, names, texts)
        return ColumnKeys(join_key(names, parts), {})

    def lanes(self, keys: pa.Array, lanes: int) -> pa.Array:
        """Computes the lane of each key."""
        return pa.array(key_lanes(self.hash, keys, lanes), pa.int32())


def _known_table(declared: Table, catalogue: Catalogue, case: IdentifierCase) -> Table:
    """Describes a table; raises ``FatalError`` if ``case`` would make one name of two."""
    layers = LayeredCatalogue(catalogue, JobCatalogue([declared]))
    known = layers.table(declared.schema, declared.name)
    assert known is not None  # the settings describe it
    merged = merged_names(known, case)
    if merged is not None:
        raise FatalError(merged)
    return known


def _parts_of_child(
    name: str, parent: Table, columns: Sequence[str], case: IdentifierCase
) -> dict[str, Any]:
    """Builds the fields of the names of a child table."""
    child = parent.children[name]
    places = _places_in_child(name, parent, columns)
    attributes = {places[column]: attribute_of(name, column) for column in child.columns}
    link = {places[column]: key for column, key in zip(child.link, child.key, strict=True)}
    key_names = {place: case.apply(column, column) for place, column in link.items()}
    key = tuple(sorted(link, key=lambda place: key_names[place]))
    schema = parent.schema and case.apply(parent.schema, parent.schema)
    table = case.apply(parent.name, parent.name)
    known = attributes | link
    return {
        "schema": schema,
        "table": table,
        "columns": tuple(
            case.apply(attributes.get(place, column), attributes.get(place))
            for place, column in enumerate(columns)
        ),
        "key": key,
        "key_names": tuple(key_names[place] for place in key),
        "values": tuple(sorted(attributes)),
        "child": name,
        "kinds": tuple(
            parent.columns.get(known[place]) if place in known else None
            for place in range(len(columns))
        ),
        "form": KeyForm(dict(parent.columns), case, parent.columns),
        "hash": table_hash(schema, table),
    }


def _places_in_child(name: str, parent: Table, columns: Sequence[str]) -> dict[str, int]:
    """Finds the places of the link and of the columns of values of a child table."""
    child = parent.children[name]
    advice = f"name it in [[sources.tables]], or fix [tables.{parent.name}.children]"
    if not child.link:
        raise FatalError(
            f"the columns of {name} that hold the key of {parent.name} are not known: name them as link in"
            f" [tables.{parent.name}.children.{name}], or the key of {parent.name} in [tables]"
        )
    places: dict[str, int] = {}
    for column in (*child.link, *child.columns):
        declared = find_name(column, columns)
        if declared is None:
            raise FatalError(
                f"the records of the child table {name} lack its column {column}: {advice}"
            )
        places[column] = columns.index(declared)
    return places
