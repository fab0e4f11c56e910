"""A zero date is neither NULL nor 1970.

``0000-00-00`` turned into NULL, then violated NOT NULL and stopped the job, or became 1970-01-01 or
0001-01-01; DATETIME and TIMESTAMP behaved differently. MariaDB documents the zero date as a value of its
own.
"""

from __future__ import annotations

import pytest

from publisher.consumer import Modify, RemoveAllValues
from tests.field.ways import install, publish_each_way, rejected_columns, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench, removed

pytestmark = pytest.mark.long

TABLE = (
    "CREATE TABLE card (id int PRIMARY KEY, valid date NOT NULL, seen datetime NOT NULL,"
    " ts timestamp NOT NULL DEFAULT 0, n int)"
)
SLOPPY = "SET SESSION sql_mode = ''"
ROWS = [
    SLOPPY,
    "INSERT INTO card VALUES (1, '0000-00-00', '2026-05-01 10:00:00', '2026-05-01 10:00:00', 1)",
    "INSERT INTO card VALUES (2, '2026-02-00', '2026-05-01 10:00:00', '2026-05-01 10:00:00', 2)",
    "INSERT INTO card VALUES (3, '2026-05-01', '0000-00-00 00:00:00', '2026-05-01 10:00:00', 3)",
    "INSERT INTO card VALUES (4, '2026-05-01', '2026-05-01 10:00:00', 0, 4)",
    "INSERT INTO card VALUES (5, '2026-05-01', '2026-05-01 10:00:00', '2026-05-01 10:00:00', 5)",
]
COLUMN = {"id=1": "valid", "id=2": "valid", "id=3": "seen", "id=4": "ts"}


def test_zero_and_partial_dates_are_rejected_by_every_way(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute(SLOPPY, TABLE)
    keys = [f"id={n}" for n in range(1, 6)]
    found = publish_each_way(bench, mariadb, "card", ROWS, keys)
    for way, objects in found.items():
        whole = objects["id=5"]
        assert whole["valid"], way
        assert whole["seen"] == whole["ts"] == ("1777629600",), way
        for key, column in COLUMN.items():
            assert column not in objects.get(key, {}), f"{way}: {key}"
        details = [detail for reason, detail in rejected_columns(bench, way) if reason == "value"]
        assert all(any(c in detail for detail in details) for c in COLUMN.values()), way


def test_a_value_that_becomes_zero_is_no_null(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute(SLOPPY, TABLE)
    install(bench, mariadb, "card")
    mariadb.execute(ROWS[-1])
    job = write_log_job(bench, mariadb)
    bench.publish(job=job)
    mariadb.execute(SLOPPY, "UPDATE card SET ts = 0, seen = 0 WHERE id = 5")
    bench.publish(job=job)
    for operation in bench.operations("job-out"):
        for column in ("ts", "seen"):
            assert not removed(operation, column)
            assert (
                not isinstance(operation, Modify)
                or RemoveAllValues(column) not in operation.changes
            )
    assert {reject.reason for reject in bench.rejects("job-out")} == {"value"}


def test_a_zero_time_in_a_key_does_not_break_the_application(
    bench: Workbench, mariadb: Place
) -> None:
    mariadb.execute(SLOPPY, "CREATE TABLE k (ts timestamp DEFAULT 0, n int, PRIMARY KEY (ts))")
    install(bench, mariadb, "k")
    mariadb.execute(SLOPPY, "INSERT INTO k VALUES (0, 1)")
    assert mariadb.query("SELECT n FROM k") == [(1,)]
    bench.publish(job=write_log_job(bench, mariadb))
    (document,) = bench.lines("job-out")
    assert b"<association>ts=0000-00-00 00:00:00,table=k</association>" in document
    assert bench.rejects("job-out") == []
