"""A value in the name of a folder is no guess.

Columns that exist only as folder names were typed by guess (``007`` became 7), or were absent.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.workbench import Workbench

FOLDERS = ("region=007", "region=08", "region=__HIVE_DEFAULT_PARTITION__", "region=a%2Fb")
TEXTS = ("007", "08", None, "a/b")
JOB = """
[[sources]]
name = "cmp"
format = "triggerless"
snapshots = ["in"]
key = { usr = ["id"] }
[dispatch]
path = "out"
"""


def write_parts(root: Path) -> None:
    for number, folder in enumerate(FOLDERS):
        (root / folder).mkdir(parents=True)
        pq.write_table(pa.table({"id": [number], "v": ["x"]}), root / folder / "part-0.parquet")


def test_a_folder_value_is_text_or_said_to_be_left_out(bench: Workbench) -> None:
    bench.write("job.toml", JOB)
    write_parts(bench.folder / "in" / "usr.parquet")
    done = bench.run("publish", "-c", "job.toml", "--json", codes=[0, 1, 2])
    if done.code:
        assert "region=007" in done.err
        return
    objects = bench.objects()
    assert len(objects) == len(FOLDERS)
    for number, text in enumerate(TEXTS):
        values = objects[f"id={number},table=usr"]
        assert values["v"] == ("x",)
        assert values.get("region") in ((text,), None)
    if all("region" not in values for values in objects.values()):
        assert any("region" in note for note in done.report["notes"])
