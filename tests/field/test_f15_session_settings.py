"""The text of a value depends on no session's settings.

``bytea_output``, ``DateStyle``, ``IntervalStyle``, ``TimeZone``, ``extra_float_digits`` and
``lc_monetary`` of a session changed the recorded text; one bytea lost two characters and looked valid.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.field.ways import install, publish_each_way, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

TABLE = (
    "CREATE TABLE s (id int PRIMARY KEY, d date, ts timestamptz, iv interval, b bytea, f float8,"
    " m money, r real, pt point, bs bytea[])"
)
VALUES = (
    r"'2026-08-06', '2026-08-06 12:00+00', '1 year 2 mons', '\x5c6e00ff', 0.1, 1234567.89,"
    r" 0.33333334, '(0.3333333333333333,1)', ARRAY['\x5c6e00ff'::bytea]"
)
SETTINGS = {
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "iso_8601",
    "bytea_output": "escape",
    "extra_float_digits": "-3",
    "TimeZone": "Asia/Tokyo",
}


@pytest.fixture
def role(postgres: Place) -> Iterator[str]:
    name: str = postgres.query("SELECT current_user")[0][0]
    yield name
    postgres.execute(f'ALTER ROLE "{name}" RESET ALL')


def test_settings_of_the_writer_do_not_matter(bench: Workbench, postgres: Place) -> None:
    postgres.execute(TABLE)
    install(bench, postgres, "s")
    postgres.execute(f"INSERT INTO s VALUES (1, {VALUES})")
    sets = [f"SET LOCAL {name} = '{value}'" for name, value in SETTINGS.items()]
    postgres.execute(*sets, f"INSERT INTO s VALUES (2, {VALUES})")
    bench.publish(job=write_log_job(bench, postgres))
    one, two = bench.objects("job-out").values()
    assert one == two


def test_settings_of_the_publisher_do_not_matter(
    bench: Workbench, postgres: Place, role: str
) -> None:
    postgres.execute(TABLE)
    found = publish_each_way(
        bench, postgres, "s", [f"INSERT INTO s VALUES (1, {VALUES})"], ["id=1"]
    )
    assert found["fields"] == found["rows"] == found["compared"]
    for name, value in SETTINGS.items():
        postgres.execute(f"ALTER ROLE \"{role}\" SET {name} = '{value}'")
    assert bench.publish(job="compared.toml")["documents"] == 0
    postgres.execute(
        "INSERT INTO event_log (table_key, event_type, table_name) VALUES ('id=1', 6, 'public.s')"
    )
    bench.publish(job="rows.toml")
    assert list(bench.objects("rows-out").values()) == list(found["rows"].values())
    assert bench.verify(job="fields.toml").code == 0
