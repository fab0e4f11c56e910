"""PostgreSQL: reads the rows of a statement as columns, without an object for each value.

The server joins the texts of a column to one text, and lists their lengths in bytes.  Needs psycopg: other
modules import this one for PostgreSQL only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
from sqlalchemy import Connection

from publisher.database.copy import driver_errors
from publisher.database.numbered_rows import NumberedRows

_ARRAY_HEADER = 20
"""Bytes before the elements of an array of one dimension in binary form."""
_ELEMENT = np.dtype([("size", ">i4"), ("value", ">i4")])
_MAX_COLUMNS = 800
"""PostgreSQL's limit of a SELECT is 1,664 items."""


def can_aggregate(connection: Connection, columns: int) -> bool:
    """Returns whether columns can be read: lengths in bytes are those of the server's encoding."""
    info = _driver(connection).info
    return (
        columns <= _MAX_COLUMNS
        and info.parameter_status("server_encoding") == "UTF8"
        and info.encoding == "utf-8"
    )


def aggregate_sql(number: str, items: Sequence[str], source: str) -> str:
    """Returns the statement for ``items`` of type text of ``source``, and the ``number`` of type integer."""
    names = [f"v{place}" for place in range(len(items))]
    aggregates = ", ".join(
        f"pg_catalog.string_agg(q.{name}, ''), "
        f"pg_catalog.array_agg(COALESCE(pg_catalog.octet_length(q.{name}), -1))"
        for name in names
    )
    named = ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
    # OFFSET 0 prevents that the server evaluates an item twice
    rows = f"SELECT {number} AS n, {named} FROM {source} OFFSET 0"  # noqa: S608
    return f"SELECT pg_catalog.array_agg(q.n), {aggregates} FROM ({rows}) AS q"  # noqa: S608


def read_columns(
    connection: Connection, statement: str, parameters: Mapping[str, Any]
) -> NumberedRows:
    """Reads the rows of ``aggregate_sql``, whose numbers count from 1.

    Raises ``LostError`` if the connection is lost, and psycopg's other errors as SQLAlchemy's."""
    with driver_errors(connection), _driver(connection).cursor(binary=True) as cursor:
        cursor.execute(statement, parameters)
        result = cursor.pgresult
        assert result is not None
    numbers = _integers(result.get_value(0, 0)) - 1
    values = [
        _texts(result.get_value(0, place), _integers(result.get_value(0, place + 1)))
        for place in range(1, result.nfields, 2)
    ]
    if (np.diff(numbers) >= 0).all():
        return NumberedRows(numbers, values)
    order = np.argsort(numbers, kind="stable")
    return NumberedRows(numbers[order], [column.take(pa.array(order)) for column in values])


def _driver(connection: Connection) -> psycopg.Connection:
    driver: Any = connection.connection.driver_connection
    return driver  # type: ignore[no-any-return]


def _integers(array: bytes | None) -> npt.NDArray[np.int64]:
    """Reads an array of integers, none of which is null; ``None`` is an empty array."""
    content = (array or b"")[_ARRAY_HEADER:]
    return np.frombuffer(content, _ELEMENT)["value"].astype(np.int64)


def _texts(joined: bytes | None, lengths: npt.NDArray[np.int64]) -> pa.StringArray:
    """Divides joined texts; a text of negative length is null."""
    is_valid = lengths >= 0
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.where(is_valid, lengths, 0), out=offsets[1:])
    validity = None if is_valid.all() else pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    buffers = pa.py_buffer(offsets), pa.py_buffer(joined or b"")
    return pa.StringArray.from_buffers(len(lengths), *buffers, validity)
