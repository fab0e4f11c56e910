"""Data columns of a change table as text, in the form that documents are made of."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from publisher.errors import FatalError
from publisher.model.catalogue import Catalogue
from publisher.sources.change_table.change_seq import Flags
from publisher.sources.change_table.layout import ChangeTableLayout
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.columns.base64_columns import column_texts
from publisher.sources.columns.object_names import Column, Fault, Names, Target


class DataColumns:
    """The data columns of one table: their names in documents, the text of their values."""

    def __init__(
        self, layout: ChangeTableLayout, names: Names, options: ChangeTableOptions, where: str
    ) -> None:
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


def known_key(
    layout: ChangeTableLayout, catalogue: Catalogue | None, options: ChangeTableOptions
) -> tuple[str, ...]:
    """The primary key that a database or ``[tables]`` has of the table, if one knows it."""
    if catalogue is None:
        return ()
    target = Names(catalogue, options.schema, options.identifier_case, 1).target(layout.table)
    return () if isinstance(target, Fault) or target.known is None else target.known.key


def key_of(
    layout: ChangeTableLayout,
    shown: list[str],
    known: tuple[str, ...],
    options: ChangeTableOptions,
    where: str,
) -> tuple[str, ...]:
    """The primary key by ``.dfm``, database, masks of DELETE records, or settings, in this order.

    ``shown`` are the columns of those masks, ``known`` those of the database.

    Raises:
        FatalError: Two of them differ, or none names a key.
    """
    named = {
        "the .dfm": layout.key,
        "the database or [tables]": known,
        "masks of DELETE records": tuple(shown) if options.key_from_deletes else (),
        "the setting key": options.key,
    }
    keys = {who: _spell(key, who, layout, where) for who, key in named.items() if key}
    if not keys:
        raise FatalError(
            f"{where}: the primary key of its table is not known: no .dfm, no database and no DELETE with"
            " a mask names it; set key"
        )
    (first, key), *others = keys.items()
    for who, other in others:
        if set(other) != set(key):
            raise FatalError(
                f"{where}: the key is {', '.join(key)} by {first} and {', '.join(other)} by {who}; fix one"
                " of them (key_from_deletes = false if DELETE records show a unique index)"
            )
    return key


def _spell(
    key: tuple[str, ...], who: str, layout: ChangeTableLayout, where: str
) -> tuple[str, ...]:
    """Spells key columns as the change table does."""
    spelled = {name.casefold(): name for name in layout.data}
    absent = [name for name in key if name.casefold() not in spelled]
    if absent:
        raise FatalError(
            f"{where}: {who} has the key column {absent[0]}, but the change table has no such column;"
            " fix the key, or keep the column in the task"
        )
    return tuple(spelled[name.casefold()] for name in key)
