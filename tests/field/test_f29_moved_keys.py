"""Shifting all keys by one loses no object.

An update of the key arrived as a delete and an insert in an order that removed the new row.
"""

from __future__ import annotations

import pytest

from tests.field.ways import install, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

SHIFT = {
    "sqlite": ("UPDATE t SET id = -id - 1", "UPDATE t SET id = -id"),
    "mariadb": ("UPDATE t SET id = id + 1 ORDER BY id DESC",),
    "postgresql": (
        "UPDATE t SET id = id + 1 WHERE id = 3",
        "UPDATE t SET id = id + 1 WHERE id = 2",
        "UPDATE t SET id = id + 1 WHERE id = 1",
    ),
}
SWAP = tuple(f"UPDATE t SET id = {to} WHERE id = {of}" for of, to in ((2, 99), (3, 2), (99, 3)))


@pytest.mark.parametrize("key_change", ["delete-and-insert", "modify-association"])
@pytest.mark.parametrize("each", [False, True])
def test_objects_follow_their_rows(
    bench: Workbench, place: Place, key_change: str, each: bool
) -> None:
    place.execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(9))")
    bench.run(
        *("ddl", "--database", place.url, "--table", "t", "--style", "per-field", "--apply"),
        *("--key-change", key_change),
    )
    place.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    source = 'key_change = "modify-association"' if key_change == "modify-association" else ""
    job = write_log_job(bench, place, source=source)
    bench.publish(job=job)
    for statement in (*SHIFT[place.kind], *SWAP):
        place.execute(statement)
        if each:
            bench.publish(job=job)
    bench.publish(job=job)
    values = {key.partition(",")[0]: found["v"] for key, found in bench.objects("job-out").items()}
    assert values == {"id=2": ("b",), "id=3": ("a",), "id=4": ("c",)}
    assert bench.verify(job=job).code == 0


def test_verify_finds_and_repairs_what_a_deferrable_key_loses(
    bench: Workbench, postgres: Place
) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v text)")
    install(bench, postgres, "t")
    postgres.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    job = write_log_job(bench, postgres)
    bench.publish(job=job)
    postgres.execute("UPDATE t SET id = id + 1")
    bench.publish(job=job)
    expected = {"id=2": ("a",), "id=3": ("b",), "id=4": ("c",)}
    found = {key.partition(",")[0]: v.get("v") for key, v in bench.objects("job-out").items()}
    if found != expected:
        assert bench.verify(job=job).code == 3
        bench.verify("--repair", job=job)
    assert bench.verify(job=job).code == 0
    found = {key.partition(",")[0]: v.get("v") for key, v in bench.objects("job-out").items()}
    assert found == expected
