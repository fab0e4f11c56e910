"""A row whose key is NULL is no object, and breaks nothing.

SQLite lets NULL into most primary keys; a delete of one row with a NULL key hit all such rows, or the
insert failed because a trigger could not build a key.
"""

from __future__ import annotations

import pytest

from tests.field.ways import STYLES, install, write_comparison, write_log_job
from tests.services.databases import Place, sqlite_place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

TABLES = (
    "CREATE TABLE t (k text PRIMARY KEY, v)",
    "CREATE TABLE u (a, b, v, PRIMARY KEY (a, b))",
)
ROWS = (
    "INSERT INTO t VALUES ('a', 1), (NULL, 2), (NULL, 3)",
    "INSERT INTO u VALUES (1, 1, 1), (1, NULL, 2), (1, NULL, 3)",
)


@pytest.fixture
def database(bench: Workbench) -> Place:
    place = sqlite_place(bench.folder / "app.db")
    place.execute(*TABLES)
    return place


@pytest.mark.parametrize("style", STYLES)
def test_triggers_let_rows_without_a_key_in(bench: Workbench, database: Place, style: str) -> None:
    install(bench, database, "t", "u", style=style)
    database.execute(*ROWS)
    job = write_log_job(bench, database)
    bench.publish(job=job)
    assert set(bench.objects("job-out")) == {"k=a,table=t", "a=1+b=1,table=u"}
    assert {reject.reason for reject in bench.rejects("job-out")} == {"table-key"}
    database.execute(
        "UPDATE t SET v = 9 WHERE v = 2",
        "DELETE FROM t WHERE v = 3",
        "UPDATE t SET k = NULL WHERE k = 'a'",
    )
    bench.publish(job=job)
    assert set(bench.objects("job-out")) == {"a=1+b=1,table=u"}


def test_a_comparison_rejects_them_once_and_deletes_nothing(
    bench: Workbench, database: Place
) -> None:
    database.execute(*ROWS)
    job = write_comparison(bench, database, ["t", "u"])
    bench.publish(job=job)
    database.execute("DELETE FROM t WHERE v = 2", "UPDATE t SET v = 8 WHERE v = 3")
    report = bench.publish(job=job)
    assert report["operations"].get("delete", 0) == 0
    assert report["operations"].get("add", 0) == 0
    assert set(bench.objects("compared-out")) == {"k=a,table=t", "a=1+b=1,table=u"}
