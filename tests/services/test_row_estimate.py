"""Rows to read are estimated, and seen to be missing, without SQLAlchemy; doubtful tables are left to it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from publisher.database.lost_error import LostError
from publisher.database.row_estimate import estimate_rows
from publisher.errors import FatalError
from publisher.triggers import DatabaseKind, TableRef, render
from tests.services.databases import Place
from tests.services.topics import Topics
from tests.services.waiting_logs import MOMENTS, ago, make_log

COLUMNS = ("status", "event_time", "record_id")


def estimate(
    place: Place,
    table: str = "log",
    columns: Sequence[str] = COLUMNS,
    status: str | None = "N",
    schema: str | None = None,
) -> int | None:
    options = place.database(schema=schema).options
    return estimate_rows(options, table, columns, None if status is None else (columns[0], status))


def sees_nothing(place: Place, *arguments: Any, **others: Any) -> bool:
    return estimate(place, *arguments, **others) == 0


def test_a_table_is_empty_without_a_row_of_the_status(postgres: Place) -> None:
    make_log(postgres, MOMENTS["postgresql"])
    assert sees_nothing(postgres)
    assert sees_nothing(postgres, status=None)
    postgres.execute(f"INSERT INTO log VALUES (1, 'S', {ago(1)})")
    assert sees_nothing(postgres)
    assert not sees_nothing(postgres, status=None)
    postgres.execute("INSERT INTO log VALUES (2, 'N', NULL)")
    assert not sees_nothing(postgres)


def test_the_statistics_of_the_server_tell_about_how_many_rows_there_are(postgres: Place) -> None:
    make_log(postgres, MOMENTS["postgresql"])
    postgres.execute(
        "INSERT INTO log SELECT n, 'S', NULL FROM generate_series(1, 1000) AS n",
        "INSERT INTO log SELECT n, 'N', NULL FROM generate_series(1001, 4000) AS n",
        "ANALYZE log",
    )
    assert 2_900 < (estimate(postgres) or 0) < 3_100
    assert estimate(postgres, status=None) == 4_000
    postgres.execute("UPDATE log SET status = 'S' WHERE record_id > 1001", "ANALYZE log")
    assert 1 <= (estimate(postgres) or 0) < 100


def test_only_postgresql_is_asked(place: Place) -> None:
    make_log(place, MOMENTS[place.kind])
    assert sees_nothing(place) == (place.kind == "postgresql")


def test_the_schema_is_that_of_the_settings_or_of_the_name(postgres: Place) -> None:
    make_log(postgres, MOMENTS["postgresql"])
    postgres.execute("CREATE SCHEMA own", "CREATE TABLE own.log AS TABLE log")
    try:
        assert sees_nothing(postgres, schema="own")
        assert sees_nothing(postgres, "own.log")
        postgres.execute(f"INSERT INTO own.log VALUES (1, 'N', {ago(1)})")
        assert not sees_nothing(postgres, schema="own")
        assert not sees_nothing(postgres, "own.log")
        assert sees_nothing(postgres)
        assert not sees_nothing(postgres, schema="OWN")  # the catalogue finds it
    finally:
        postgres.execute("DROP SCHEMA own CASCADE")


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("other", COLUMNS),
        ("LOG", COLUMNS),
        ("own.log", COLUMNS),
        ("log", ("STATUS", "event_time", "record_id")),
        ("log", ("status", "event_time", "number")),
        ("log", ("event_time", "status", "record_id")),
    ],
)
def test_names_that_the_catalogue_must_find_are_doubtful(
    postgres: Place, table: str, columns: tuple[str, ...]
) -> None:
    make_log(postgres, MOMENTS["postgresql"])
    assert not sees_nothing(postgres, table, columns)


def test_a_name_with_a_point_may_be_that_of_a_table(postgres: Place) -> None:
    postgres.execute(
        "CREATE SCHEMA own",
        "CREATE TABLE own.log (status char)",
        'CREATE TABLE "Own.Log" (status char)',
    )
    try:
        assert not sees_nothing(postgres, "own.log", ["status"])
        postgres.execute('DROP TABLE "Own.Log"')
        assert sees_nothing(postgres, "own.log", ["status"])
    finally:
        postgres.execute('DROP TABLE IF EXISTS "Own.Log"', "DROP SCHEMA own CASCADE")


def test_a_trace_of_statements_shows_the_query_of_sqlalchemy(postgres: Place) -> None:
    make_log(postgres, MOMENTS["postgresql"])
    log = logging.getLogger("sqlalchemy.engine")
    level = log.level
    log.setLevel(logging.INFO)
    try:
        assert not sees_nothing(postgres)
    finally:
        log.setLevel(level)


def test_failed_connections_raise_the_errors_of_other_connections(postgres: Place) -> None:
    options = postgres.database().options
    address = (options.url or "").rpartition("/")[0]
    with pytest.raises(FatalError, match=r'refuses the login .*database "missing" does not exist'):
        estimate_rows(replace(options, url=f"{address}/missing"), "log", COLUMNS, None)
    lost = replace(options, url="postgresql+psycopg://tester@127.0.0.1:1/postgres")
    with pytest.raises(LostError, match="refused"):
        estimate_rows(lost, "log", COLUMNS, None)


PUBLISH = """
import sys
from publisher.cli.main import cli
cli(["publish", "-c", sys.argv[1]], standalone_mode=False)
large = ("sqlalchemy", "pandas", "lxml", "pyspark")
print([name for name in large if name in sys.modules])
"""


def test_a_publication_of_an_empty_log_loads_no_large_library(
    postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    for statement in render(DatabaseKind.POSTGRESQL, TableRef("public", "event_log")):
        if not statement.is_of_writer:
            postgres.execute(statement.text)
    job = tmp_path / "job.toml"
    job.write_text(
        f'[source]\nformat = "event-log"\ntable = "event_log"\nurl = "{postgres.url}"\n'
        f'[dispatch]\nto = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{kafka.make()}"\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", PUBLISH, str(job)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
