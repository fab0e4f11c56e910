"""Data columns of a change table as text, in the form that documents are made of."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from publisher.errors import FatalError
from publisher.model.catalogue import Catalogue
from publisher.sources.change_table.change_seq import Flags
from publisher.sources.change_table.layout import Layout
from publisher.sources.change_table.options import Options
from publisher.sources.columns.base64_columns import column_texts
from publisher.sources.columns.object_names import Column, Fault, Names, Target


class Columns:
    """The data columns of one table: their names in documents, the text of their values."""

    def __init__(self, layout: Layout, names: Names, options: Options, where: str) -> None:
        """Raises ``FatalError`` where the table is not known to a database that was asked."""
        target = names.target(layout.table)
        if isinstance(target, Fault):
            raise FatalError(f"{where}: {target.detail}; or set source_table")
        self.target: Target = target
        found = {name: names.column(layout.table, target, name) for name in layout.data}
        self.faults = {name: one for name, one in found.items() if isinstance(one, Fault)}
        """Columns that the table does not have."""
        self._known: Mapping[str, Column] = {
            name: one for name, one in found.items() if isinstance(one, Column)
        }
        self._binary_text = options.binary_text
        self._where = where

    def name(self, column: str) -> str:
        """The name of a column in documents."""
        known = self._known.get(column)
        return known.name if known else column

    def text(self, column: str, array: pa.Array) -> tuple[pa.Array, Flags]:
        """Text of the values of a column, binary ones as Base64, and which of them have one."""
        known = self._known.get(column)
        return column_texts(
            array,
            f"{self._where}: column {column}",
            octet=known is not None and known.octet,
            untyped=self.target.known is None,
            binary_text=self._binary_text,
        )


def known_key(layout: Layout, catalogue: Catalogue | None, options: Options) -> tuple[str, ...]:
    """The primary key that a database or ``[tables]`` has of the table, if one knows it."""
    if catalogue is None:
        return ()
    target = Names(catalogue, options.schema, options.identifier_case, 1).target(layout.table)
    return () if isinstance(target, Fault) or target.known is None else target.known.key


def key_of(
    layout: Layout, shown: list[str], known: tuple[str, ...], options: Options, where: str
) -> tuple[str, ...]:
    """The primary key by ``.dfm``, database, masks of deletes, or settings, in this order.

    ``shown`` are the columns of masks of deletes, ``known`` those of the database.  Raises
    ``FatalError`` where two of them differ or none says anything.
    """
    said = {
        "the .dfm": layout.key,
        "the database or [tables]": known,
        "masks of deletes": tuple(shown) if options.key_from_deletes else (),
        "the setting key": options.key,
    }
    spelled = {name.casefold(): name for name in layout.data}
    found: dict[str, tuple[str, ...]] = {}
    for who, columns in said.items():
        if columns:
            absent = [name for name in columns if name.casefold() not in spelled]
            if absent:
                raise FatalError(
                    f"{where}: {who} has the key column {absent[0]}, and the change table"
                    " has no such column; mend the key, or keep the column in the task"
                )
            found[who] = tuple(spelled[name.casefold()] for name in columns)
    if not found:
        raise FatalError(
            f"{where}: the primary key of its table is not known: there is no .dfm, no database, no"
            " delete with a mask; set key"
        )
    (first, key), *others = found.items()
    for who, other in others:
        if set(other) != set(key):
            raise FatalError(
                f"{where}: the key is {', '.join(key)} by {first} and"
                f" {', '.join(other)} by {who}; mend one of them (key_from_deletes = false where deletes"
                " show a unique index)"
            )
    return key
