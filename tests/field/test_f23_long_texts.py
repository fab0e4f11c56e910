"""What is published can be read.

The default limit of libxml2, ten million bytes of a text, made large Base64 values unreadable; with
recovery on, data was dropped silently.
"""

from __future__ import annotations

import json

import pytest
from lxml import etree

from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

LONG = 11_000_000
JOB = """
[[sources]]
name = "cmp"
format = "triggerless"
snapshots = ["in"]
key = {{ usr = ["idu"] }}
[dispatch]
path = "out"
[documents]
value_format = "{value_format}"
"""


@pytest.mark.parametrize("value_format", ["xml", "json"])
def test_a_long_value_is_readable_or_rejected_by_itself(
    bench: Workbench, value_format: str
) -> None:
    rows = [
        {"idu": 1, "a": "short", "b": "x"},
        {"idu": 2, "a": "v" * LONG, "b": "y"},
        {"idu": 3, "a": "v" * 8_000_000, "b": "z"},
    ]
    bench.write("in/usr.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    bench.write("job.toml", JOB.format(value_format=value_format))
    bench.publish()
    objects = bench.objects()
    assert objects["idu=1,table=usr"] == {"a": ("short",), "b": ("x",)}
    assert len(objects["idu=3,table=usr"]["a"][0]) == 8_000_000
    if value_format == "json":
        assert len(objects["idu=2,table=usr"]["a"][0]) == LONG
        return
    for line in bench.lines():
        etree.fromstring(line)
    (reject,) = bench.rejects()
    assert "a" in reject.detail
    assert "11,000,000" in reject.detail
    parts = [str(path) for path in (bench.folder / "out").rglob("part-*.xds")]
    bench.run("validate", *parts)
