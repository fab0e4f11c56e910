"""TRUNCATE leaves no object behind, or is documented to.

The table was emptied, no event came, the target kept all rows and the job reported success.
"""

from __future__ import annotations

import pytest

from tests.field.changes import change, change_file
from tests.field.ways import STYLES, install, write_comparison, write_log_job
from tests.services.databases import Place, sqlite_place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long


@pytest.mark.parametrize("style", STYLES)
def test_postgresql_logs_a_delete_for_each_object(
    bench: Workbench, postgres: Place, style: str
) -> None:
    postgres.execute(
        "CREATE TABLE dept (id int PRIMARY KEY, v text)",
        "CREATE TABLE usr (id int PRIMARY KEY, dept int REFERENCES dept, v text)",
    )
    install(bench, postgres, "usr", "dept", style=style)
    postgres.execute("INSERT INTO dept SELECT n, 'd' FROM generate_series(1, 3) n")
    postgres.execute("INSERT INTO usr SELECT n, n % 3 + 1, 'u' FROM generate_series(1, 50) n")
    job = write_log_job(bench, postgres)
    bench.publish(job=job)
    assert len(bench.objects("job-out")) == 53
    postgres.execute("TRUNCATE dept CASCADE")
    bench.publish(job=job)
    assert bench.objects("job-out") == {}
    assert bench.verify(job=job).code == 0


def test_truncate_of_a_partition_is_logged_or_found(bench: Workbench, postgres: Place) -> None:
    postgres.execute(
        "CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
    )
    install(bench, postgres, "p")
    postgres.execute("INSERT INTO p VALUES (1, 'a'), (11, 'b')")
    job = write_log_job(bench, postgres)
    bench.publish(job=job)
    postgres.execute("TRUNCATE p1")
    bench.publish(job=job)
    left = {key.partition(",")[0] for key in bench.objects("job-out")}
    if left != {"id=11"}:
        assert left == {"id=1", "id=11"}
        assert bench.verify(job=job).code == 3


def test_truncate_only_deletes_no_row_of_a_child(bench: Workbench, postgres: Place) -> None:
    postgres.execute(
        "CREATE TABLE par (id int PRIMARY KEY, v text)",
        "CREATE TABLE chi (extra text, PRIMARY KEY (id)) INHERITS (par)",
    )
    install(bench, postgres, "par", "chi")
    postgres.execute("INSERT INTO par VALUES (1, 'a')", "INSERT INTO chi VALUES (2, 'b', 'c')")
    postgres.execute("TRUNCATE ONLY par")
    deletes = postgres.query("SELECT table_key FROM event_log WHERE event_type = 4")
    assert deletes == [("id=1",)]


def test_mariadb_notes_it_and_verify_finds_it(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute("CREATE TABLE usr (id int PRIMARY KEY, v varchar(9))")
    words = ("ddl", "--database", mariadb.url, "--table", "usr", "--style", "per-field", "--apply")
    assert "TRUNCATE" in bench.run(*words).text
    mariadb.execute("INSERT INTO usr VALUES (1, 'a')")
    job = write_log_job(bench, mariadb)
    bench.publish(job=job)
    mariadb.execute("TRUNCATE usr")
    bench.publish(job=job)
    done = bench.verify(job=job)
    assert done.code == 3
    assert "surplus" in done.out


def test_a_comparison_refuses_many_deletes_until_it_is_told(bench: Workbench) -> None:
    place = sqlite_place(bench.folder / "app.db")
    place.execute("CREATE TABLE usr (id integer PRIMARY KEY, v text)")
    place.execute(*(f"INSERT INTO usr VALUES ({n}, 'a')" for n in range(500)))
    bench.publish(job=write_comparison(bench, place, ["usr"]))
    place.execute("DELETE FROM usr")
    done = bench.run("publish", "-c", "compared.toml", codes=[1])
    assert "most_deleted" in done.err
    assert len(bench.objects("compared-out")) == 500
    write_comparison(bench, place, ["usr"], source="most_deleted = 1.0")
    bench.publish(job="compared.toml")
    assert bench.objects("compared-out") == {}


def test_truncate_of_a_change_table_is_rejected(bench: Workbench) -> None:
    record = change(1, "D", [7], id="1") | {
        "header__change_oper": "T",
        "header__operation": "TRUNCATE",
    }
    bench.write("t.csv", change_file(("id", "a"), [record]))
    more = 'source_table = "usr"\nkey = ["id"]\nheader_columns = 7\nmask_order = "msb"'
    bench.write(
        "job.toml", f'[[sources]]\nformat = "change-table"\nsnapshots = ["t.csv"]\n{more}\n'
    )
    bench.replay("t.csv", "-c", "job.toml")
    assert [reject.reason for reject in bench.rejects()] == ["truncate"]
    assert bench.lines() == []
