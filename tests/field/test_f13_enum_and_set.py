"""The error value of ENUM is an empty text, and a SET is one text.

The empty error value (index 0) crashed readers or became the last member; sets were split at their
commas.
"""

from __future__ import annotations

import pytest

from tests.field.ways import publish_each_way
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long


def test_an_error_value_is_present_and_a_set_is_one_value(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute("CREATE TABLE e (id int PRIMARY KEY, k enum('a','b'), s set('x','y'))")
    rows = [
        "SET SESSION sql_mode = ''",
        "INSERT INTO e VALUES (1, 'zzz', 'x,y')",
        "INSERT INTO e VALUES (2, 'a', '')",
    ]
    found = publish_each_way(bench, mariadb, "e", rows, ["id=1", "id=2"])
    for way, objects in found.items():
        assert objects == {
            "id=1": {"k": ("",), "s": ("x,y",)},
            "id=2": {"k": ("a",), "s": ("",)},
        }, way


def test_both_are_quoted_in_keys(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute("CREATE TABLE e (k enum('a','b'), s set('x','y'), v int, PRIMARY KEY (k, s))")
    rows = [
        "SET SESSION sql_mode = ''",
        "INSERT INTO e VALUES ('zzz', 'x,y', 1)",
        "INSERT INTO e VALUES ('a', '', 2)",
    ]
    keys = ['k=""+s="x,y"', 'k=a+s=""']
    found = publish_each_way(bench, mariadb, "e", rows, keys)
    for way, objects in found.items():
        assert objects == {keys[0]: {"v": ("1",)}, keys[1]: {"v": ("2",)}}, way
