"""An event whose column is gone is rejected, and waits for its column.

Changes in flight while a column was renamed were written as NULL; counts matched, so nobody noticed.
"""

from __future__ import annotations

import pytest

from tests.field.ways import LOGGED, install, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

EVENT = "INSERT INTO event_log (table_key, event_type, table_name, column_name, new_value) VALUES "


def test_no_document_removes_a_column_that_is_gone(bench: Workbench, place: Place) -> None:
    place.execute("CREATE TABLE usr (idu int PRIMARY KEY, phone varchar(20))")
    place.execute("INSERT INTO usr VALUES (1, '111'), (2, '222'), (3, '333')")
    install(bench, place, "usr")
    name = LOGGED[place.kind].format("usr")
    place.execute(
        f"{EVENT}('idu=1', 8, '{name}', 'phone', NULL)",
        f"{EVENT}('idu=2', 3, '{name}', 'phone', '555')",
        f"{EVENT}('idu=3', 6, '{name}', NULL, NULL)",
        "ALTER TABLE usr RENAME COLUMN phone TO mobile",
    )
    job = write_log_job(bench, place)
    bench.publish(job=job)
    assert [reject.reason for reject in bench.rejects("job-out")] == ["column-name"] * 2
    assert list(bench.objects("job-out").values()) == [{"mobile": ("333",)}]
    place.execute("ALTER TABLE usr RENAME COLUMN mobile TO phone")
    bench.run("retry", "-c", job)
    bench.publish(job=job)
    objects = {key.partition(",")[0]: v for key, v in bench.objects("job-out").items()}
    assert objects["idu=1"] == {"phone": ("111",)}
    assert objects["idu=2"] == {"phone": ("555",)}
