"""A read that the server ends is no shorter table.

Recovery conflicts and timeouts cancelled long reads, and some tools kept what they had. No row that was
not read may be deleted.
"""

from __future__ import annotations

import threading
import time

import pytest
import sqlalchemy as sa

from tests.field.ways import write_comparison
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

ROWS = 60_000


@pytest.fixture
def table(bench: Workbench, postgres: Place) -> Place:
    postgres.execute(
        "CREATE TABLE big (id int PRIMARY KEY, v text)",
        f"INSERT INTO big SELECT n, repeat('x', 100) FROM generate_series(1, {ROWS}) n",
    )
    bench.publish(job=write_comparison(bench, postgres, ["big"]))
    postgres.execute("UPDATE big SET v = 'y' WHERE id = 5")
    return postgres


def assert_one_change(bench: Workbench) -> None:
    report = bench.publish(job="compared.toml")
    assert report["operations"] in ({"modify": 1}, {})
    updates = bench.operations("compared-out")[ROWS:]
    assert [type(op).__name__ for op in updates] == ["Modify"]


def test_a_statement_timeout_deletes_nothing(bench: Workbench, table: Place) -> None:
    user = table.query("SELECT current_user")[0][0]
    table.execute(f"ALTER ROLE \"{user}\" SET statement_timeout = '15ms'")
    try:
        done = bench.run("publish", "-c", "compared.toml", codes=[0, 1, 5])
    finally:
        table.execute(f'ALTER ROLE "{user}" RESET ALL')
    if done.code:
        assert "timeout" in done.err
    assert_one_change(bench)


def test_a_session_that_is_ended_deletes_nothing(bench: Workbench, table: Place) -> None:
    ended = threading.Event()

    def end_sessions() -> None:
        engine = sa.create_engine(table.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            while not ended.is_set():
                connection.exec_driver_sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND state = 'active' AND query LIKE 'COPY%%big%%'"
                )
                time.sleep(0.005)

    killer = threading.Thread(target=end_sessions)
    killer.start()
    try:
        bench.run("publish", "-c", "compared.toml", codes=[0, 1, 5])
    finally:
        ended.set()
        killer.join()
    assert_one_change(bench)
