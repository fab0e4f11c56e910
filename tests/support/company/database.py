"""Writes the company's tables and event log: a SQLite database, and a snapshot of the log as CSV."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

from publisher.model.change import LOG_COLUMNS
from tests.support.company.log import Event
from tests.support.company.opening import PHONES, USERS
from tests.support.company.people import EMPLOYEE_COLUMNS, MEMBERSHIP_COLUMNS, Company, Value

TABLES = """
CREATE TABLE usr (
    idu INTEGER NOT NULL PRIMARY KEY,
    fname VARCHAR(64),
    lname VARCHAR(64),
    photo BLOB,
    manager INTEGER REFERENCES usr (idu)
);
-- Child tables have no primary key: each row is a value of its parent's attribute, such as usr_phone.phoneno.
CREATE TABLE usr_phone (
    idu INTEGER NOT NULL REFERENCES usr (idu),
    phoneno VARCHAR(32) NOT NULL,
    UNIQUE (idu, phoneno)
);
CREATE TABLE employee (
    empno INTEGER NOT NULL PRIMARY KEY,
    given_name VARCHAR(64) NOT NULL,
    family_name VARCHAR(64) NOT NULL,
    badge CHAR(6),
    title VARCHAR(64),
    address VARCHAR(200),
    hired DATE,
    last_login TIMESTAMP,
    active BOOLEAN,
    salary DECIMAL(10, 2),
    photo BLOB,
    manager INTEGER REFERENCES employee (empno)
);
CREATE TABLE employee_phone (
    empno INTEGER NOT NULL REFERENCES employee (empno),
    phoneno VARCHAR(32) NOT NULL,
    UNIQUE (empno, phoneno)
);
CREATE TABLE membership (
    grp VARCHAR(64) NOT NULL,
    empno INTEGER NOT NULL,
    role VARCHAR(16),
    since DATE,
    PRIMARY KEY (grp, empno)
);
CREATE VIEW view_employee AS
    SELECT empno AS pk_empno, given_name, family_name, title, active FROM employee;
CREATE TABLE audit_trail (
    id INTEGER NOT NULL PRIMARY KEY,
    note VARCHAR(200)
);
-- No primary key: the log has a record id that appears twice.
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


def write_database(path: Path, company: Company, events: Iterable[Event]) -> None:
    """Creates the database at ``path``, which must not exist."""
    connection = sqlite3.connect(path)
    try:
        connection.executescript(TABLES)
        users = [(number, *values) for number, values in USERS.items()]
        _fill(connection, "usr", users)
        _fill(connection, "usr_phone", _phones(PHONES))
        _fill(connection, "employee_phone", _phones(company.phones))
        employees = (
            (number, *(_sqlite_value(row[name]) for name in EMPLOYEE_COLUMNS))
            for number, row in company.employees.items()
        )
        _fill(connection, "employee", employees)
        members = (
            (*key, *(_sqlite_value(row[name]) for name in MEMBERSHIP_COLUMNS))
            for key, row in company.memberships.items()
        )
        _fill(connection, "membership", members)
        _fill(connection, "event_log", map(_log_row, events))
        connection.commit()
    finally:
        connection.close()


def _phones(phones: Mapping[int, Iterable[str]]) -> list[tuple[object, ...]]:
    return [(number, phone) for number, own in phones.items() for phone in own]


def write_snapshot(path: Path, events: Iterable[Event]) -> None:
    """Writes the event log as CSV with header; NULL is an unquoted empty field (RFC 4180)."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(LOG_COLUMNS) + "\r\n")
        for event in events:
            file.write(",".join(map(_csv_field, _log_row(event))) + "\r\n")


def _fill(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[object, ...]]) -> None:
    values = list(rows)
    marks = ", ".join("?" * len(values[0]))
    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)


def _log_row(event: Event) -> tuple[object, ...]:
    values = (getattr(event, name) for name in LOG_COLUMNS)
    return tuple(_sqlite_value(value) for value in values)


def _sqlite_value(value: Value) -> object:
    """A value as SQLite stores it; times with microseconds, as SQLAlchemy writes them."""
    match value:
        case datetime():
            return value.isoformat(sep=" ", timespec="microseconds")
        case date():
            return value.isoformat()
        case Decimal():
            return float(value)
    return value


def _csv_field(value: object) -> str:
    if value is None:
        return ""
    escaped = str(value).replace('"', '""')
    return f'"{escaped}"'
