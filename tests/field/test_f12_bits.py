"""BIT is a number, and the 1 of TINYINT(1) is a display width.

Values of several bytes came out with their bytes reversed, and TINYINT(1) with 2 or -1 was flattened to
true.
"""

from __future__ import annotations

import pytest

from tests.field.ways import assert_one_way, publish_each_way
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

ROWS = [
    "INSERT INTO f VALUES (1, b'0000000100000010', b'1', 2)",
    "INSERT INTO f VALUES (2, b'0', b'0', -1)",
    "INSERT INTO f VALUES (3, 65535, NULL, 0)",
]


def test_every_way_gives_the_number(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute(
        "CREATE TABLE f (id int PRIMARY KEY, flags bit(16), on_ bit(1), lvl tinyint(1))"
    )
    more = '[tables.f]\ncolumns = { lvl = "int" }'
    found = publish_each_way(bench, mariadb, "f", ROWS, ["id=1", "id=2", "id=3"], more)
    fields = found["fields"]
    assert [fields[f"id={n}"]["flags"] for n in (1, 2, 3)] == [("258",), ("0",), ("65535",)]
    assert [fields[f"id={n}"]["lvl"] for n in (1, 2, 3)] == [("2",), ("-1",), ("0",)]
    assert fields["id=1"]["on_"] in (("1",), ("true",))
    assert_one_way(found)


def test_a_key_of_bits_is_one_object_by_every_way(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute("CREATE TABLE f (k bit(16) PRIMARY KEY, v int)")
    rows = ["INSERT INTO f VALUES (258, 1), (0, 2), (32, 4)"]
    found = publish_each_way(bench, mariadb, "f", rows, ["k=258", "k=0", "k=32"])
    assert found["fields"] == {"k=258": {"v": ("1",)}, "k=0": {"v": ("2",)}, "k=32": {"v": ("4",)}}
    assert_one_way(found)
    assert bench.verify(job="fields.toml").code == 0
