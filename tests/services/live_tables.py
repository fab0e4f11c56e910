"""An event log with rows of every fate in a real database, and the tables that it names."""

from __future__ import annotations

import sqlalchemy as sa

from tests.services.databases import BINARY, Place
from tests.support import whole_log as log
from tests.support.event_log_files import Row

ROWS: list[Row] = [
    row | {"event_time": None} if row["event_time"] == "yesterday" else row for row in log.ROWS
]
"""The log as a database can hold it: its times are times."""


def make_tables(place: Place) -> None:
    """The log, the table that it speaks of, a view whose key is none, and one that is left out."""
    moment = "DATETIME" if place.kind == "mariadb" else "TIMESTAMP"
    place.execute(
        f"CREATE TABLE log (record_id INTEGER, table_key VARCHAR(80), status CHAR(1),"
        f" event_type INTEGER, event_time {moment} NULL, perpetrator VARCHAR(40),"
        f" table_name VARCHAR(40), column_name VARCHAR(40), old_value TEXT, new_value TEXT)",
        f"CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(40), lname VARCHAR(40),"
        f" photo {BINARY[place.kind]})",
        "INSERT INTO usr (idu, fname, lname) VALUES (2, 'Zoë', NULL), (3, '<now>', 'Doe')",
        "CREATE TABLE usr_history (idu INTEGER PRIMARY KEY, fname VARCHAR(40))",
        "CREATE VIEW view_twice AS SELECT 7 AS pk_a, idu FROM usr",
    )
    table = sa.table("log", *(sa.column(name) for name in ROWS[0]))
    with place.engine.begin() as connection:
        connection.execute(table.insert(), ROWS)
