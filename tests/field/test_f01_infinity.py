"""Infinite dates are no finite dates.

Infinite timestamps overflowed, were given a made-up finite date, or stopped the connector for the whole
table. PostgreSQL's infinities are not calendar dates; a time of XDS is a finite number of seconds.
"""

from __future__ import annotations

import pytest

from tests.field.ways import assert_one_way, publish_each_way, rejected_columns
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

TABLE = "CREATE TABLE leave_req (id int PRIMARY KEY, starts date, ends timestamptz, note text)"
ROWS = (
    "INSERT INTO leave_req VALUES (1, '-infinity', 'infinity', 'a')",
    "INSERT INTO leave_req VALUES (2, '2026-07-14', 'infinity', 'b')",
    "INSERT INTO leave_req VALUES (3, '2026-07-14', '2026-07-15 00:00+00', 'c')",
)


@pytest.mark.parametrize("syntax", [1, 2, 3])
def test_an_infinity_is_never_a_date(bench: Workbench, postgres: Place, syntax: int) -> None:
    postgres.execute(TABLE)
    more = f"[documents]\ntime_syntax = {syntax}"
    found = publish_each_way(bench, postgres, "leave_req", ROWS, ["id=1", "id=2", "id=3"], more)
    ends = {1: ("1784073600",), 2: ("20260715000000000000000",), 3: ("2026-07-15 00:00:00.0",)}[
        syntax
    ]
    for way, objects in found.items():
        assert objects["id=3"]["ends"] == ends, way
        assert objects["id=3"]["note"] == ("c",), way
        for key in ("id=1", "id=2"):
            values = objects.get(key, {})
            assert values.get("ends", ()) in ((), ("infinity",)), way
        reasons = {reason for reason, _ in rejected_columns(bench, way)}
        assert reasons == {"value"}, way
        assert all("ends" in d or "starts" in d for _, d in rejected_columns(bench, way)), way
    assert_one_way({way: objects["id=3"] for way, objects in found.items()})
