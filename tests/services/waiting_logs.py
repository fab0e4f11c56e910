"""Event logs that hold no more than statuses and times."""

from __future__ import annotations

import datetime as dt

from tests.services.databases import Place

MOMENTS = {"sqlite": "TIMESTAMP", "postgresql": "TIMESTAMP", "mariadb": "DATETIME(6)"}

ZONED = {"sqlite": "TEXT", "postgresql": "TIMESTAMPTZ", "mariadb": "TIMESTAMP(6) NULL"}


def ago(seconds: float, *, zone: str = "") -> str:
    moment = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds)
    return f"'{moment.replace(tzinfo=None).isoformat(' ')}{zone}'"


def make_log(place: Place, type_: str, *rows: tuple[str, str]) -> None:
    values = ", ".join(f"({n}, '{status}', {time})" for n, (status, time) in enumerate(rows, 1))
    place.execute(
        f"CREATE TABLE log (record_id INTEGER, status CHAR(1), event_time {type_})",
        "CREATE INDEX log_n ON log (status, record_id)",
        *([f"INSERT INTO log VALUES {values}"] if values else []),
    )
