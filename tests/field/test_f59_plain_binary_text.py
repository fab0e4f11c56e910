"""Text that Parquet does not mark as text is no bytes.

Strings that some engines write as plain BINARY were read as byte arrays.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.workbench import COLUMNS, Workbench

ROW = {
    "record_id": "1",
    "table_key": "idu=1",
    "status": "N",
    "event_type": "3",
    "event_time": "2026-05-01 10:00:00",
    "table_name": "usr",
    "column_name": "lname",
    "new_value": "Müller",
}


@pytest.mark.parametrize("kind", ["binary", "large_string", "dictionary"])
def test_an_event_log_reads_text_of_every_type(bench: Workbench, kind: str) -> None:
    types = {
        "binary": pa.binary(),
        "large_string": pa.large_string(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }
    texts = {name: ROW.get(name) for name in COLUMNS}
    encoded = {
        name: [text.encode() if kind == "binary" and text is not None else text]
        for name, text in texts.items()
    }
    arrays = {name: pa.array(values, types[kind]) for name, values in encoded.items()}
    pq.write_table(pa.table(arrays), bench.folder / "log.parquet")
    bench.replay("log.parquet")
    assert bench.objects() == {"idu=1,table=usr": {"lname": ("Müller",)}}


JOB = """
[[sources]]
name = "cmp"
format = "triggerless"
snapshots = ["in"]
key = {{ usr = ["idu"] }}
[dispatch]
path = "out"
{more}
"""


@pytest.mark.parametrize("declared", ["string", "octet", None])
def test_a_compared_file_has_text_as_declared_or_says_that_it_is_base64(
    bench: Workbench, declared: str | None
) -> None:
    more = f'[tables.usr]\ncolumns = {{ name = "{declared}" }}' if declared else ""
    bench.write("job.toml", JOB.format(more=more))
    bench.write("in/.keep", "")
    table = pa.table({"idu": pa.array([1]), "name": pa.array(["Müller".encode()], pa.binary())})
    pq.write_table(table, bench.folder / "in" / "usr.parquet")
    report = bench.publish()
    value = bench.objects()["idu=1,table=usr"]["name"]
    if declared == "string":
        assert value == ("Müller",)
    elif declared == "octet":
        assert value == ("TcO8bGxlcg==",)
    else:
        assert value == ("Müller",) or any("name" in note for note in report["notes"])
