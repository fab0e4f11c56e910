"""An upsert logs what it did to the rows, and nothing else.

Triggers logged an insert although the row existed, or rows that a conflict had discarded; REPLACE
skipped the deletes of the rows that it displaced.
"""

from __future__ import annotations

import pytest

from tests.field.ways import STYLES, install, write_log_job
from tests.services.databases import Place, sqlite_place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

STATEMENTS = {
    "postgresql": [
        "INSERT INTO usr VALUES (1, 'b', 1) ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        "INSERT INTO usr VALUES (1, 'x', 9) ON CONFLICT DO NOTHING",
        "INSERT INTO usr VALUES (1, 'x', 9) ON CONFLICT (id) DO UPDATE SET name = 'x' WHERE false",
        (
            "MERGE INTO usr USING (VALUES (1, 'c'), (3, 'd')) v(id, name) ON usr.id = v.id"
            " WHEN MATCHED THEN UPDATE SET name = v.name"
            " WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.name, 3)"
        ),
    ],
    "mariadb": [
        "INSERT INTO usr VALUES (1, 'b', 1) ON DUPLICATE KEY UPDATE name = 'b'",
        "INSERT INTO usr VALUES (1, 'b', 1) ON DUPLICATE KEY UPDATE name = 'b'",
        "INSERT IGNORE INTO usr VALUES (1, 'x', 9)",
        "INSERT INTO usr VALUES (2, 'd', 2)",
        "REPLACE INTO usr VALUES (1, 'c', 2)",
        "REPLACE INTO usr VALUES (3, 'd', 3)",
    ],
    "sqlite": [
        "INSERT INTO usr VALUES (1, 'b', 1) ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        "INSERT OR IGNORE INTO usr VALUES (1, 'x', 9)",
        "INSERT INTO usr VALUES (3, 'd', 3)",
        "PRAGMA recursive_triggers = on; REPLACE INTO usr VALUES (1, 'c', 1)",
    ],
}


@pytest.mark.parametrize("style", STYLES)
def test_objects_are_the_rows(bench: Workbench, place: Place, style: str) -> None:
    place.execute("CREATE TABLE usr (id int PRIMARY KEY, name varchar(9), n int UNIQUE)")
    install(bench, place, "usr", style=style)
    place.execute("INSERT INTO usr VALUES (1, 'a', 1)")
    job = write_log_job(bench, place, '[documents]\ninsert_query_back = "add"')
    bench.publish(job=job)
    for statement in STATEMENTS[place.kind]:
        place.execute(statement)
    bench.publish(job=job)
    rows = {f"id={i}": (name,) for i, name in place.query("SELECT id, name FROM usr")}
    found = {key.partition(",")[0]: v["name"] for key, v in bench.objects("job-out").items()}
    assert found == rows
    assert bench.verify(job=job).code == 0


def test_discarded_rows_are_not_logged(bench: Workbench, place: Place) -> None:
    place.execute("CREATE TABLE usr (id int PRIMARY KEY, name varchar(9), n int UNIQUE)")
    place.execute("INSERT INTO usr VALUES (1, 'a', 1)")
    install(bench, place, "usr")
    ignored = {
        "postgresql": "INSERT INTO usr VALUES (1, 'x', 9) ON CONFLICT DO NOTHING",
        "mariadb": "INSERT IGNORE INTO usr VALUES (1, 'x', 9)",
        "sqlite": "INSERT OR IGNORE INTO usr VALUES (1, 'x', 9)",
    }
    place.execute(ignored[place.kind])
    assert place.query("SELECT record_id FROM event_log") == []


def test_verify_finds_what_a_silent_replace_displaced(bench: Workbench) -> None:
    place = sqlite_place(bench.folder / "app.db")
    place.execute("CREATE TABLE usr (id int PRIMARY KEY, name varchar(9), n int UNIQUE)")
    install(bench, place, "usr")
    place.execute("INSERT INTO usr VALUES (1, 'a', 1), (2, 'b', 2)")
    job = write_log_job(bench, place)
    bench.publish(job=job)
    place.execute("UPDATE OR REPLACE usr SET n = 2 WHERE id = 1")
    bench.publish(job=job)
    done = bench.verify(job=job)
    assert done.code == 3
    assert "surplus" in done.out
