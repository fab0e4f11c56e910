"""PostgreSQL: snapshots that connections share, and tables copied as CSV.

Needs psycopg: other modules import this one for PostgreSQL only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import pq, sql
from pyarrow import csv
from sqlalchemy import ClauseElement, ColumnElement, Connection, func, literal_column, text
from sqlalchemy.exc import DBAPIError

from publisher.database.catalogue import Relation, sql_column
from publisher.database.connection import Database
from publisher.database.failures import is_lost
from publisher.database.lost_error import LostError
from publisher.database.ordered_ranges import Bounds, select_rows
from publisher.errors import UnreachableError

_WITHOUT_WAITING = 1


@contextmanager
def shared_snapshot(database: Database) -> Iterator[tuple[Connection, str]]:
    """Opens a connection with a snapshot; others can join the snapshot by its name until the context ends."""
    with database.separate() as separate:
        try:
            with separate.connect() as connection:
                snapshot = _export_snapshot(connection)
                yield connection, snapshot
        except LostError as lost:
            raise database.unreachable(str(lost)) from lost


def _export_snapshot(connection: Connection) -> str:
    connection.execution_options(isolation_level="REPEATABLE READ")
    # the transaction is idle while tasks work
    connection.execute(text("SET LOCAL idle_in_transaction_session_timeout TO 0"))
    return str(connection.execute(text("SELECT pg_catalog.pg_export_snapshot()")).scalar_one())


def value_range(
    connection: Connection, relation: Relation, order: str, where: tuple[str, str] | None
) -> tuple[int, int] | None:
    """Returns the least and the greatest value of ``order``; ``None`` if there is no value."""
    column = sql_column(order)
    bounds = Bounds(None, None, None, where)
    statement = select_rows(relation, bounds, [func.min(column), func.max(column)])
    first, last = connection.exec_driver_sql(_compile(connection, statement)).one()
    return None if first is None else (int(first), int(last))


def join_snapshot(connection: Connection, snapshot: str) -> None:
    """Lets a connection use the snapshot that another one shares.

    Raises ``UnreachableError`` if the snapshot no longer exists.
    """
    connection.execution_options(isolation_level="REPEATABLE READ")
    driver: Any = connection.connection.driver_connection
    name = sql.Literal(snapshot).as_string(driver)
    try:
        connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT {name}")
    except DBAPIError as error:
        if is_lost(error):
            raise
        raise UnreachableError(
            "the snapshot that all tasks share no longer exists, because the database was restarted or"
            " ended the session that shares it: try again"
        ) from error


def copy_table(
    connection: Connection,
    relation: Relation,
    bounds: Bounds,
    snapshot: str | None,
    batch_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Copies rows of the table as text, in batches of about ``batch_bytes`` of CSV.

    Raises ``LostError`` if the connection is lost, and psycopg's other errors as SQLAlchemy's.
    """
    if snapshot is not None:
        join_snapshot(connection, snapshot)
    items: list[ColumnElement[Any]] = [
        literal_column(item_sql(relation, name)) for name in relation.types
    ]
    statement = statement_text(connection, select_rows(relation, bounds, items))
    yield from copy_statement(connection, statement, tuple(relation.types), batch_bytes)


def statement_text(connection: Connection, statement: ClauseElement) -> str:
    """Returns a statement as text with its values, because a COPY has no parameters."""
    return _compile(connection, statement) % ()


def _compile(connection: Connection, statement: ClauseElement) -> str:
    """Returns a statement as text with its values, in which % is doubled for the driver."""
    return str(statement.compile(connection, compile_kwargs={"literal_binds": True}))


def copy_statement(
    connection: Connection, statement: str, names: tuple[str, ...], batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Copies the rows of a statement, which may also be an UPDATE or DELETE with RETURNING.

    Raises the errors of ``copy_table``.
    """
    copying = f"COPY ({statement}) TO STDOUT (FORMAT csv)".encode()
    parse = _CsvParser(names)
    driver: Any = connection.connection.driver_connection
    with driver_errors(connection):
        for block in _blocks(driver, copying, batch_bytes):
            yield parse(block)


@contextmanager
def driver_errors(connection: Connection) -> Iterator[None]:
    """Turns psycopg's errors into SQLAlchemy's, and into ``LostError`` if the connection is lost."""
    driver: Any = connection.connection.driver_connection
    try:
        yield
    except psycopg.Error as error:
        if driver.closed or driver.broken:
            connection.invalidate()
            raise LostError(str(error).strip()) from error
        raise DBAPIError.instance(None, None, error, psycopg.Error) from error


def _blocks(driver: Any, statement: bytes, batch_bytes: int) -> Iterator[bytearray]:
    """Yields blocks of complete CSV rows; the server sends each row as one message.

    Rows are copied at once: to keep their messages until a block is complete takes three times as long.
    Only the first of the rows that came together is read by psycopg, which takes three times as long, too.
    """
    block = bytearray()
    receive = driver.pgconn.get_copy_data
    with driver.cursor() as cursor, cursor.copy(statement) as copying:
        for row in copying:  # waits for the server
            block += row
            size, further = receive(_WITHOUT_WAITING)
            while size > 0:
                block += further
                size, further = receive(_WITHOUT_WAITING)
            if size < 0:  # after the last row
                _end_copy(driver)
                break
            if len(block) >= batch_bytes:
                yield block
                block = bytearray()
    if block:
        yield block


def _end_copy(driver: Any) -> None:
    """Reads the result of a copy after its last row.  Raises psycopg's errors."""
    results = []
    while (result := driver.pgconn.get_result()) is not None:
        results.append(result)
    for result in results:
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result, encoding=driver.info.encoding)


class _CsvParser:
    """Parses PostgreSQL's CSV into text columns: NULL is without quotes, the empty string in quotes."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = list(names)
        self._parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        self._convert = csv.ConvertOptions(
            # by position: Arrow trims names, so two of them could become equal
            column_types={f"f{place}": pa.string() for place in range(len(names))},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def __call__(self, block: bytearray) -> pa.RecordBatch:
        options = csv.ReadOptions(
            use_threads=False, block_size=len(block) + 1, autogenerate_column_names=True
        )
        table = csv.read_csv(pa.BufferReader(block), options, self._parse, self._convert)
        (batch,) = table.combine_chunks().to_batches()
        return batch.rename_columns(self._names)


def item_sql(relation: Relation, name: str, column: str | None = None) -> str:
    """Returns the SQL of a column in the log's form, for a COPY, which writes values as their types do.

    Binary values are Base64 without line breaks, booleans words.  Nothing else is cast: the casts of a
    user-defined type may be functions of its owner, which would run with the permissions of this user.
    """
    column = column or sql.Identifier(name).as_string()
    if relation.casts[name] == "bytea":
        return f"pg_catalog.replace(pg_catalog.encode({column}, 'base64'), E'\\n', '')"
    return f"CAST({column} AS text)" if relation.casts[name] == "boolean" else column
