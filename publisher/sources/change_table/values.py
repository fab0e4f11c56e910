"""Data columns of a change table as text, in the form that documents are made of."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from publisher.errors import FatalError
from publisher.sources.change_table.layout import Layout
from publisher.sources.change_table.options import Options
from publisher.sources.change_table.seq import Flags
from publisher.sources.columns import plain, texts
from publisher.sources.event_log_names import Column, Fault, Names, Target


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
        array = plain(array)
        known = self._known.get(column)
        octet = known is not None and known.octet
        if pa.types.is_binary(array.type) and (octet or self.target.known is None):
            return _mapped(array, _encoded)
        text, right = texts(array)
        if not octet or text.null_count == len(text):
            return text, right
        if self._binary_text is None:
            raise FatalError(
                f"{self._where}: column {column} is binary, and how text writes it is not"
                ' documented; set binary_text = "hex" or "base64"'
            )
        again, good = _mapped(text, _of_hex if self._binary_text == "hex" else _of_base64)
        return again, right & good


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


def _mapped(array: pa.Array, form: object) -> tuple[pa.Array, Flags]:
    right = np.ones(len(array), bool)
    values: list[str | None] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            values.append(None if value is None else form(value))  # type: ignore[operator]
        except (ValueError, binascii.Error):
            values.append(value)
            right[row] = False
    return pa.array(values, pa.string()), right


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _of_hex(value: str) -> str:
    digits = value[2:] if value[:2] in ("0x", "0X", "\\x") else value
    return _encoded(bytes.fromhex(digits))


def _of_base64(value: str) -> str:
    return _encoded(base64.b64decode("".join(value.split()), validate=True))
