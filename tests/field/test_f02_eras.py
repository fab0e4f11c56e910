"""Dates before our era and of five digits keep their year, or are rejected.

``BC`` was dropped, so two different dates became one, and years above 9999 stopped the connector.
PostgreSQL counts the proleptic Gregorian calendar.
"""

from __future__ import annotations

import pytest

from tests.field.ways import assert_one_way, publish_each_way, rejected_columns
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

SECONDS = {
    "id=1": "-63517910400",
    "id=2": "-60772291200",
    "id=3": "568971820800",
    "id=4": "-62135596800",
}
DATES = ("0044-03-15 BC", "0044-03-15", "20000-01-01", "0001-01-01")
ROWS = [f"INSERT INTO era VALUES ({n}, '{date}', 'x')" for n, date in enumerate(DATES, 1)]


def test_a_date_is_its_seconds_or_rejected(bench: Workbench, postgres: Place) -> None:
    postgres.execute("CREATE TABLE era (id int PRIMARY KEY, d date, note text)")
    more = '[documents]\ntime_syntax = 1\ntime_range = "any"'
    found = publish_each_way(bench, postgres, "era", ROWS, list(SECONDS), more)
    for way, objects in found.items():
        dates = {key: values["d"][0] for key, values in objects.items() if "d" in values}
        assert dates.items() <= SECONDS.items(), way
        assert {"id=2", "id=4"} <= dates.keys(), way
        assert {reason for reason, _ in rejected_columns(bench, way)} <= {"value"}, way
    assert_one_way(
        {way: {k: v.get("d") for k, v in o.items() if "d" in v} for way, o in found.items()}
    )
