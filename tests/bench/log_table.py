"""An event log in PostgreSQL, as ``xds-publisher ddl`` makes it, filled with the benchmarks' logs."""

from __future__ import annotations

import io
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
from psycopg import sql
from pyarrow import csv

from publisher.triggers import DatabaseKind, TableRef, render
from tests.services.servers import Server

TABLE = "event_log"
SOURCE = """
[[sources]]
format = "event-log"
schema = "indirect"
table = "{table}"
url = "{url}"
"""


def connect(server: Server) -> psycopg.Connection:
    """A connection that commits each statement."""
    return psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True)


def make_table(server: Server, *, notifies: bool = False) -> None:
    """Drops the log and makes an empty one, which may notify its readers."""
    statements = render(DatabaseKind.POSTGRESQL, TableRef("public", TABLE), notifies=notifies)
    with connect(server) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        for statement in statements:
            if not statement.is_of_writer:
                connection.execute(statement.text.encode())


def fill_table(server: Server, log: Path) -> None:
    """The log with the rows of a file, all new; vacuumed, so that no reader pays for the first one."""
    make_table(server)
    with connect(server) as connection, pq.ParquetFile(log) as file:
        columns = sql.SQL(", ").join(map(sql.Identifier, file.schema_arrow.names))
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
            sql.Identifier(TABLE), columns
        )
        with connection.cursor() as cursor, cursor.copy(statement) as copying:
            for batch in file.iter_batches():
                text = io.BytesIO()
                csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
                copying.write(text.getvalue())
        connection.execute(f"VACUUM (FREEZE, ANALYZE) {TABLE}")
        connection.execute("CHECKPOINT")


def statuses(server: Server) -> dict[str, int]:
    """Rows by status."""
    with connect(server) as connection:
        rows = connection.execute(f"SELECT status, count(*) FROM {TABLE} GROUP BY 1").fetchall()
    return {str(status): int(count) for status, count in rows}
