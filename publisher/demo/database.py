"""Writes the demo's tables and event log: a SQLite database, and a snapshot of the log as CSV."""

from __future__ import annotations

import csv
import sqlite3
from datetime import datetime
from pathlib import Path

from publisher.demo.company import JACK, Company, LogRow
from publisher.model.change import LOG_COLUMNS

_TABLES = """
CREATE TABLE usr (
    idu INTEGER NOT NULL PRIMARY KEY,
    fname VARCHAR(64),
    lname VARCHAR(64),
    title VARCHAR(64),
    hired DATE,
    manager INTEGER REFERENCES usr (idu)
);
-- A child table has no primary key: each row is a value of its parent's attribute usr_phone.phoneno.
CREATE TABLE usr_phone (
    idu INTEGER NOT NULL REFERENCES usr (idu),
    phoneno VARCHAR(32) NOT NULL,
    UNIQUE (idu, phoneno)
);
CREATE TABLE audit_trail (
    id INTEGER NOT NULL PRIMARY KEY,
    note VARCHAR(200)
);
-- No primary key: the demo has a record id that appears twice.
CREATE TABLE event_log (
    record_id BIGINT NOT NULL,
    table_key VARCHAR(512) NOT NULL,
    status CHAR(1) NOT NULL DEFAULT 'N',
    event_type INTEGER NOT NULL,
    event_time TIMESTAMP,
    perpetrator VARCHAR(128),
    table_name VARCHAR(256) NOT NULL,
    column_name VARCHAR(256),
    old_value TEXT,
    new_value TEXT
);
CREATE INDEX event_log_status ON event_log (status, record_id);
"""


def write_database(path: Path, company: Company) -> None:
    """Creates the database at ``path``, which must not exist."""
    connection = sqlite3.connect(path)
    try:
        connection.executescript(_TABLES)
        connection.executemany(
            "INSERT INTO usr VALUES (?, ?, ?, ?, ?, ?)",
            [(number, *row.values()) for number, row in company.users.items()],
        )
        phones = [(number, phone) for number, own in company.phones.items() for phone in own]
        connection.executemany("INSERT INTO usr_phone VALUES (?, ?)", phones)
        marks = ", ".join("?" * len(LOG_COLUMNS))
        connection.executemany(
            f"INSERT INTO event_log VALUES ({marks})",  # noqa: S608  our names
            map(_log_values, company.log),
        )
        connection.commit()
    finally:
        connection.close()


def write_snapshot(path: Path, company: Company) -> None:
    """Writes the event log as CSV with header; NULL is an unquoted empty field (RFC 4180)."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(LOG_COLUMNS)
        writer.writerows(map(_log_values, company.log))


def change_phone_unlogged(path: Path) -> None:
    """Changes a phone of Jack without an event in the log."""
    connection = sqlite3.connect(path)
    try:
        connection.execute(
            "UPDATE usr_phone SET phoneno = '555-5555' WHERE idu = ? AND phoneno = '222-2222'",
            (JACK,),
        )
        connection.commit()
    finally:
        connection.close()


def _log_values(row: LogRow) -> list[object]:
    values = [getattr(row, name) for name in LOG_COLUMNS]
    return [
        v.isoformat(sep=" ", timespec="microseconds") if isinstance(v, datetime) else v
        for v in values
    ]
