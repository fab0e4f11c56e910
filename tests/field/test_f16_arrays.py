"""An array is the one text that its database prints.

Elements with commas were split, NULL and the text "NULL" merged, and a lower bound other than 1 broke
the parser.
"""

from __future__ import annotations

import pytest

from tests.field.ways import assert_one_way, publish_each_way
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

ROWS = [
    """INSERT INTO tags VALUES (1, ARRAY[NULL, 'NULL', 'a,b', 'c"d', ''], '[3:5]={1,2,3}', '{}')""",
    "INSERT INTO tags VALUES (2, '{}', NULL, NULL)",
]


def test_an_array_has_the_text_of_the_database(bench: Workbench, postgres: Place) -> None:
    postgres.execute("CREATE TABLE tags (id int PRIMARY KEY, a text[], b int[], c text[])")
    found = publish_each_way(bench, postgres, "tags", ROWS, ["id=1", "id=2"])
    assert found["fields"] == {
        "id=1": {"a": (r'{NULL,"NULL","a,b","c\"d",""}',), "b": ("[3:5]={1,2,3}",), "c": ("{}",)},
        "id=2": {"a": ("{}",)},
    }
    assert_one_way(found)
    assert bench.verify(job="fields.toml").code == 0
