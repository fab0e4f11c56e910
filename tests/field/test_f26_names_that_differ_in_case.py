"""Names that differ in case only are two names.

Connectors folded names to lower case, failed on upper-case tables, or could not hold two tables whose
names differ in case. An exact match comes first, and a guess between two is no match.
"""

from __future__ import annotations

import pytest

from tests.field.ways import install, write_comparison, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

TABLES = (
    "CREATE TABLE usr (id int PRIMARY KEY, name text)",
    'CREATE TABLE "Usr" (id int PRIMARY KEY, name text, "Name" text)',
)
ROWS = (
    "INSERT INTO usr VALUES (1, 'a'), (2, 'b')",
    """INSERT INTO "Usr" VALUES (1, 'c', 'd')""",
)


def test_two_tables_are_two_classes(bench: Workbench, postgres: Place) -> None:
    postgres.execute(*TABLES)
    install(bench, postgres, "usr", '"Usr"')
    postgres.execute(*ROWS)
    job = write_log_job(bench, postgres)
    bench.publish(job=job)
    bench.publish(job=write_comparison(bench, postgres, ["usr", '"Usr"']))
    for place in ("job-out", "compared-out"):
        found = {key.partition(",schema")[0]: v for key, v in bench.objects(place).items()}
        assert found == {
            "id=1,table=usr": {"name": ("a",)},
            "id=2,table=usr": {"name": ("b",)},
            "id=1,table=Usr": {"name": ("c",), "Name": ("d",)},
        }
    postgres.execute(
        "ALTER TABLE usr DISABLE TRIGGER ALL",
        "UPDATE usr SET name = 'zzz' WHERE id = 1",
        "DELETE FROM usr WHERE id = 2",
    )
    done = bench.verify("--json", job=job)
    assert done.code == 3
    tables = {table["table"]: table["counts"] for table in done.report["outcome"]["tables"]}
    assert tables["public.usr"] == {"different": 1, "surplus": 1}
    assert tables["public.Usr"] == {}


def test_a_name_that_fits_two_tables_is_rejected(bench: Workbench, postgres: Place) -> None:
    postgres.execute(*TABLES)
    install(bench, postgres, "usr")
    postgres.execute(
        "INSERT INTO event_log (table_key, event_type, table_name, column_name, new_value)"
        " VALUES ('id=1', 3, 'public.USR', 'name', 'x')"
    )
    bench.publish(job=write_log_job(bench, postgres))
    (reject,) = bench.rejects("job-out")
    assert reject.reason == "table-name"
    assert "usr" in reject.detail
    assert "Usr" in reject.detail


def test_one_case_for_two_tables_is_refused_with_both_names(
    bench: Workbench, postgres: Place
) -> None:
    postgres.execute(*TABLES, *ROWS)
    job = write_comparison(bench, postgres, ["usr", '"Usr"'], source='identifier_case = "lower"')
    done = bench.run("publish", "-c", job, codes=[1, 2, 3])
    assert "usr" in done.err
    assert "Usr" in done.err
    assert not list((bench.folder / "compared-out").rglob("part-*"))
