"""The end of a day is not its beginning.

PostgreSQL's ``24:00:00`` became midnight at the other end of the day, NULL, or an exception in the
client library. The range of ``time`` ends at 24:00:00 inclusive.
"""

from __future__ import annotations

import pytest

from tests.field.ways import publish_each_way, rejected_columns
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

TABLE = "CREATE TABLE shift (id int PRIMARY KEY, a time, b time, c timetz)"
ROWS = [
    "INSERT INTO shift VALUES (1, '00:00', '24:00', '24:00+00')",
    "INSERT INTO shift VALUES (2, '01:00', NULL, NULL)",
]


def test_the_end_of_a_day_is_rejected_and_never_zero(bench: Workbench, postgres: Place) -> None:
    postgres.execute(TABLE)
    found = publish_each_way(bench, postgres, "shift", ROWS, ["id=1", "id=2"])
    for way, objects in found.items():
        assert objects.get("id=1", {}).get("b", ()) in ((), ("24:00:00",), ("86400",)), way
        assert objects["id=2"]["a"] == ("3600",), way
        details = [detail for reason, detail in rejected_columns(bench, way) if reason == "value"]
        assert details, way
        assert all("24:00:00" in detail and "1970" not in detail for detail in details), way


def test_a_text_that_is_declared_as_one_is_published(bench: Workbench, postgres: Place) -> None:
    postgres.execute(TABLE)
    more = '[tables.shift]\ncolumns = { a = "string", b = "string", c = "string" }'
    found = publish_each_way(bench, postgres, "shift", ROWS, ["id=1", "id=2"], more)
    for way, objects in found.items():
        assert objects["id=1"] == {"a": ("00:00:00",), "b": ("24:00:00",), "c": ("24:00:00+00",)}, (
            way
        )
    postgres.execute("UPDATE shift SET a = '24:00' WHERE id = 1")
    assert bench.publish(job="fields.toml")["documents"] == 1
    assert bench.publish(job="compared.toml")["documents"] == 1
