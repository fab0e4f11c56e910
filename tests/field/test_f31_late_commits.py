"""Rows that commit late, with smaller ids, are published, and gaps stop nothing.

Polling by the greatest id skipped rows that committed later with a smaller id; gaps of rollbacks or
sequence caches stalled or lost data. The status N decides, not the id.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.field.ways import install, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

EVENT = (
    "INSERT INTO event_log (table_key, event_type, table_name, column_name, new_value)"
    " VALUES ('id={id}', 3, 'public.usr', 'v', '{v}')"
)


def test_every_committed_row_is_published_once(bench: Workbench, postgres: Place) -> None:
    postgres.execute("CREATE TABLE usr (id int PRIMARY KEY, v text)")
    install(bench, postgres, "usr")
    job = write_log_job(bench, postgres)
    engine = sa.create_engine(postgres.url, poolclass=sa.NullPool)
    with engine.connect() as late:
        for number in range(1, 4):
            late.exec_driver_sql(EVENT.format(id=number, v="late"))
        postgres.execute(*(EVENT.format(id=number, v="early") for number in range(4, 7)))
        with engine.connect() as undone:
            for number in range(100, 110):
                undone.exec_driver_sql(EVENT.format(id=number, v="undone"))
            undone.rollback()
        assert bench.publish(job=job)["outcomes"]["published"] == 3
        late.commit()
    postgres.execute(EVENT.format(id=7, v="last"))
    report = bench.publish(job=job)
    assert report["outcomes"]["published"] == 4
    assert any("late" in note for note in report["notes"])
    values = [value for v in bench.objects("job-out").values() for value in v["v"]]
    assert sorted(values) == ["early"] * 3 + ["last"] + ["late"] * 3
    assert len(bench.lines("job-out")) == 7
    assert bench.publish(job=job)["read"] == 0
