"""Compares the keys of rows that were read with the keys by which they were asked for.

The database may find one row by several texts (case, accents, padding, forms of a date).  Each text would
become an object of its own, so only the text that the row itself has is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.database.numbered_rows import Keys
from publisher.model.catalogue import ColumnKind, Table
from publisher.model.change import Reason
from publisher.model.keys import decimal_text, format_key
from publisher.planning.query_back import CurrentRows, RefusedLookup


class RowKeyColumn(NamedTuple):
    """A column of a key as the keys of one query name it, and its place among the columns of rows."""

    name: str
    place: int
    kind: ColumnKind
    padded: bool

    def canonical(self, value: str) -> str:
        """Returns the text that the canonical key of a row has, numbers and times without final zeros.

        Keys in another form of a number do not arrive here, and triggers write as many digits of a
        second as the column has."""
        if self.kind in (ColumnKind.INT, ColumnKind.DECIMAL):
            return decimal_text(value) or value
        if self.kind in (ColumnKind.TIME, ColumnKind.TIMESTAMP) and "." in value:
            return value.rstrip("0").rstrip(".")
        return value


RowKey = tuple[RowKeyColumn, ...]


def row_key(names: Iterable[str], places: Iterable[int], table: Table) -> RowKey:
    """Describes the key of rows; ``names`` are those in keys, ``places`` are among the columns of rows."""
    columns = [
        (name, table.column(name) or "", place) for name, place in zip(names, places, strict=True)
    ]
    return tuple(
        RowKeyColumn(name, place, table.columns.get(own, ColumnKind.STRING), own in table.padded)
        for name, own, place in columns
    )


def refuse_other_keys(
    key: RowKey, texts: Keys, places: npt.NDArray[np.int64], rows: CurrentRows
) -> tuple[CurrentRows, dict[int, RefusedLookup]]:
    """Separates the rows whose own key is another text than the key by which they were found.

    ``texts`` are the keys of the look-up, column by column, and ``places`` are the places of their objects.
    """
    at = np.searchsorted(places, rows.places)
    arrays = [col if isinstance(col, pa.Array) else pa.array(col, pa.string()) for col in texts]
    asked = [column.take(pa.array(at)) for column in arrays]
    same = np.ones(len(at), np.bool_)
    for column, of_key in zip(key, asked, strict=True):
        equal = pc.fill_null(pc.equal(of_key, rows.values[column.place]), False)
        same &= equal.to_numpy(zero_copy_only=False)
    refused: dict[int, RefusedLookup] = {}
    for row in np.flatnonzero(~same).tolist():
        own = [rows.values[column.place][row].as_py() or "" for column in key]
        own = [text.rstrip(" ") if c.padded else text for c, text in zip(key, own, strict=True)]
        wanted = [of_key[row].as_py() for of_key in asked]
        same[row] = all(
            column.canonical(text) == column.canonical(other)
            for column, text, other in zip(key, own, wanted, strict=True)
        )
        if not same[row]:
            refused[int(rows.places[row])] = _refuse(key, own, wanted)
    return (rows if same.all() else rows.select(np.flatnonzero(same))), refused


def _refuse(key: RowKey, own: Iterable[str], wanted: Iterable[str]) -> RefusedLookup:
    names = [column.name for column in key]
    shown = format_key(zip(names, own, strict=True))
    return RefusedLookup(
        Reason.TABLE_KEY,
        f"the database finds a row by {format_key(zip(names, wanted, strict=True))}, but the row's own key"
        f" is {shown}: write the key as the row has it",
    )
