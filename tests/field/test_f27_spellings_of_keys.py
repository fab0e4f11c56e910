"""One row is one object, whatever spelling of its key the collation accepts.

Keys that the database holds equal (case, trailing blank) were two keys downstream, or overwrote each
other. A document carries the row's own key, or the record is rejected because key and row differ.
"""

from __future__ import annotations

import pytest

from tests.field.ways import LOGGED, install, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

TABLE = {
    "sqlite": "CREATE TABLE acc (name text COLLATE NOCASE PRIMARY KEY, v int)",
    "mariadb": "CREATE TABLE acc (name varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v int)",
    "postgresql": "CREATE TABLE acc (name text COLLATE caseless PRIMARY KEY, v int)",
}
COLLATION = (
    "CREATE COLLATION IF NOT EXISTS caseless"
    " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
)


@pytest.fixture
def accounts(place: Place) -> Place:
    before = [COLLATION] if place.kind == "postgresql" else []
    place.execute(*before, TABLE[place.kind])
    return place


@pytest.mark.parametrize("kind", [6, 8])
def test_another_spelling_makes_no_other_object(
    bench: Workbench, accounts: Place, kind: int
) -> None:
    install(bench, accounts, "acc")
    accounts.execute("INSERT INTO acc VALUES ('Anna', 1)")
    job = write_log_job(bench, accounts)
    bench.publish(job=job)
    name = LOGGED[accounts.kind].format("acc")
    for key in ("anna", "ANNA", "Anna"):
        accounts.execute(
            "INSERT INTO event_log (table_key, event_type, table_name, column_name)"
            f" VALUES ('name={key}', {kind}, '{name}', {'NULL' if kind == 6 else repr('v')})"
        )
    report = bench.publish(job=job)
    (key,) = bench.objects("job-out")
    assert key.startswith("name=Anna,")
    assert sum(report["outcomes"].values()) == 3
    assert {reject.reason for reject in bench.rejects("job-out")} <= {"table-key"}
    assert bench.verify(job=job).code == 0


def test_another_spelling_of_a_row_is_one_object_afterwards(
    bench: Workbench, accounts: Place
) -> None:
    install(bench, accounts, "acc")
    accounts.execute("INSERT INTO acc VALUES ('Anna', 1)")
    job = write_log_job(bench, accounts)
    bench.publish(job=job)
    accounts.execute("UPDATE acc SET name = 'ANNA' WHERE v = 1")
    bench.publish(job=job)
    (key,) = bench.objects("job-out")
    assert key.startswith("name=ANNA,")
    assert bench.verify(job=job).code == 0
