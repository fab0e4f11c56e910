"""A status that waits for a lock is written in the end, and nothing is published twice.

Updates of statuses and inserts deadlocked; the victim's work was lost or repeated.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.field.ways import LOGGED, install, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

EVENTS = 200


def test_a_held_lock_delays_the_statuses_only(bench: Workbench, place: Place) -> None:
    if place.kind == "sqlite":
        return  # its locks are of the whole database, see the case of its own
    place.execute("CREATE TABLE usr (idu int PRIMARY KEY, v varchar(9))")
    install(bench, place, "usr")
    name = LOGGED[place.kind].format("usr")
    rows = ", ".join(f"('idu={n}', 3, '{name}', 'v', 'x')" for n in range(EVENTS))
    place.execute(
        f"INSERT INTO event_log (table_key, event_type, table_name, column_name, new_value) VALUES {rows}"
    )
    job = write_log_job(bench, place)
    engine = sa.create_engine(place.url, poolclass=sa.NullPool)
    with engine.connect() as writer:
        writer.exec_driver_sql("UPDATE event_log SET perpetrator = 'x' WHERE record_id = 50")
        done = bench.run("publish", "-c", job, codes=[0, 5], seconds=300)
        writer.rollback()
    if done.code:
        assert "cannot be reached" not in done.err
        bench.publish(job=job)
    assert len(bench.lines("job-out")) == EVENTS
    assert place.query("SELECT DISTINCT status FROM event_log") == [("S",)]
    assert bench.publish(job=job)["read"] == 0
