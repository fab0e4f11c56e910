"""Keys may hold the characters of their own grammar.

Quotes inside a text broke statements, and keys with delimiters were ambiguous. The driver's guide puts
values with ``, ; ' + " = \\ < >`` in double quotes.
"""

from __future__ import annotations

import pytest

from tests.field.ways import publish_each_way
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

ROWS = [
    ("R+D", "O'Brien"),
    ("a+b", "c"),
    ("a", "b+c"),
    ('a"b\\c', " x "),
    ("", "="),
    (",table=usr", ";<>"),
    ("x\\", "y"),
]


def _sql(text: str, place: Place) -> str:
    text = text.replace("'", "''")
    return "'" + (text.replace("\\", "\\\\") if place.kind == "mariadb" else text) + "'"


def _key(text: str) -> str:
    if text == "" or text != text.strip() or any(c in text for c in ",;'+\"=\\<>"):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def test_every_row_is_one_object_by_every_way(bench: Workbench, place: Place) -> None:
    place.execute(
        "CREATE TABLE staff (dept varchar(20), name varchar(20), v int, PRIMARY KEY (dept, name))"
    )
    rows = [
        f"INSERT INTO staff VALUES ({_sql(d, place)}, {_sql(n, place)}, {v})"
        for v, (d, n) in enumerate(ROWS)
    ]
    keys = [f"dept={_key(d)}+name={_key(n)}" for d, n in ROWS]
    logged = [_sql(key, place)[1:-1] for key in keys]
    found = publish_each_way(bench, place, "staff", rows, logged)
    end = ",table=staff" if place.kind != "postgresql" else ",table=staff,schema=public"
    for way in found:
        objects = bench.objects(f"{way}-out")
        assert objects == {f"{key}{end}": {"v": (str(v),)} for v, key in enumerate(keys)}, way
    for key in keys:
        assert bench.run("explain", "-c", "fields.toml", key).out.count("position") >= 1, key
    assert bench.verify(job="fields.toml").code == 0
