"""``bench query-back``: rows read back from PostgreSQL beside as many logged values."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import create_engine

from publisher.config.settings import Settings
from publisher.engine.spark.session import spark_session
from tests.bench.data import Log, event_log
from tests.bench.program import job_file, replay, settings_of, workspace
from tests.bench.report import Report
from tests.services.servers import postgresql

ROWS = 100_000
RATIO = 2.0

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


def run(*, runs: int = 3, events: int | None = None, **_: int) -> Report:
    """Both in turn in one session, one event for each row of the table."""
    rows = events or ROWS
    read_back = event_log(Log(rows, per_object=1, types=(6,)))
    logged = event_log(Log(rows, per_object=1, types=(3,)))
    report = Report("query-back")
    with postgresql() as server, workspace() as work:
        with create_engine(server.url).begin() as connection:
            connection.exec_driver_sql(TABLE.format(rows=rows))
        settings = settings_of(job_file(work, server.url))
        with spark_session(settings.spark):
            _in_turn(report, settings, {"type 3": logged, "type 6": read_back}, work, runs)
    return report


def _in_turn(
    report: Report, settings: Settings, logs: dict[str, Path], work: Path, runs: int
) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in logs}
    for _ in range(runs):
        for name, log in logs.items():
            seconds[name].append(replay(settings, log, work / "out").seconds)
    best = {name: report.add_seconds(name, taken) for name, taken in seconds.items()}
    report.add("type 6 / type 3", best["type 6"] / best["type 3"], "", bound=RATIO)
