"""Files of change tables and their neighbours: ``.dfm``, gzip, typed Parquet, JSON keys."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.errors import FatalError
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.files.recognise import dfm_of
from tests.support.change_table_files import (
    DATA,
    HEADERS,
    change_text,
    options,
    read,
    record,
    write,
)
from tests.support.event_log_files import USR, Tables, csv_text

ROWS = [record(1, "I", range(10), idu="1", fname="Ann"), record(2, "D", [0], idu="1")]


def describe(
    path: Path,
    *,
    content: str = "changes",
    columns: Sequence[str] = (*HEADERS, *DATA),
    **format_: object,
) -> None:
    described = [
        {"ordinal": at, "name": name, "primaryKeyPos": int(name == "idu")}
        for at, name in enumerate(columns, 1)
    ]
    dfm = {
        "fileInfo": {"content": content},
        "formatInfo": {"options": format_},
        "dataInfo": {"sourceSchema": "hr", "sourceTable": "people.x", "columns": described[::-1]},
    }
    dfm_of(path).write_text(json.dumps(dfm))


def test_metadata_says_columns_key_table_delimiter_and_null(tmp_path: Path) -> None:
    path = tmp_path / "20211008-131231320.csv.gz"
    text = (
        csv_text(ROWS, header=False)
        .replace(",", ";")
        .replace("Ann", "NULL")
        .replace('"NULL"', "NULL")
    )
    path.write_bytes(gzip.compress(text.encode()))
    describe(path, fieldDelimiter=";", nullValue="NULL")
    found = read(path, ChangeTableOptions())
    assert [(one["schema"], one["table"], one["event_type"]) for one in found] == [
        ("hr", "people.x", 1),
        ("hr", "people.x", 4),
    ]
    assert ("fname", None) in change_text(found[0])


@pytest.mark.parametrize(
    ("written", "delimiter"),
    [
        ("0x01", "\x01"),
        ("0x09", "\t"),
        (r"\t", "\t"),
        ("|", "|"),
        ("0X7c", "|"),
        (None, ","),
        ("", ","),
    ],
)
def test_delimiters_are_read_as_metadata_writes_them(
    tmp_path: Path, written: str | None, delimiter: str
) -> None:
    path = tmp_path / "usr__ct.csv"
    path.write_text(csv_text(ROWS).replace(",", delimiter))
    describe(path, fieldDelimiter=written, quoteChar='"', escapeChar='"', recordDelimiter=r"\n")
    assert [change_text(one)[0] for one in read(path, ChangeTableOptions())] == [1, 4]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("fieldDelimiter", "0xA7", "ASCII"),
        ("fieldDelimiter", '"', "contains the quote"),
        ("fieldDelimiter", '|"', "contains the quote"),
        ("fieldDelimiter", "0x7C0A", "line end"),
        ("fieldDelimiter", 5, "fieldDelimiter is 5 and not text"),
        ("fieldDelimiter", ["x"], "not text"),
        ("nullValue", {}, "not text"),
        ("quoteChar", "''", "one character"),
        ("quoteChar", "0xAB", "ASCII"),
        ("escapeChar", "0x5C5C", "one character"),
        ("escapeChar", ",", "contains the quote or the escape"),
        ("recordDelimiter", "0x02", "recordDelimiter"),
    ],
)
def test_csv_that_is_written_otherwise_is_refused_and_other_files_are_not(
    tmp_path: Path, option: str, value: object, message: str
) -> None:
    path = write(tmp_path / "usr__ct.csv", ROWS)
    describe(path, **{option: value})  # type: ignore[arg-type]
    with pytest.raises(FatalError, match=message) as refusal:
        read(path, ChangeTableOptions())
    assert "usr__ct.dfm" in refusal.value.message
    if isinstance(value, str):
        path = write(tmp_path / "usr__ct.jsonl", ROWS)
        assert [change_text(one)[0] for one in read(path, ChangeTableOptions())] == [1, 4]


@pytest.mark.parametrize(
    ("written", "format_"),
    [
        ("||", {"fieldDelimiter": "||"}),
        ("||", {"fieldDelimiter": "0x7C7C"}),
        ("\x01\x02", {"fieldDelimiter": "0x0102", "escapeChar": ""}),
        ("|'", {"fieldDelimiter": "|", "quoteChar": "'", "escapeChar": "'"}),
        ("|'", {"fieldDelimiter": "|", "quoteChar": "0x27"}),
    ],
)
def test_other_delimiters_and_quotes_are_read_as_metadata_names_them(
    tmp_path: Path, written: str, format_: dict[str, str]
) -> None:
    rows = [record(1, "I", range(10), idu="1", fname='O\'Neil, "x" | y'), ROWS[1]]
    path = tmp_path / "usr__ct.csv"
    delimiter, quote = (written[0], "'") if written.endswith("'") else (written, '"')
    cells = (
        (
            "" if v is None else quote + str(v).replace(quote, quote * 2) + quote
            for v in row.values()
        )
        for row in rows
    )
    names = [*rows[0]]
    path.write_text("".join(f"{delimiter.join(line)}\n" for line in [names, *cells]))
    describe(path, **format_)
    found = read(path, ChangeTableOptions())
    assert [one["event_type"] for one in found] == [1, 4]
    assert ("fname", 'O\'Neil, "x" | y') in change_text(found[0])


def test_an_empty_quote_means_that_nothing_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "usr__ct.csv"
    lines = [[*ROWS[0]], *([str(v or "") for v in row.values()] for row in ROWS)]
    path.write_text("".join("|".join(line).replace("Ann", '"Ann"') + "\n" for line in lines))
    describe(path, fieldDelimiter="|", quoteChar="", escapeChar='"')
    assert ("fname", '"Ann"') in change_text(read(path, ChangeTableOptions())[0])
    describe(path, fieldDelimiter="|", quoteChar="", escapeChar="\\")
    with pytest.raises(FatalError, match="has no meaning without quotes"):
        read(path, ChangeTableOptions())


def test_an_escape_before_quotes_is_read_as_metadata_names_it(tmp_path: Path) -> None:
    path = tmp_path / "usr__ct.csv"
    path.write_text(csv_text(ROWS).replace("Ann", 'An\\"n').replace('"An\\"n"', '"An\\"n"'))
    describe(path, escapeChar="\\")
    assert ("fname", 'An"n') in change_text(read(path, ChangeTableOptions())[0])


def test_marks_of_metadata_and_settings_that_differ_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "usr__ct.csv", ROWS)
    describe(path, quoteChar='"')
    with pytest.raises(FatalError, match='quote is "\'" in the settings'):
        read(path, ChangeTableOptions(), SnapshotOptions(quote="'"))
    describe(path, quoteChar="'")
    with pytest.raises(FatalError, match="do not fit"):
        read(path, ChangeTableOptions(), SnapshotOptions(delimiter="'"))


def test_a_full_load_is_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "LOAD00000001.csv", [{name: row[name] for name in DATA} for row in ROWS]
    )
    describe(path, content="data", columns=DATA)
    with pytest.raises(FatalError, match=r"full load .* publish the files of the '__ct' folder"):
        read(path)


def test_changes_that_metadata_calls_data_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "20211201-112233444.csv", ROWS)
    describe(path, content="data")
    assert [found["event_type"] for found in read(path, ChangeTableOptions())] == [1, 4]


def test_metadata_of_other_columns_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [row | {"more": "x"} for row in ROWS])
    describe(path)
    with pytest.raises(FatalError, match="column more"):
        read(path)


def test_typed_parquet_is_read_as_the_text_of_its_values(tmp_path: Path) -> None:
    path = tmp_path / "usr__ct.parquet"
    names = (
        "header__change_seq",
        "header__change_oper",
        "header__change_mask",
        "header__timestamp",
    )
    row = {name: ROWS[0][name] for name in names} | {
        "header__change_mask": bytes.fromhex("03F0"),
        "header__timestamp": dt.datetime(2024, 3, 18, 10, 47, 26, tzinfo=dt.UTC),
        "idu": 7,
        "pay": Decimal("1.50"),
        "on": True,
        "since": dt.date(2024, 1, 2),
        "at": dt.datetime(2024, 1, 2, 3, 4, 5),  # noqa: DTZ001 - as columns without zone are
        "photo": b"\xbb\xbb",
    }
    pq.write_table(pa.Table.from_pylist([row]), path)
    (found,) = read(path)
    assert found["event_time"] == 1_710_758_846_000_000
    assert change_text(found) == (
        1,
        "idu=7",
        ("idu", "7"),
        ("pay", "1.50"),
        ("on", "true"),
        ("since", "2024-01-02"),
        ("at", "2024-01-02 03:04:05.000000"),
        ("photo", "u7s="),
    )


def test_how_text_writes_binary_columns_is_asked_for(tmp_path: Path) -> None:
    row = {name: ROWS[0][name] for name in HEADERS} | {"idu": "1", "photo": "BBbb"}
    path = write(tmp_path / "usr__ct.csv", [row | {"header__change_mask": "0180"}])
    with pytest.raises(FatalError, match="binary_text"):
        read(path, tables=Tables())
    for form, text in (("hex", "u7s="), ("base64", "BBbb")):
        (found,) = read(path, options(binary_text=form), tables=Tables())
        assert ("photo", text) in change_text(found)
    assert USR.columns["photo"] == "octet"


def test_objects_may_leave_out_keys_and_not_add_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "usr__ct.jsonl"
    sparse = {name: value for name, value in ROWS[1].items() if value is not None}
    path.write_text("\n".join(json.dumps(row) for row in (sparse, ROWS[0])))
    assert [change_text(one)[:2] for one in read(path)] == [(1, "idu=1"), (4, "idu=1")]
    told_columns = options(columns=tuple(ROWS[0]))
    path.write_text(json.dumps(ROWS[0] | {"more": 1}))
    assert [change_text(one) for one in read(path, told_columns)] == [("broken-record",)]


@pytest.mark.parametrize(
    ("known", "written"),
    [
        ('"header__change_m', '"header__chang": "I", "e_m'),
        ("header__stream_position", "header__streaM_position"),
    ],
    ids=["damaged line", "key of another case"],
)
def test_keys_of_one_line_do_not_decide_for_the_file(
    known: str, written: str, tmp_path: Path
) -> None:
    rows = [record(number, "I", [0], idu=str(number)) for number in range(1, 5)]
    path = write(tmp_path / "usr__ct.jsonl", rows)
    lines = path.read_text().splitlines()
    lines[1] = lines[1].replace(known, written)
    path.write_text("\n".join(lines))
    found = read(path, options(header_columns=7, mask_order="msb"))
    assert [one["outcome"] for one in found].count(None) >= 3


def test_a_line_is_too_long_wherever_blocks_end(tmp_path: Path) -> None:
    rows = [record(number, "I", [0], idu=str(number)) for number in range(1, 5)]
    rows[1]["fname"] = "x" * 2000
    path = write(tmp_path / "usr__ct.jsonl", rows)
    for block_size in (64, 3000, 1 << 20):
        reading = SnapshotOptions(block_size=block_size, max_record=1000)
        found = read(path, options(header_columns=7, mask_order="msb"), reading)
        assert [one["reason"] for one in found].count("broken-record") == 1
