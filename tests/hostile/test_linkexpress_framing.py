"""Records of Linkexpress that lost bytes, records that the settings describe wrongly, and files that
are made to let the reader search: no wrong value, no lost neighbour, one reject for each, linear time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from publisher.sources.linkexpress import LinkexpressOptions
from publisher.sources.linkexpress.file_probe import ExtractFileForm, build_framer
from publisher.sources.linkexpress.options import ByteOrder, ExtractedTable
from tests.support.linkexpress_files import (
    GROUP,
    JNL,
    OPEN,
    USR,
    Record,
    jack,
    little,
    mark,
    read,
    record,
    record_text,
)

RECORDS = [
    jack(1),
    jack(2, 2),
    jack(3, 3),
    (0, 1, [4, b"Ann     ", bytes.fromhex("00001D"), {"length": 0, "data": b""}]),
    (0, 2, [5, b"\x93\xfa\x96\x7b    ", bytes.fromhex("99999F"), {"length": 6, "data": b"x" * 6}]),
]
FIXED = replace(USR, items=USR.items[:3], logtype="LITTLE")
DENSE = ExtractedTable(
    name="log", key=("n",), items=("n INTEGER", "photo BLOB(8M)"), logtype="LITTLE"
)


def pieces(options: LinkexpressOptions, order: ByteOrder = "big") -> list[bytes]:
    code = 0 if options.extract == "all" else None
    width = len(options.tables[0].items)
    parts = [
        record(options, number, own if code is None else code, values[:width], order)
        for number, own, values in RECORDS
    ]
    if options.unit == "group":
        parts.insert(3, mark(options, order))
        parts.append(mark(options, order))
    return parts


def record_texts(records: list[Record]) -> list[str]:
    return [record_text(each).removeprefix("held ") for each in records]


@pytest.mark.parametrize(
    ("options", "order", "lost", "trials"),
    [
        (little(OPEN), "big", 2, 129),
        (little(OPEN), "little", 2, 129),
        (replace(little(OPEN), nulls=False), "big", 2, 97),
        (replace(little(OPEN), extract="all"), "big", 2, 129),
        (replace(OPEN, tables=(FIXED,)), "big", 2, 104),
        (replace(OPEN, tables=(FIXED,), extract="all", nulls=False), "big", 2, 80),
        (JNL, "big", 2, 160),
        (little(JNL), "big", 1, 149),
        (little(JNL), "little", 7, 125),
        (GROUP, "big", 2, 219),
        (little(GROUP), "big", 2, 204),
        (replace(GROUP, nulls=False), "little", 4, 155),
    ],
)
def test_lost_bytes_cost_their_record_only(
    options: LinkexpressOptions, order: ByteOrder, lost: int, trials: int, tmp_path: Path
) -> None:
    """Bytes are removed at every place of every record but the last: the reader publishes no value that
    was not in the file, and finds every other record."""
    options = replace(options, byte_order=order)
    parts = pieces(options, order)
    expected = record_texts(read(options, b"".join(parts), tmp_path)[0])
    count, wrong, without = 0, [], []
    for number, part in enumerate(parts[:-1]):
        before = [*parts[: max(number - 1, 0)], (parts[number - 1] if number else b"")[:-lost]]
        for at in range(len(part) - lost + 1):
            damaged = [*parts[:number], part[:at] + part[at + lost :], *parts[number + 1 :]]
            data = b"".join(damaged)
            # the same bytes may be missing at the end of the record before it
            other = data == b"".join([*before, *parts[number:]])
            others = expected[: number - other] + expected[number + 1 :]
            records, framed = read(options, data, tmp_path)
            assert framed == len(records)
            found = Counter(record_texts(records))
            count += 1
            if not all(each in expected or each.startswith("rejected") for each in found):
                wrong.append((number, at, found))
            if Counter(others) - found:
                without.append((number, at, found))
    assert (count, wrong, without) == (trials, [], [])


def test_a_value_that_looks_like_a_header_is_no_record(tmp_path: Path) -> None:
    """In a full extract a number, with the NULL area behind it, may be that of a header."""
    table = ExtractedTable(
        name="usr",
        key=("idu",),
        items=("idu INTEGER", "size INTEGER", "kind SMALLINT"),
        logtype="LITTLE",
    )
    options = replace(OPEN, tables=(table,), extract="all")
    parts = [record(options, 0, 0, [n, 22, n]) for n in range(1, 9)]
    assert {len(part) for part in parts} == {22}
    expected = record_texts(read(options, b"".join(parts), tmp_path)[0])
    for lost in (1, 2, 3, 4, 5, 6):
        damaged = [*parts]
        damaged[3] = parts[3][:11] + parts[3][11 + lost :]
        found = record_texts(read(options, b"".join(damaged), tmp_path)[0])
        assert found == [*expected[:3], "rejected broken-record", *expected[4:]]
        damaged[3] = b"\xee" * 6 + parts[3][6:]
        found = record_texts(read(options, b"".join(damaged), tmp_path)[0])
        assert found == [*expected[:3], "rejected broken-record", *expected[4:]]


def test_an_extract_inside_a_value_is_not_published(tmp_path: Path) -> None:
    """A whole record inside a value is data, though damage is behind it."""
    items = (*USR.items[:3], "note VARCHAR(200)")
    options = replace(JNL, tables=(replace(USR, items=items, logtype="LITTLE"),))
    inner = record(options, *jack(9))
    for note in (inner, inner * 2, b"text" + inner, inner + b"text", inner + inner[:20]):
        outer = record(options, 0, 1, [*jack(1)[2][:3], {"length": len(note), "data": note}])
        damaged = b"\xff" * len(inner)
        records, framed = read(options, outer + damaged + inner, tmp_path)
        assert framed == 3
        assert [each["key"] for each in records] == ["idu=1", None, "idu=9"]
        assert records[1]["outcome"] == 5


def wrongly(options: LinkexpressOptions, number: int, **change: object) -> LinkexpressOptions:
    """The settings with another description of a table."""
    tables = list(options.tables)
    tables[number] = replace(tables[number], **change)  # type: ignore[arg-type]
    return replace(options, tables=tuple(tables))


EXCHANGE = (
    "CNT and LEN fit table %s: if this holds for all records, swap the xids of the two tables"
)


GROUPS = {"normal": GROUP, "little": little(GROUP), "bare": replace(GROUP, nulls=False)}


@cache
def three_thousand_records(form: str) -> bytes:
    """Records of two tables, and a commit record after each hundred."""
    written = GROUPS[form]
    title = "北京".encode("cp932") + "　　".encode("cp932")
    rows = [
        record(written, *(jack(n, 1, b"Jack    ") if n % 3 else (1, 1, [n, title])))
        for n in range(1, 3001)
    ]
    return b"".join(
        row + (mark(written) if number % 100 == 99 else b"") for number, row in enumerate(rows)
    )


@pytest.mark.parametrize("form", GROUPS)
@pytest.mark.parametrize(
    ("described", "details"),
    [
        (
            lambda options: wrongly(options, 0, items=USR.items[:3]),
            ["table usr (xid 1): CNT is 6, the settings have 5 (3 items and 2); add 1 item"],
        ),
        (
            lambda options: wrongly(options, 0, items=(*USR.items, "age SMALLINT")),
            ["table usr (xid 1): CNT is 6, the settings have 7 (5 items and 2); remove 1 item"],
        ),
        (
            lambda options: wrongly(
                options, 0, items=(USR.items[0], "fname CHARACTER(10)", *USR.items[2:])
            ),
            ["table usr (xid 1): "],
        ),
        (
            lambda options: replace(
                options, tables=tuple(replace(t, xid=3 - (t.xid or 0)) for t in options.tables)
            ),
            [
                "table dept (xid 1): CNT is 6, the settings have 4 (2 items and 2); "
                + EXCHANGE % "usr (xid 2)",
                "table usr (xid 2): CNT is 4, the settings have 6 (4 items and 2); "
                + EXCHANGE % "dept (xid 1)",
            ],
        ),
    ],
)
def test_a_wrong_description_is_told_record_by_record(
    form: str,
    described: Callable[[LinkexpressOptions], LinkexpressOptions],
    details: list[str],
    tmp_path: Path,
) -> None:
    options = described(GROUPS[form])
    data = three_thousand_records(form)
    records, framed = read(options, data, tmp_path)
    assert framed == 3030
    rejected = [each for each in records if each["outcome"] == 5]
    assert len(rejected) == (3000 if len(details) == 2 else 2000)
    assert {each["reason"] for each in rejected} == {"broken-record"}
    for each in rejected:
        assert each["detail"].startswith(tuple(details))
    cut = read(options, data, tmp_path, wanted=7)[0]
    assert [(each["high"], each["detail"]) for each in cut] == [
        (each["high"], each["detail"]) for each in records
    ]


def test_an_item_that_is_too_wide_is_told_with_its_bytes(tmp_path: Path) -> None:
    wide = wrongly(GROUP, 0, items=(USR.items[0], "fname CHARACTER(10)", *USR.items[2:]))
    data = b"".join([record(GROUP, *jack(1)), mark(GROUP)])
    (found, _) = read(wide, data, tmp_path)[0]
    assert found["detail"] == (
        "table usr (xid 1): CNT is 6 as in the settings, but LEN is 43, by the settings it is 45;"
        ' if its records differ in length, set logtype = "LITTLE"; if all records differ by this, one of'
        " fname CHARACTER(10), pay DECIMAL(5,2), note CHARACTER VARYING(6) is too long by 2 bytes: fix its"
        " length"
    )


def test_a_wrong_logtype_of_a_table_of_a_group_is_named(tmp_path: Path) -> None:
    data = b"".join([record(little(GROUP), *jack(1)), mark(GROUP)])
    (found, _) = read(GROUP, data, tmp_path)[0]
    assert (
        'LEN is 40, by the settings it is 43; if its records differ in length, set logtype = "LITTLE"'
        in (found["detail"])
    )


def nest_headers(size: int) -> tuple[LinkexpressOptions, bytes]:
    """Headers of records that hold each other and lead to no record: LEN, OP, NULL, BLOB of the rest."""
    options = replace(OPEN, charset=None, tables=(DENSE,), blob_head=4, nulls=False)
    head = 14
    parts = [
        (2 * size - n * head - 7).to_bytes(4, "big")
        + b"\0\1"
        + n.to_bytes(4, "big")
        + (2 * size - n * head - 21).to_bytes(4, "big")
        for n in range(size // head)
    ]
    valid = record(options, 0, 1, [1, {"length": 1, "data": b"x"}])
    return options, valid * 30 + b"".join(parts) + b"\xff" * (size + 64)


def alternating(size: int) -> tuple[LinkexpressOptions, bytes]:
    """Every other record has a header that is none."""
    good = record(JNL, *jack(1))
    bad = good[:4] + b"\xff" * 6 + good[10:]
    return JNL, good * 30 + (bad + good) * (size // (2 * len(good)))


def headless(size: int) -> tuple[LinkexpressOptions, bytes]:
    """Headers of records of a group that lead one byte too far."""
    options = little(GROUP)
    good = record(options, *jack(1))
    bad = (len(good) + 1).to_bytes(4, "big") + good[4:]
    return options, (good + mark(options)) * 30 + bad * (size // len(good))


def headers_of_unknown_table(size: int) -> tuple[LinkexpressOptions, bytes]:
    """Headers of a table that is not known, each inside the one before it."""
    good = record(GROUP, *jack(1))
    head = 14
    parts = [
        (size - n * head).to_bytes(4, "big") + bytes.fromhex("0006 0009 0000 0001 FFFF")
        for n in range(size // head)
    ]
    return GROUP, (good + mark(GROUP)) * 30 + b"".join(parts)


@pytest.mark.parametrize("make", [nest_headers, alternating, headless, headers_of_unknown_table])
def test_time_grows_with_the_bytes(
    make: Callable[[int], tuple[LinkexpressOptions, bytes]],
) -> None:
    """Eight times the bytes take eight times the time of the processor, not sixty-four times."""
    seconds = []
    for size in (1 << 17, 1 << 20):
        options, data = make(size)
        bytes_ = np.frombuffer(data, np.uint8)
        finder = build_framer(options, bytes_, ExtractFileForm("big"), len(data))
        start = time.process_time()
        framed = sum(int(block.lengths.sum()) for block in finder.blocks(0))
        seconds.append(time.process_time() - start)
        assert framed == len(data)
    assert seconds[1] < 24 * seconds[0] + 0.2, seconds
