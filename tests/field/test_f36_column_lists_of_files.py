"""Each file of a change folder has its own list of columns.

Files of one change folder had different columns, and masks were read with the wrong list. Bits count the
columns of the file in which they stand.
"""

from __future__ import annotations

from publisher.consumer import Add, Modify
from tests.field.changes import change, change_file
from tests.support.workbench import Workbench, texts

JOB = """
[[sources]]
name = "changes"
format = "change-table"
snapshots = ["in"]
source_table = "usr"
key = ["id"]
header_columns = 7
mask_order = "msb"
pair_wait = 0
[dispatch]
path = "out"
"""
FILES = {
    "1.csv": (
        ("id", "a", "b"),
        [change(1, "I", [7, 8, 9], id="1", a="a1", b="b1"), change(2, "U", [9], id="1", b="b2")],
    ),
    "2.csv": (
        ("id", "a", "x", "b"),
        [
            change(3, "I", [7, 8, 9, 10], id="2", a="a2", x="x2", b="b2"),
            change(4, "U", [10], id="2", b="b3"),
        ],
    ),
    "3.csv": (
        ("id", "x", "b"),
        [change(5, "I", [7, 8, 9], id="3", x="x3", b="b3"), change(6, "U", [9], id="3", b="b4")],
    ),
}


def test_masks_are_read_with_the_columns_of_their_file(bench: Workbench) -> None:
    bench.write("job.toml", JOB)
    for name, (columns, records) in FILES.items():
        bench.write(f"in/{name}", change_file(columns, records))
    bench.publish()
    assert bench.rejects() == []
    added = {
        op.association.partition(",")[0]: {
            change.attribute: change.value.text for change in op.changes if change.attribute != "id"
        }
        for op in bench.operations()
        if isinstance(op, Add)
    }
    assert added == {
        "id=1": {"a": "a1", "b": "b1"},
        "id=2": {"a": "a2", "x": "x2", "b": "b2"},
        "id=3": {"x": "x3", "b": "b3"},
    }
    updates = [op for op in bench.operations() if isinstance(op, Modify)]
    assert {op.association.partition(",")[0]: texts(op, "b") for op in updates} == {
        "id=1": ["b2"],
        "id=2": ["b3"],
        "id=3": ["b4"],
    }
    assert all({c.attribute for c in op.changes} == {"b"} for op in updates)
