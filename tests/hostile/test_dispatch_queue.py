"""Exports of DISPATCH_QUEUE that are damaged, with the counts that are expected: nothing is lost, a
transaction that was not touched gives what it gave before."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from publisher.errors import FatalError, FileRefusedError
from publisher.formats.dispatch_queue import DispatchQueue
from publisher.formats.files.options import SnapshotOptions
from tests.support.dispatch_queue_codes import COMMIT, INSERT, ROLLBACK, UPDATE
from tests.support.dispatch_queue_files import (
    BIG,
    OPTIONS,
    Queue,
    Record,
    Row,
    binary,
    delimited_text,
    image,
    jack,
    options,
    read,
    record_text,
    record_texts,
)

ROW = 3596


def transactions() -> list[Row]:
    """Three: an INSERT and an UPDATE, an UPDATE of three parts, an INSERT that is rolled back."""
    queue = Queue()
    old, new = (image(BIG, [9, "x", name]) for name in ("old", "new"))
    return [
        queue.row(INSERT, jack(1), TRANSACT_ID=1),
        *queue.rows(UPDATE, old, new, TRANSACT_ID=2, TABNUM_SRC=8),
        queue.row(UPDATE, jack(1), jack(1, "Jim"), TRANSACT_ID=1),
        queue.row(INSERT, jack(3), TRANSACT_ID=3),
        queue.row(COMMIT, TRANSACT_ID=2),
        queue.row(ROLLBACK, TRANSACT_ID=3),
        queue.row(COMMIT, TRANSACT_ID=1),
    ]


WHOLE = [
    "1 idu=1 fname=Jack lname=Smith note=n",
    "2 id=9 b=old>new",
    "2 idu=1 fname=Jack>Jim",
    "ignored rollback",
    "ignored commit",
    "ignored rollback",
    "ignored commit",
]


def of_rows(records: list[Record], framed: int) -> int:
    """Checks conservation."""
    assert framed == sum(record["records"] for record in records)
    return framed


def test_the_file_itself(tmp_path: Path) -> None:
    records, framed = read(OPTIONS, binary(transactions()), tmp_path, 3)
    assert record_texts(records) == WHOLE
    assert of_rows(records, framed) == 9


@pytest.mark.parametrize("rows", range(10))
def test_a_file_cut_within_any_row_is_refused(rows: int, tmp_path: Path) -> None:
    whole = binary(transactions()) + bytes(ROW)
    for more in (1, 195, 196, 3595):
        with pytest.raises(
            FileRefusedError, match=f"{more} bytes at offset {rows * ROW} are not a whole"
        ):
            read(OPTIONS, whole[: rows * ROW + more], tmp_path, 2)


@pytest.mark.parametrize("name", ["LEN1", "LEN2"])
@pytest.mark.parametrize("change", [-1, 1, -(1 << 30), 1 << 30, 3400])
@pytest.mark.parametrize("row", [0, 1, 2, 3, 4])
def test_a_wrong_length_costs_its_transaction_and_no_other(
    name: str, change: int, row: int, tmp_path: Path
) -> None:
    rows = transactions()
    rows[row][name] += change
    records, framed = read(OPTIONS, binary(rows), tmp_path, 100)
    assert of_rows(records, framed) == 9
    mine, other = ("1", "2") if row in (0, 4) else ("2", "1")
    outcomes = {t: [r for r in records if r["transaction"] == t] for t in "12"}
    assert {r["outcome"] for r in outcomes[mine]} == {3, 5}
    assert not [r for r in outcomes[other] if r["outcome"] == 5]
    details = [r["detail"] for r in outcomes[mine] if r["outcome"] == 5]
    assert all(details)


COLUMNS: dict[str, list[Any]] = {
    "EXTDATA": [1, 2, -1, 32767],
    "TYP": [0, 6, -1, 99],
    "TABNUM_SRC": [0, 99, -1],
    "DBNODE": [b"OTHER", b"\xff\xfe"],
    "TRANSACT_ID": [77, -1],
    "SYSLOG_ADDR": [0, -1, 1 << 62],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in COLUMNS.items() for value in values]
)
@pytest.mark.parametrize("row", [0, 2, 4, 8])
def test_a_wrong_column_never_publishes_another_transaction_otherwise(
    name: str, value: Any, row: int, tmp_path: Path
) -> None:
    rows = transactions()
    rows[row][name] = value
    records, framed = read(OPTIONS, binary(rows), tmp_path, 100)
    assert of_rows(records, framed) == 9
    other = WHOLE[1] if row in (0, 4, 8) else WHOLE[0]
    assert other in record_texts(records)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"byte_order": "big"}, "check row_stride and byte_order"),
        ({"row_stride": 3600}, "check row_stride and byte_order"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_read(
    changed: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    # many, as rows far apart look less and less like rows
    rows = [row for number in range(4) for row in transactions()]
    with pytest.raises(FatalError, match=r"queue\.dat") as error:
        read(options(**changed), binary(rows), tmp_path)
    assert problem in error.value.message


def test_rows_of_impossible_dates_are_refused(tmp_path: Path) -> None:
    rows = [row | {"OPER_DATE": {"seconds": 1 << 31, "fraction": 0}} for row in transactions()]
    with pytest.raises(FatalError, match="OPER_DATE of its first rows is impossible"):
        read(OPTIONS, binary(rows), tmp_path)


@pytest.mark.parametrize("count", [899, 900])
def test_the_stride_is_told_by_the_rows_where_the_size_misleads(count: int, tmp_path: Path) -> None:
    stride = 3600 if count == 899 else 3596  # 899 padded rows are as long as 900 packed ones
    queue = Queue()
    rows = [queue.row(INSERT, jack(number)) for number in range(count - 1)] + [queue.row(COMMIT)]
    records, framed = read(OPTIONS, binary(rows, stride=stride), tmp_path, 7)
    assert of_rows(records, framed) == count
    assert [record_text(record)[:7] for record in records[-2:]] == [
        f"1 idu={count - 2}"[:7],
        "ignored",
    ]


def test_an_empty_file(tmp_path: Path) -> None:
    assert read(OPTIONS, b"", tmp_path) == ([], 0)


def test_one_row_only(tmp_path: Path) -> None:
    records, framed = read(OPTIONS, binary(transactions()[:1]), tmp_path)
    assert (record_texts(records), framed) == (["held open-transaction"], 1)


def test_garbage_is_refused(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(50 * ROW)
    with pytest.raises(FatalError, match="rows of 3596 or 3600 bytes are expected"):
        read(OPTIONS, data, tmp_path)


def test_text_in_place_of_rows_is_refused(tmp_path: Path) -> None:
    for rows, delimiter in ((transactions() * 9, ","), (transactions()[-1:], ";")):
        text = delimited_text(rows).replace(",", delimiter).encode()
        for data in (text, text.partition(b"\n")[2]):
            with pytest.raises(FatalError, match=r'delimited text.* set layout = "text"'):
                read(OPTIONS, data, tmp_path)


@pytest.mark.parametrize("name", ["queue.csv", "queue.dat"])
@pytest.mark.parametrize("seconds", [0x3FF40BC0, 0x3F0A0BC0, 0x0A0A0A0A])  # with LF
def test_rows_in_place_of_text_are_refused(name: str, seconds: int, tmp_path: Path) -> None:
    rows = [row | {"OPER_DATE": {"seconds": seconds, "fraction": 1}} for row in transactions()]
    path = tmp_path / name
    path.write_bytes(binary(rows))
    used = OPTIONS if name.endswith(".csv") else options(layout="text")
    for header in ("auto", "no"):
        source = DispatchQueue(used, SnapshotOptions(header=header))
        with pytest.raises(FatalError, match=r'not delimited text.* set layout = "binary"'):
            source.splits([path], 1)


def test_a_zero_in_a_later_line_of_text_costs_that_line(tmp_path: Path) -> None:
    text = delimited_text(transactions()).replace("SRV1", "SR\0V", 1)
    records, framed = read(OPTIONS, text, tmp_path)
    assert framed == 9
    assert len(records) == 7


def test_what_a_commit_does_not_need_may_be_null_in_text(tmp_path: Path) -> None:
    lines = delimited_text(transactions()).splitlines()
    for number, line in enumerate(lines):
        fields = line.split(",")
        if fields[5] in ("4", "10"):
            lines[number] = ",".join([*fields[:6], "", "", "", "", "", "", "", "", "", ""])
    records, _ = read(OPTIONS, "\n".join(lines) + "\n", tmp_path)
    assert record_texts(records) == WHOLE
    lines[1] = lines[1].replace(",59,0,", ",,,")
    records, _ = read(OPTIONS, "\n".join(lines) + "\n", tmp_path)
    assert record_texts(records)[0] == "rejected parts"


@pytest.mark.parametrize("name", ["queue.lst", "queue.csv.gz"])
def test_text_of_any_name_can_be_said_to_be_text(name: str, tmp_path: Path) -> None:
    data = delimited_text(transactions()).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    records, framed = read(options(layout="text"), path, tmp_path, 3)
    assert (record_texts(records), framed) == (WHOLE, 9)


def test_text_without_the_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="LEN2 is missing"):
        read(OPTIONS, delimited_text(transactions()).replace("LEN2", "LEN3"), tmp_path)


def test_a_wrong_charset_rejects_or_shows(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1, "Жак")), queue.row(COMMIT)]
    records, _ = read(options(image_charset="utf-8"), binary(rows), tmp_path)
    assert records[0]["reason"] == "row-image"
    assert "check image_charset" in records[0]["detail"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, "3FF36300"),
        (0, "zz"),
        (1, "x"),
        (1, "40000"),
        (3, ""),
        (3, str(1 << 63)),
        (4, str(1 << 64)),
        (10, "1.5"),
        (15, "ABC"),
        (15, "xy"),
        (15, "00" * 3401),
    ],
)
def test_text_that_is_no_row_is_rejected_by_itself(column: int, value: str, tmp_path: Path) -> None:
    lines = delimited_text(transactions()).splitlines()
    fields = lines[7].split(",")  # the INSERT that is rolled back
    fields[column] = value
    lines[6] = ",".join(fields)
    lines[7] = ",".join(fields)
    kept = [*lines[:6], lines[7], *lines[8:]]
    records, framed = read(OPTIONS, "\n".join(kept) + "\n", tmp_path, 3)
    assert of_rows(records, framed) == 9 - 1
    assert Counter(record["reason"] for record in records)["broken-record"] == 1


def test_addresses_and_blobatr_of_text_may_be_without_sign(tmp_path: Path) -> None:
    queue = Queue()
    rows = [queue.row(8, jack(1), b"x", BLOBATR=0xFF04), queue.row(COMMIT)]
    rows[1]["SYSLOG_ADDR"] = (1 << 64) - 1
    records, _ = read(OPTIONS, delimited_text(rows), tmp_path)
    assert record_texts(records) == ["8 idu=1 photo", "ignored commit"]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_bytes_may_be_wrong(tmp_path: Path, data: st.DataObject) -> None:
    """Nothing is lost, and rows that were not touched give what they gave, or are held back."""
    rows = transactions()
    file = bytearray(binary(rows))
    places = data.draw(st.lists(st.integers(0, 9 * ROW - 1), max_size=5))
    heads = data.draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 195)), max_size=5))
    for place in [*places, *(row * ROW + at for row, at in heads)]:
        file[place] = data.draw(st.integers(0, 255))
    touched = {place // ROW for place in places} | {row for row, _ in heads}
    try:
        records, framed = read(
            OPTIONS, bytes(file), tmp_path, data.draw(st.sampled_from([1, 3, 100]))
        )
    except FatalError as error:
        assert "queue.dat" in error.message  # noqa: PT017 - a refusal in words is an answer
        return
    assert of_rows(records, framed) == 9
    members = {1: [0], 2: [1, 2, 3], 5: [4]}  # rows, by the number of the first
    before = dict(zip(members, WHOLE, strict=False))
    for record in records:
        if record["outcome"] is None and touched.isdisjoint(members.get(record["row"], touched)):
            assert record_text(record) == before[record["row"]]
    if all(place % ROW >= 196 for place in places) and not heads:
        # only images: other transactions give what they gave
        hit = {rows[row]["TRANSACT_ID"] for row in touched}
        left = [record for record in records if int(record["transaction"]) not in hit]
        assert [record_text(record) in WHOLE for record in left] == [True] * len(left)
