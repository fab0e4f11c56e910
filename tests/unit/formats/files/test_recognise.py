"""A file of another format than the configured one is refused; the message names its format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.errors import FatalError
from publisher.formats.change_table.layout import HEADERS
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.dispatch_queue.rows.layout import COLUMNS
from publisher.formats.event_log.layout import LAYOUT
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.files.recognise import NAMES, dfm_of, format_of
from publisher.formats.registry import FORMATS

SEQ = "20260507060157000000000000000000007"
EVENT = "1,idu=1,N,5,2026-05-04 11:15:03,jdoe,usr,,,"
TABLE = "header__change_seq,header__change_oper,id,status"
TO_CHANGES = "it looks like the format change-table: --format change-table reads it"
TO_EVENTS = "it looks like the format event-log: --format event-log reads it"
MESSAGE = '{"data": {"id": 1}, "beforeData": null, "headers": {"operation": "INSERT"}}\n'


def splits(path: Path, format_: str = "event-log", header: str = "auto") -> int:
    options = EventLogOptions() if format_ == "event-log" else ChangeTableOptions(source_table="t")
    reading = SnapshotOptions(header=header)  # type: ignore[arg-type]
    return len(FORMATS[format_].source(options, reading).splits([path], 1))


def refusal(path: Path, format_: str = "event-log", header: str = "auto") -> str:
    with pytest.raises(FatalError) as caught:
        splits(path, format_, header)
    assert str(path) in caught.value.message
    return caught.value.message


def write_text(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_the_names_that_identify_a_format_are_its_columns() -> None:
    assert NAMES["event-log"] <= set(LAYOUT["3.5"])
    assert NAMES["dispatch-queue"] <= {name.casefold() for name in COLUMNS}
    assert format_of(LAYOUT["2.x"]) == "event-log"
    assert format_of(COLUMNS) == "dispatch-queue"
    assert format_of([f"header__{name}" for name in HEADERS]) == "change-table"
    assert format_of(["id", "name", "status", "table_name"]) is None


@pytest.mark.parametrize("header", ["auto", "yes"])
@pytest.mark.parametrize("names", [TABLE, TABLE.replace(",status", ""), TABLE.upper()])
def test_a_change_table_is_no_event_log(names: str, header: str, tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", f"{names}\n{SEQ},I,1,x\n")
    assert TO_CHANGES in refusal(path, header=header)


def test_a_change_table_without_names_is_known_by_its_first_field(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", f'"{SEQ}","I","1"\n')
    message = refusal(path)
    assert "its first record has 3 fields where there should be 10" in message
    assert TO_CHANGES in message


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_change_table_without_names_is_known_by_its_dfm(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write_text(dfm_of(path), "{}")
    for text, fits in ((b"", True), (f"{EVENT}\n".encode(), True), (b"I,1,x\n", False)):
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        if fits:
            assert splits(path) == 1
        else:
            assert f"a.dfm describes it; {TO_CHANGES}" in refusal(path)


def test_columns_of_no_known_format_are_refused_too(tmp_path: Path) -> None:
    message = refusal(write_text(tmp_path / "a.csv", "id,name,phone\n1,Ann,2\n"))
    assert "seems to name them: id, name, phone; choose its format (--format" in message


@pytest.mark.parametrize("text", [EVENT, f"{EVENT}\n1,2,3", f"1,2,3\n{EVENT}", "", "only", "a,a"])
def test_an_event_log_without_names_is_read_as_before(text: str, tmp_path: Path) -> None:
    assert splits(write_text(tmp_path / "a.csv", text)) == 1


@pytest.mark.parametrize("kind", ["rows", "messages"])
def test_json_lines_of_a_change_table_are_no_event_log(kind: str, tmp_path: Path) -> None:
    rows = f'{{"header__change_seq": "{SEQ}", "header__change_oper": "I", "status": 1}}\n'
    message = refusal(
        write_text(tmp_path / "a.jsonl", {"rows": rows, "messages": MESSAGE}[kind] * 3)
    )
    assert TO_CHANGES in message
    assert ('layout = "messages"' in message) == (kind == "messages")


def test_one_odd_line_of_an_event_log_is_no_reason_to_refuse_it(tmp_path: Path) -> None:
    event = (
        '{"record_id": 1, "table_key": "idu=1", "status": "N", "event_type": 5,'
        ' "event_time": "2026-05-04 11:15:03", "table_name": "usr"}\n'
    )
    assert splits(write_text(tmp_path / "a.jsonl", MESSAGE + event)) == 1
    assert splits(write_text(tmp_path / "b.jsonl", '{"some": 1}\n{"thing": 2}\nno json\n')) == 1


def test_parquet_of_a_change_table_is_no_event_log(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: ["1"] for name in TABLE.split(",")}), path)
    assert TO_CHANGES in refusal(path)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_an_event_log_is_no_change_table(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "a.csv":
        write_text(path, f"{','.join(LAYOUT['3.5'])}\n{EVENT}\n")
    elif name == "a.jsonl":
        write_text(path, "{" + ", ".join(f'"{column}": 1' for column in LAYOUT["3.5"]) + "}\n")
    else:
        pq.write_table(pa.table({column: ["1"] for column in LAYOUT["3.5"]}), path)
    assert TO_EVENTS in refusal(path, "change-table")
