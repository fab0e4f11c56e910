"""``bench query-back``: rows read back from PostgreSQL beside as many logged values, and whole objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sqlalchemy import create_engine

from publisher.config.settings import Settings
from publisher.engine.spark.session import spark_session
from publisher.model.classes import ClassOptions
from tests.bench.data import Log, event_log
from tests.bench.program import job_file, replay, settings_of, workspace
from tests.bench.report import Report
from tests.services.servers import postgresql

ROWS = 100_000
RATIO = 1.5
"""Bound of query-backs of rows beside logged values."""
WITH_CHILDREN = 2.0
"""Bound of whole objects beside rows."""

TABLE = """
CREATE SCHEMA indirect;
CREATE TABLE indirect.usr (
    idu integer PRIMARY KEY, fname varchar(64), lname varchar(64), photo bytea
);
INSERT INTO indirect.usr
SELECT n, 'Jack ' || n, 'O''Neil & Sons ' || n, decode(lpad(to_hex(n), 48, '0'), 'hex')
FROM generate_series(1, {rows}) AS n;
ANALYZE indirect.usr;
"""
CHILDREN = """
CREATE TABLE indirect.usr_phone (
    idu integer NOT NULL REFERENCES indirect.usr, phoneno varchar(64) NOT NULL
);
CREATE TABLE indirect.usr_mail (
    idu integer NOT NULL REFERENCES indirect.usr, mail varchar(64) NOT NULL
);
INSERT INTO indirect.usr_phone
SELECT n, '+49 ' || n || i FROM generate_series(1, {rows}) AS n, generate_series(1, 2) AS i;
INSERT INTO indirect.usr_mail
SELECT n, 'user' || n || '@example.org' FROM generate_series(1, {rows}) AS n;
CREATE INDEX ON indirect.usr_phone (idu);
CREATE INDEX ON indirect.usr_mail (idu);
ANALYZE indirect.usr_phone;
ANALYZE indirect.usr_mail;
"""


def run(*, runs: int = 3, events: int | None = None, **_: int) -> Report:
    """Both in turn in one session, one event for each row of the table."""
    rows = events or ROWS
    read_back = event_log(Log(rows, per_object=1, types=(6,)))
    logged = event_log(Log(rows, per_object=1, types=(3,)))
    report = Report("query-back")
    with postgresql() as server, workspace() as work:
        with create_engine(server.url).begin() as connection:
            connection.exec_driver_sql(TABLE.format(rows=rows))
            connection.exec_driver_sql(CHILDREN.format(rows=rows))
        objects = settings_of(job_file(work, server.url))
        alone = replace(objects, classes=ClassOptions(minimal_metadata=True))
        inputs = {
            "type 3": (alone, logged),
            "type 6": (alone, read_back),
            "type 6 with two child tables": (objects, read_back),
        }
        with spark_session(alone.spark):
            _in_turn(report, inputs, work, runs)
    return report


def _in_turn(
    report: Report, inputs: dict[str, tuple[Settings, Path]], work: Path, runs: int
) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in inputs}
    for _ in range(runs):
        for name, (settings, log) in inputs.items():
            seconds[name].append(replay(settings, log, work / "out").seconds)
    logged, rows, objects = (report.add_seconds(*taken) for taken in seconds.items())
    report.add("type 6 / type 3", rows / logged, "", bound=RATIO)
    report.add("with child tables / type 6", objects / rows, "", bound=WITH_CHILDREN)
