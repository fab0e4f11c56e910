"""Copying rows from PostgreSQL: all of them, whatever the blocks; errors in the middle and at the end."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from publisher.database.copy import copy_statement
from publisher.database.lost_error import LostError
from tests.services.databases import Place

ROWS = 20_000
NAMES = ("n", "text")


def copied(connection: sa.Connection, statement: str, batch_bytes: int = 1 << 20) -> list[int]:
    """The numbers and lengths that a copy yields: the number of each row, if its text is complete."""
    rows = [
        (int(row["n"]), len(row["text"]))
        for batch in copy_statement(connection, statement, NAMES, batch_bytes)
        for row in batch.to_pylist()
    ]
    assert all(length == number % 300 + 1 for number, length in rows)
    return [number for number, _ in rows]


def numbered(expression: str = "n", count: int = ROWS) -> str:
    return f"SELECT {expression}, repeat('x', n % 300 + 1) FROM generate_series(1, {count}) AS n"


@pytest.mark.parametrize("batch_bytes", [1, 1 << 16, 1 << 30])
def test_all_rows_come_in_order_whatever_the_size_of_blocks(
    postgres: Place, batch_bytes: int
) -> None:
    count = 500 if batch_bytes == 1 else ROWS
    with postgres.database().connect() as connection:
        for rows in (count, 1, 0):
            assert copied(connection, numbered(count=rows), batch_bytes) == [*range(1, rows + 1)]


@pytest.mark.parametrize("last", [1, 2, ROWS // 2, ROWS - 1])
def test_an_error_of_the_server_is_raised_and_the_connection_stays_usable(
    postgres: Place, last: int
) -> None:
    with postgres.database().connect() as connection:
        with pytest.raises(DBAPIError, match="division by zero"):
            copied(connection, numbered(f"n + 0 / ({last} - n)"))
        connection.connection.rollback()
        assert copied(connection, numbered()) == [*range(1, ROWS + 1)]


def test_a_copy_that_is_left_in_the_middle_leaves_the_connection_usable(postgres: Place) -> None:
    with postgres.database().connect() as connection:
        batches = copy_statement(connection, numbered(), NAMES, 1 << 12)
        assert next(batches).num_rows
        del batches
        connection.connection.rollback()
        assert copied(connection, numbered()) == [*range(1, ROWS + 1)]


def test_a_connection_that_ends_in_the_middle_is_lost(postgres: Place) -> None:
    ending = f"CASE n WHEN {ROWS // 2} THEN pg_terminate_backend(pg_backend_pid())::int ELSE n END"
    with pytest.raises(LostError), postgres.database().connect() as connection:
        copied(connection, numbered(ending, 50 * ROWS))
