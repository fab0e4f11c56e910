"""A message without a table's name is rejected, with the setting that names it.

Messages carry no schema and table by default; users add a constant column by a transformation, which
then is part of data, before image and mask.
"""

from __future__ import annotations

import json

from publisher.consumer import Add, Modify
from tests.support.workbench import Workbench, removed, texts

HEADERS = {
    "changeSequence": "20240318104726000000000000000000001",
    "timestamp": "2024-03-18T10:47:26.000",
}


def message(number: int, operation: str, data: object, before: object, **masks: str) -> str:
    headers = {
        **HEADERS,
        "operation": operation,
        "changeSequence": f"2024031810472600{number:019d}",
        "streamPosition": "1",
        "transactionId": "0" * 32,
        **masks,
    }
    return json.dumps({"message": {"data": data, "beforeData": before, "headers": headers}}) + "\n"


NEW = {"ID": "2", "NAME": "new", "TBL": "kit"}
OLD = {**NEW, "NAME": "old"}
LINES = (
    message(1, "INSERT", {**NEW, "ID": "1"}, None, columnMask="07"),
    message(2, "UPDATE", NEW, OLD, changeMask="02", columnMask="07"),
    message(3, "UPDATE", NEW, OLD, changeMask="06", columnMask="07"),
)
JOB = """
[[sources]]
format = "change-table"
snapshots = ["in"]
layout = "messages"
key = ["ID"]
pair_wait = 0
{more}
"""


def test_without_a_table_the_records_are_rejected_with_the_setting(bench: Workbench) -> None:
    bench.write("job.toml", JOB.format(more=""))
    bench.write("in.jsonl", "".join(LINES))
    done = bench.run("replay", "in.jsonl", "-c", "job.toml", "--to", "out", codes=[0, 1, 4])
    details = done.err + "".join(
        reject.detail for reject in (bench.rejects() if not done.code else [])
    )
    assert "source_table" in details
    assert done.code or bench.lines() == []


def test_with_a_table_only_the_changed_column_is_published(bench: Workbench) -> None:
    bench.write("job.toml", JOB.format(more='source_table = "kit"'))
    bench.write("in.jsonl", "".join(LINES))
    bench.replay("in.jsonl", "-c", "job.toml")
    assert bench.rejects() == []
    (added,) = (op for op in bench.operations() if isinstance(op, Add))
    first, *others = (op for op in bench.operations() if isinstance(op, Modify))
    assert texts(added, "TBL") == ["kit"]
    assert {change.attribute for change in first.changes} == {"NAME"}
    assert (removed(first, "NAME"), texts(first, "NAME")) == (["old"], ["new"])
    for second in others:
        assert removed(second, "TBL") == texts(second, "TBL")
