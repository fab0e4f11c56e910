from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.errors import FatalError, OptionsError, TableRefusedError, UsageError
from publisher.formats.contract import Context
from publisher.formats.event_log.layout import LAYOUT
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.event_log.source import event_log
from publisher.formats.files.options import SnapshotOptions
from publisher.model.catalogue import Table
from publisher.model.change import Outcome, Position, Reason
from publisher.model.keys import IdentifierCase
from publisher.model.lanes import lane_of
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.planning.filters import Filter, FilterOptions
from tests.support.event_log_files import (
    NAMES,
    OPEN,
    USR,
    Row,
    Tables,
    csv_text,
    event,
    read,
    write,
)
from tests.support.raw_records import raw_record

SUFFIXES = (".csv", ".jsonl", ".parquet")
MICROSECONDS = 1_714_979_289_000_000  # 2024-05-06 07:08:09 UTC


def one(
    tmp_path: Path,
    row: Row,
    options: EventLogOptions | None = None,
    catalogue: Tables | None = None,
) -> Row:
    """The record of a row, which must be equal from each kind of snapshot."""
    found = [
        read(write(tmp_path / f"log{suffix}", [row]), options, None, catalogue)
        for suffix in SUFFIXES
    ]
    for records, framed in found:
        assert framed == len(records) == 1
    record, others = found[0][0][0], [records[0] for records, _ in found[1:]]
    varying = {"row", "raw"}
    if record["outcome"] is not None:
        varying |= {"lane", "part", "high", "rank"}  # may follow the place in the file
    for other in others:
        assert {k: v for k, v in other.items() if k not in varying} == {
            k: v for k, v in record.items() if k not in varying
        }
    return record


def test_all_values_of_a_row_are_in_its_record(tmp_path: Path) -> None:
    assert one(tmp_path, event(4711, perpetrator="app")) == {
        "source": 7,
        "lane": lane_of("indirect", "usr", "idu=1", 4),
        "part": "",
        "rank": 4711,
        "high": 4711,
        "low": 0,
        "ordinal": 0,
        "split": 0,
        "row": 2,
        "records": 1,
        "schema": "indirect",
        "table": "usr",
        "key": "idu=1",
        "event_type": 2,
        "columns": ["fname"],
        "old": ["Jack"],
        "new": ["John"],
        "event_time": MICROSECONDS,
        "perpetrator": "app",
        "transaction": None,
        "is_view": None,
        "logged_table": None,
        "logged_column": None,
        "children": None,
        "fingerprint": None,
        "outcome": None,
        "reason": None,
        "detail": None,
        "raw": None,
    }


@pytest.mark.parametrize(
    ("event_type", "columns", "old", "new"),
    [
        (1, ["fname"], None, ["John"]),
        (2, ["fname"], ["Jack"], ["John"]),
        (3, ["fname"], None, ["John"]),
        (4, [], None, None),
        (5, [], None, None),
        (6, [], None, None),
        (7, ["fname"], None, None),
        (8, ["fname"], None, None),
    ],
)
def test_each_event_type_takes_the_images_it_uses(
    tmp_path: Path, event_type: int, columns: list[str], old: object, new: object
) -> None:
    record = one(tmp_path, event(event_type=event_type))
    assert (record["columns"], record["old"], record["new"]) == (columns, old, new)


def test_null_and_empty_values_stay_apart(tmp_path: Path) -> None:
    record = one(tmp_path, event(old_value=None, new_value=""))
    assert (record["old"], record["new"]) == ([None], [""])


@pytest.mark.parametrize("event_type", [4, 5, 6])
def test_per_row_types_need_no_column(tmp_path: Path, event_type: int) -> None:
    record = one(
        tmp_path, event(event_type=event_type, column_name=None, old_value=None, new_value=None)
    )
    assert record["outcome"] is None


REJECTS: list[tuple[Row, Reason, str]] = [
    ({"record_id": None}, Reason.RECORD_ID, "NULL"),
    ({"record_id": 0}, Reason.RECORD_ID, "'0'"),
    ({"record_id": -5}, Reason.RECORD_ID, "'-5'"),
    ({"record_id": "1.5"}, Reason.RECORD_ID, "'1.5'"),
    ({"record_id": "0x1F"}, Reason.RECORD_ID, "0x1F"),
    ({"record_id": 1 << 63}, Reason.RECORD_ID, "64 bits"),
    ({"event_type": None}, Reason.EVENT_TYPE, "None"),
    ({"event_type": 0}, Reason.EVENT_TYPE, "'0'"),
    ({"event_type": 9}, Reason.EVENT_TYPE, "1 to 8"),
    ({"event_type": "x"}, Reason.EVENT_TYPE, "'x'"),
    ({"event_time": None}, Reason.EVENT_TIME, "NULL"),
    ({"event_time": "yesterday"}, Reason.EVENT_TIME, "yesterday"),
    ({"event_time": "2024-13-01 00:00:00"}, Reason.EVENT_TIME, "2024-13"),
    ({"table_name": None}, Reason.TABLE_NAME, "NULL"),
    ({"table_name": ""}, Reason.TABLE_NAME, "not a table name"),
    ({"table_name": "a.b.c.d"}, Reason.TABLE_NAME, "not a table name"),
    ({"table_name": "nowhere"}, Reason.TABLE_NAME, "no table"),
    ({"table_key": None}, Reason.TABLE_KEY, "NULL"),
    ({"table_key": ""}, Reason.TABLE_KEY, "COLUMN=VALUE"),
    ({"table_key": "idu"}, Reason.TABLE_KEY, "="),
    ({"table_key": "idu=a,b"}, Reason.TABLE_KEY, "quotes"),
    ({"table_key": "idu=one"}, Reason.TABLE_KEY, "not a number"),
    ({"table_key": "fname=1"}, Reason.TABLE_KEY, "the key of usr is idu"),
    ({"table_key": "idu=1+fname=2"}, Reason.TABLE_KEY, "the key of usr is idu"),
    ({"column_name": None}, Reason.COLUMN_NAME, "empty"),
    ({"column_name": " "}, Reason.COLUMN_NAME, "empty"),
    ({"column_name": "shoe"}, Reason.COLUMN_NAME, "no column 'shoe'"),
    ({"column_name": "photo", "old_value": "?", "new_value": "qqo="}, Reason.VALUE, "old_value"),
    ({"column_name": "photo", "old_value": "qqo=", "new_value": "qqo"}, Reason.VALUE, "new_value"),
]


@pytest.mark.parametrize(("changes", "reason", "words"), REJECTS)
def test_a_wrong_row_is_rejected_with_reason_and_raw_record(
    tmp_path: Path, changes: Row, reason: Reason, words: str
) -> None:
    row = event() | changes
    record = one(tmp_path, row)
    assert record["outcome"] == Outcome.REJECTED
    assert record["reason"] == reason
    assert words in str(record["detail"])
    raw = json.loads(str(record["raw"]))
    assert {name: None if value is None else str(value) for name, value in row.items()} == raw


@pytest.mark.parametrize(("changes", "reason", "words"), REJECTS)
def test_an_invalid_row_does_not_affect_its_neighbours(
    tmp_path: Path, changes: Row, reason: Reason, words: str
) -> None:
    rows = [event(10), event(20) | changes, event(30, table_key="idu=2")]
    records, framed = read(write(tmp_path / "log.csv", rows))
    assert framed == 3
    by_row = {record["row"]: record for record in records}
    assert by_row[3]["reason"] == reason
    for row, record_id, key in ((2, 10, "idu=1"), (4, 30, "idu=2")):
        assert (by_row[row]["high"], by_row[row]["key"], by_row[row]["outcome"]) == (
            record_id,
            key,
            None,
        )


class NoCatalogue:
    """Fails a test that queries it, unless for an expected table."""

    closed = True

    def table(self, schema: str | None, name: str) -> Table | None:
        if name.lower() in ("hidden", "user"):
            raise TableRefusedError(f"no right to see {name}: exclude the table")
        assert (schema, name) == (None, "usr"), "an excluded table was asked for"
        return USR


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mysql.user", {}),
        ("MySQL.User", {}),
        ('"pg_catalog"."pg_authid"', {}),
        ("db.pg_catalog.pg_authid", {}),
        ("HR.Secret_1", {"exclude": ("hr.secret*",)}),
        ("secret", {"exclude": ("SECRET",)}),
    ],
)
def test_an_excluded_table_is_ignored_before_the_catalogue_is_asked(
    tmp_path: Path, name: str, options: dict[str, tuple[str, ...]]
) -> None:
    rows = [event(1, table_name=name, new_value="SCRAM-SHA-256$4096"), event(2)]
    source = event_log()
    excludes = Filter(FilterOptions(**options)).excludes  # type: ignore[arg-type]
    ctx = Context(0, 3, NoCatalogue(), excludes)
    splits = source.splits([write(tmp_path / "log.csv", rows)], 1)
    records = [record for batch in source.read(splits[0], 0, ctx) for record in batch.to_pylist()]
    (ignored,) = [record for record in records if record["reason"] is not None]
    assert (ignored["outcome"], ignored["reason"]) == (Outcome.IGNORED, Reason.EXCLUDED)
    assert (ignored["high"], ignored["raw"]) == (1, None)
    assert "SCRAM" not in str(ignored)
    assert [record["high"] for record in records if record["outcome"] is None] == [2]


def test_a_table_that_the_database_hides_is_rejected_alone(tmp_path: Path) -> None:
    rows = [event(1, table_name="hidden"), event(2)]
    source = event_log()
    splits = source.splits([write(tmp_path / "log.csv", rows)], 1)
    records = [
        record
        for batch in source.read(splits[0], 0, Context(0, 3, NoCatalogue()))
        for record in batch.to_pylist()
    ]
    (refused,) = [record for record in records if record["reason"] is not None]
    assert (refused["outcome"], refused["reason"]) == (Outcome.REJECTED, Reason.DATABASE_REFUSED)
    assert refused["detail"] == "no right to see hidden: exclude the table"
    assert [record["high"] for record in records if record["outcome"] is None] == [2]


def test_a_record_without_record_id_is_at_its_place_in_the_file(tmp_path: Path) -> None:
    record = one(tmp_path, event("what"))
    source = event_log()
    position = Position(str(record["part"]), int(str(record["high"])), 0, 0)
    assert str(record["part"]).startswith("log.")
    assert source.parse_position(source.position_text(position)) == position


def test_base64_counts_only_where_the_type_uses_it(tmp_path: Path) -> None:
    for event_type, old, new in ((1, "?", "qqo="), (3, "?", "qqo="), (7, "?", "?"), (4, "?", "?")):
        row = event(event_type=event_type, column_name="photo", old_value=old, new_value=new)
        assert one(tmp_path, row)["outcome"] is None


def test_line_breaks_inside_base64_are_removed(tmp_path: Path) -> None:
    row = event(column_name="photo", old_value="qq\r\no=", new_value=" u7s=\n")
    record = one(tmp_path, row)
    assert (record["old"], record["new"]) == (["qqo="], ["u7s="])


@pytest.mark.parametrize("status", ["n", "S", "W", "", None, "NN", "X"])
def test_only_status_n_is_read_unless_any_is_wanted(tmp_path: Path, status: str | None) -> None:
    record = one(tmp_path, event(5, status=status))
    assert (record["outcome"], record["reason"]) == (Outcome.IGNORED, Reason.STATUS)
    assert record["detail"] == ("NULL" if status is None else status)
    assert (record["high"], record["raw"]) == (5, None)
    assert one(tmp_path, event(5, status=status), EventLogOptions(status="any"))["outcome"] is None


def test_a_row_that_is_not_read_is_not_rejected_either(tmp_path: Path) -> None:
    record = one(tmp_path, event("?", status="S", event_type=99))
    assert (record["outcome"], record["part"], record["high"]) == (Outcome.IGNORED, "log.csv", 2)


TIMES = [
    ("2024-05-06 07:08:09", MICROSECONDS),
    ("2024-05-06T07:08:09Z", MICROSECONDS),
    ("2024-05-06 07:08:09.5", MICROSECONDS + 500_000),
    ("2024-05-06 07:08:09.123456789", MICROSECONDS + 123_456),
    ("2024-05-06 09:08:09+02", MICROSECONDS),
    ("2024-05-06 09:08:09.000000001 +02:00", MICROSECONDS),
    (" 2024-05-06 02:08:09-0500 ", MICROSECONDS),
    ("2024-05-06", MICROSECONDS - (7 * 3600 + 8 * 60 + 9) * 1_000_000),
    ("0001-01-01 00:00:00", -62_135_596_800_000_000),
    ("9999-12-31 23:59:59.999999", 253_402_300_799_999_999),
]


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_event_times_are_understood(tmp_path: Path, text: str, expected: int) -> None:
    assert one(tmp_path, event(event_time=text))["event_time"] == expected


def test_event_times_of_all_forms_may_be_in_one_file(tmp_path: Path) -> None:
    rows = [event(i + 1, event_time=text) for i, (text, _) in enumerate(TIMES)]
    records, _ = read(write(tmp_path / "log.csv", [*rows, event(99, event_time="?")]))
    found = {record["high"]: record["event_time"] for record in records}
    assert found == {i + 1: expected for i, (_, expected) in enumerate(TIMES)} | {99: None}


def test_times_without_zone_are_in_the_zone_of_the_settings(tmp_path: Path) -> None:
    options = EventLogOptions(time_zone="Europe/Berlin")
    for text in ("2024-05-06 09:08:09", "2024-05-06 07:08:09Z"):
        assert one(tmp_path, event(event_time=text), options)["event_time"] == MICROSECONDS


def test_native_types_of_parquet_are_accepted(tmp_path: Path) -> None:
    moment = dt.datetime.fromisoformat("2024-05-06 07:08:09")
    columns = {
        "record_id": pa.array([Decimal(1), Decimal(2)], pa.decimal128(20, 0)),
        "table_key": pa.array(["idu=1", "idu=2"]).dictionary_encode(),
        "status": pa.array(["N", "N"], pa.large_string()),
        "event_type": pa.array([1.0, 2.0]),
        "event_time": pa.array([moment, moment], pa.timestamp("ns")),
        "perpetrator": pa.nulls(2),
        "table_name": pa.array([b"usr", b"usr"]),
        "column_name": pa.array(["fname", "fname"]),
        "old_value": pa.array([None, 12]),
        "new_value": pa.array([b"x", b"\xff"]),
    }
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), path)
    records, framed = read(path)
    assert framed == 2
    assert [
        (r["high"], r["event_type"], r["new"], r["event_time"]) for r in records if not r["outcome"]
    ] == [(1, 1, ["x"], MICROSECONDS)]
    assert [(r["high"], r["reason"]) for r in records if r["outcome"]] == [
        (2, Reason.BROKEN_RECORD)
    ]


def test_numbers_in_keys_are_normalised_where_the_column_is_known(tmp_path: Path) -> None:
    assert one(tmp_path, event(table_key=" idu = 01"))["key"] == "idu=1"
    assert one(tmp_path, event(table_key="idu=01"), catalogue=OPEN)["key"] == "idu=01"


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (IdentifierCase.AS_WRITTEN, ("indirect", "Usr", "IDU=1", ["FName"])),
        (IdentifierCase.LOWER, ("indirect", "usr", "idu=1", ["fname"])),
        (IdentifierCase.UPPER, ("INDIRECT", "USR", "IDU=1", ["FNAME"])),
        (IdentifierCase.DATABASE, ("indirect", "usr", "idu=1", ["fname"])),
    ],
)
def test_case_of_identifiers_follows_the_setting(
    tmp_path: Path, case: IdentifierCase, expected: object
) -> None:
    row = event(table_name="Usr", table_key="IDU=1", column_name="FName")
    record = one(tmp_path, row, EventLogOptions(identifier_case=case))
    assert (record["schema"], record["table"], record["key"], record["columns"]) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("usr", ("given", "usr")),
        ("direct.usr", ("direct", "usr")),
        ('"di.rect"."u""sr"', ("di.rect", 'u"sr')),
        ("db.direct.usr", ("direct", "usr")),
        ("[direct].[usr]", ("direct", "usr")),
        ("`usr`", ("given", "usr")),
    ],
)
def test_schema_comes_from_the_name_else_from_the_settings(
    tmp_path: Path, name: str, expected: object
) -> None:
    record = one(tmp_path, event(table_name=name), EventLogOptions(schema="given"), OPEN)
    assert (record["schema"], record["table"]) == expected


def test_without_a_catalogue_every_name_is_accepted(tmp_path: Path) -> None:
    record = one(
        tmp_path, event(table_name="what", table_key="a=1+b=2", column_name="x.y"), catalogue=OPEN
    )
    assert (record["schema"], record["table"], record["key"], record["columns"]) == (
        None,
        "what",
        "a=1+b=2",
        ["x.y"],
    )


@pytest.mark.parametrize("layout", ["3.5", "2.x"])
def test_files_without_names_are_read_by_position(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(csv_text([event(4711)], LAYOUT[layout], header=False))  # type: ignore[index]
    records, _ = read(path, EventLogOptions(layout=layout))  # type: ignore[arg-type]
    assert [(r["high"], r["key"], r["new"], r["row"]) for r in records] == [
        (4711, "idu=1", ["John"], 1)
    ]


@pytest.mark.parametrize(("layout", "other"), [("3.5", "2.x"), ("2.x", "3.5")])
def test_a_layout_that_the_content_contradicts_is_refused(
    tmp_path: Path, layout: str, other: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(csv_text([event(1), event(2)], LAYOUT[other], header=False))  # type: ignore[index]
    with pytest.raises(FatalError, match=f'set layout = "{other}"'):
        read(path, EventLogOptions(layout=layout))  # type: ignore[arg-type]


def test_custom_names_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(csv_text([event(4711)]).replace("record_id", "EVT").replace("table_key", "pk"))
    records, _ = read(path, EventLogOptions(columns={"evt": "record_id", "pk": "table_key"}))
    assert [(r["high"], r["key"]) for r in records] == [(4711, "idu=1")]
    with pytest.raises(FatalError, match="record_id is missing"):
        read(path)


@pytest.mark.parametrize("columns", [{"evt": "record-id"}, {"a": "record_id", "b": "record_id"}])
def test_a_wrong_mapping_of_columns_is_refused(columns: dict[str, str]) -> None:
    with pytest.raises(OptionsError, match="columns"):
        EventLogOptions(columns=columns)


def test_optional_keys_may_be_absent_from_json_and_required_ones_not(tmp_path: Path) -> None:
    short = {
        k: v
        for k, v in event(1, event_type=4).items()
        if k not in ("old_value", "new_value", "column_name")
    }
    path = tmp_path / "log.jsonl"
    path.write_text(
        json.dumps(short) + "\n" + json.dumps({k: v for k, v in event().items() if k != "status"})
    )
    records, framed = read(path)
    assert framed == 2
    assert sorted((str(r["row"]), r["reason"]) for r in records) == [
        ("1", None),
        ("2", Reason.BROKEN_RECORD),
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_record_can_be_read_again(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"log{suffix}", [event(i) for i in range(1, 8)])
    source, ctx = event_log(), Context(0, 3, Tables())
    seen = 0
    for number, split in enumerate(source.splits([path], 3)):
        for batch in source.read(split, number, ctx):
            for record in batch.to_pylist():
                if record["outcome"] is None:
                    raw = raw_record(source, split, record["row"])
                    assert raw is not None
                    assert str(json.loads(raw)["record_id"]) == str(record["high"])
                    seen += 1
        assert raw_record(source, split, 10_000) is None
    assert seen == 7


def test_batches_have_the_common_schema(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [event(1), event(2, status="S"), event("?")])
    source = event_log()
    for split in source.splits([path], 1):
        for batch in source.read(split, 0, Context(0, 3, Tables())):
            assert batch.schema.equals(RECORD_SCHEMA)


@pytest.mark.parametrize("text", ["", "x", "4711a", "-5", "a:b", "٣"])
def test_invalid_positions_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write a record_id"):
        event_log().parse_position(text)


def test_header_no_reads_parquet_by_position(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    row = event(4711)
    pq.write_table(pa.table({f"_c{i}": [row[name]] for i, name in enumerate(NAMES)}), path)
    records, _ = read(path, None, SnapshotOptions(header="no"))
    assert [(r["high"], r["key"]) for r in records] == [(4711, "idu=1")]


def test_an_unknown_zone_is_refused() -> None:
    for zone in ("Mars/Olympus", "", "../etc"):
        with pytest.raises(ValueError, match="write a name such as"):
            EventLogOptions(time_zone=zone)
