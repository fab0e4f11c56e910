"""A byte order mark at the start of a file is no data.

It stuck to the first column's name, so the column was not found. RFC 8259 lets a parser ignore it;
U+FEFF anywhere else is a character of the text.
"""

from __future__ import annotations

import gzip
import json

import pytest

from tests.support.workbench import Workbench, event, log_file

BOM = "\ufeff"
EVENTS = [event("idu=1", 3, "fname", new="first"), event("idu=2", 3, "fname", new=f"in{BOM}side")]
EXPECTED = {
    "idu=1,table=usr": {"fname": ("first",)},
    "idu=2,table=usr": {"fname": (f"in{BOM}side",)},
}


def test_a_mark_before_the_header_is_skipped(bench: Workbench) -> None:
    bench.write("log.csv", BOM + log_file(EVENTS))
    bench.replay("log.csv")
    assert bench.objects() == EXPECTED


def test_a_mark_before_a_quoted_name_is_skipped(bench: Workbench) -> None:
    text = log_file(EVENTS)
    bench.write("log.csv", BOM + text.replace("record_id", '"record_id"', 1))
    bench.replay("log.csv")
    assert bench.objects() == EXPECTED


def test_a_mark_before_a_first_row_without_header_is_skipped(bench: Workbench) -> None:
    bench.write("log.csv", BOM + log_file(EVENTS).partition("\n")[2])
    bench.write("job.toml", '[[sources]]\nsnapshots = ["log.csv"]\nheader = "no"\n')
    bench.replay("log.csv", "-c", "job.toml")
    assert bench.objects() == EXPECTED


def test_each_file_may_have_a_mark(bench: Workbench) -> None:
    for number, one in enumerate(EVENTS, 1):
        row = {**one, "record_id": number}
        bench.write(f"in/{number}.csv", BOM + log_file([row]))
    bench.replay("in")
    assert bench.objects() == EXPECTED


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_with_its_mark(bench: Workbench, encoding: str) -> None:
    bench.write("log.csv", (BOM + log_file(EVENTS)).encode(encoding))
    bench.write("job.toml", '[[sources]]\nsnapshots = ["log.csv"]\nencoding = "utf-16"\n')
    bench.replay("log.csv", "-c", "job.toml")
    assert bench.objects() == EXPECTED


def test_json_lines_may_begin_with_a_mark(bench: Workbench) -> None:
    defaults = {"status": "N", "event_time": "2026-05-01 10:00:00"}
    lines = [
        json.dumps({"record_id": n, **defaults, **e}, ensure_ascii=False)
        for n, e in enumerate(EVENTS, 1)
    ]
    bench.write("log.jsonl", BOM + "\n".join(lines) + "\n")
    bench.replay("log.jsonl")
    assert bench.objects() == EXPECTED


def test_a_mark_of_a_compressed_file_is_skipped(bench: Workbench) -> None:
    bench.write("log.csv.gz", gzip.compress((BOM + log_file(EVENTS)).encode()))
    bench.replay("log.csv.gz")
    assert bench.objects() == EXPECTED


def test_a_job_file_with_a_mark_is_read_or_named(bench: Workbench) -> None:
    bench.write("log.csv", log_file(EVENTS))
    bench.write("job.toml", BOM + '[[sources]]\nsnapshots = ["log.csv"]\n')
    done = bench.run("replay", "log.csv", "-c", "job.toml", "--to", "out", codes=[0, 2])
    if done.code:
        assert "byte order mark" in done.err
    else:
        assert bench.objects() == EXPECTED
