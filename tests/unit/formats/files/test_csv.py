from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.errors import FatalError
from publisher.formats.files.csv import frames, read_header
from publisher.formats.files.frame import Frame
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions

ABC = ExpectedColumns(("a", "b", "c"))

Record = tuple[int, tuple[str | None, ...] | None]
"""Line and fields; ``None`` for the fields of a broken record."""


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def read(data: bytes, options: SnapshotOptions, columns: ExpectedColumns = ABC) -> list[Frame]:
    header = read_header(data, "file.csv", columns, options)
    data = data.removeprefix(b"\xef\xbb\xbf")
    return list(frames(blocks(data, options.block_size), 1, header, columns, options))


def records(found: list[Frame]) -> list[Record]:
    every: list[Record] = []
    for frame in found:
        rows = zip(*(column.to_pylist() for column in frame.batch.columns), strict=True)
        every += list(zip(frame.rows.tolist(), rows, strict=True))
        every += [(broken.row, None) for broken in frame.broken]
    return sorted(every, key=lambda record: record[0])


def options(**changes: object) -> SnapshotOptions:
    return SnapshotOptions(**({"header": "no", "block_size": 1 << 16} | changes))  # type: ignore[arg-type]


# The oracle knows the grammar character by character, and nothing of how the program does it.


def oracle(data: bytes, width: int, *, null: str | None = None) -> list[Record]:
    text = data.decode("latin-1")
    at, line, every = 0, 1, []
    while at < len(text):
        fields, good, end = oracle_record(text, at)
        raw = text[at:end]
        blank = raw.removesuffix("\n").removesuffix("\r") == ""
        if not (blank and width > 1):
            values = tuple(oracle_value(field, quoted, null) for field, quoted in fields)
            good = good and len(fields) == width and is_utf8(raw)
            every.append(
                (line, tuple(v and v.encode("latin-1").decode() for v in values) if good else None)
            )
        line += raw.count("\n")
        at = end
    return every


def oracle_value(field: str, quoted: bool, null: str | None) -> str | None:
    return None if not quoted and field in ("", null) else field


def is_utf8(text: str) -> bool:
    try:
        text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return False
    return True


def oracle_record(text: str, at: int) -> tuple[list[tuple[str, bool]], bool, int]:
    fields: list[tuple[str, bool]] = []
    good = True
    while True:
        value, quoted = "", text[at : at + 1] == '"'
        if quoted:
            at += 1
            while True:
                if at >= len(text):
                    return fields, False, at + 1 if at < len(text) else at
                if text[at] == '"' and text[at + 1 : at + 2] == '"':
                    value, at = value + '"', at + 2
                elif text[at] == '"':
                    at += 1
                    break
                else:
                    value, at = value + text[at], at + 1
        start = at
        while at < len(text) and text[at] not in ",\n":
            at += 1
        rest = text[start:at]
        if at == len(text) or text[at] == "\n":
            rest = rest.removesuffix("\r")
        good = good and (rest == "" if quoted else not set(rest) & set('"\r'))
        fields.append((value + rest, quoted))
        if at == len(text):
            return fields, good, at
        if text[at] == "\n":
            return fields, good, at + 1
        at += 1


hostile = st.lists(
    st.sampled_from(
        [
            b"a",
            b"1",
            b",",
            b",",
            b'"',
            b'"',
            b"\n",
            b"\r",
            b"\r\n",
            b"\0",
            "é".encode(),
            b"\xff",
            b" ",
        ]
    ),
    max_size=40,
).map(b"".join)


@settings(max_examples=250, deadline=None)
@given(hostile, st.sampled_from([1, 2, 3, 7, 1000]), st.integers(1, 3))
def test_any_bytes_give_the_records_of_the_grammar(data: bytes, size: int, width: int) -> None:
    columns = ExpectedColumns(ABC.names[:width])
    found = read(data, options(block_size=size, null_text="1"), columns)
    assert records(found) == oracle(data, width, null="1")


likely = st.lists(
    st.lists(
        st.sampled_from(
            ["", "a", '""', '"x""y"', '"1\n2"', '"a,b"', '"c\r\nd"', "é", 'a"b', '"e"f', "\rz"]
        ),
        min_size=2,
        max_size=3,
    ).map(",".join),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(likely, st.sampled_from(["\n", "\r\n"]), st.sampled_from([5, 16, 1000]))
def test_mixed_good_and_bad_records_are_distinguished(
    lines: list[str], end: str, size: int
) -> None:
    data = end.join(lines).encode()
    assert records(read(data, options(block_size=size))) == oracle(data, 3)


cell = st.one_of(
    st.none(),
    st.text(st.characters(codec="utf-8"), max_size=6),
    st.sampled_from(['"', "\n", "\r\n", ",", ""]),
)


def cell_text(value: str | None) -> str:
    return "" if value is None else '"' + value.replace('"', '""') + '"'


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(cell, cell, cell), max_size=8), st.sampled_from([3, 50, 1000]))
def test_quoted_fields_are_read_back(rows: list[tuple[str | None, ...]], size: int) -> None:
    data = "".join(",".join(map(cell_text, row)) + "\r\n" for row in rows).encode()
    assert [fields for _, fields in records(read(data, options(block_size=size)))] == rows


@settings(max_examples=120, deadline=None)
@given(hostile)
def test_strict_csv_module_agrees_on_every_text_that_is_right(data: bytes) -> None:
    found = records(read(data, options()))
    if any(fields is None for _, fields in found) or b"\0" in data:
        return
    text = data.decode()
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert [[value or "" for value in fields or ()] for _, fields in found] == [
        row for row in reader if row
    ]


def test_unquoted_empty_is_null_and_quoted_empty_is_text() -> None:
    assert records(read(b'1,,""\n', options())) == [(1, ("1", None, ""))]


def test_null_text_counts_only_without_quotes() -> None:
    found = read(b'NULL,"NULL",null\n', options(null_text="NULL"))
    assert records(found) == [(1, (None, "NULL", "null"))]


def test_line_of_a_record_counts_the_line_breaks_in_values_before_it() -> None:
    assert [line for line, _ in records(read(b'1,"x\ny\nz",2\n\n3,4,5\n', options()))] == [1, 5]


def test_a_broken_record_has_its_reason_and_its_text() -> None:
    found = read(b'1,2,3\n1,2\n1,a"b,3\n1,\xff,3\n"1"x,2,3\n1,2\r3,4,5\n9,9,"open\n', options())
    broken = {item.row: item for frame in found for item in frame.broken}
    assert {row: item.raw for row, item in broken.items()} == {
        2: "1,2",
        3: '1,a"b,3',
        4: "1,\\xff,3",
        5: '"1"x,2,3',
        6: "1,2\r3,4,5",
        7: '9,9,"open\n',
    }
    reasons = [
        "2 fields",
        "inside an unquoted",
        "not text",
        "after a closing",
        "5 fields",
        "never closed",
    ]
    for item, words in zip(broken.values(), reasons, strict=True):
        assert words in item.reason or "carriage return" in item.reason


BLOCK_SIZES = (16, 64, 99, 203, 333, 1 << 16)
GOOD = b"7,8,9\n"


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize(
    "long",
    [
        b"x" * 300 + b",2,3",
        b'1,"' + b"x\n" * 140 + b'",3',
        b'1,"' + b'""' * 140 + b'",3',
        b'"' * 300,
        b"," * 300,
    ],
)
def test_a_record_beyond_max_record_is_one_reject(long: bytes, block_size: int) -> None:
    used = options(block_size=block_size, max_record=200)
    found = read(b"1,2,3\r\n" + long + b"\r\n" + GOOD * 80, used)
    (broken,) = (each for frame in found for each in frame.broken)
    assert (broken.row, broken.raw) == (2, long[:200].decode())
    assert "longer than max_record; raise" in broken.reason
    first = 3 + long.count(b"\n")
    good = [(line, ("7", "8", "9")) for line in range(first, first + 80)]
    assert records(found) == [(1, ("1", "2", "3")), (2, None), *good]


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize(
    "long", [b'4,5,"' + b"x\n" * 300, b'4,"' + b"x\n" * 300 + b'",6\n', b"x" * 900]
)
def test_text_behind_twice_max_record_never_becomes_a_record(long: bytes, block_size: int) -> None:
    used = options(block_size=block_size, max_record=200)
    found = read(b"1,2,3\n" + long + b"\n" + GOOD * 40, used)
    assert records(found) == [(1, ("1", "2", "3")), (2, None)]
    (broken,) = (each for frame in found for each in frame.broken)
    assert "the rest of the file is not read" in broken.reason


def test_an_open_quote_at_the_end_of_a_file_is_one_reject() -> None:
    for end in (b"", b"\n", b"\n7,8,9\n"):
        data = b'1,2,3\n4,5,"' + b"x" * 100 + end
        for block_size in BLOCK_SIZES:
            found = records(read(data, options(block_size=block_size, max_record=200)))
            assert found == [(1, ("1", "2", "3")), (2, None)]


long_hostile = st.lists(
    st.sampled_from([b'"', b"a,", b"\n", b"\r\n", b'","', b'""', b"x" * 30, b'1,2,3\n"', b"\xff"]),
    max_size=60,
).map(b"".join)


@settings(max_examples=250, deadline=None)
@given(long_hostile)
def test_records_beyond_max_record_are_the_same_in_all_blocks(data: bytes) -> None:
    whole, *others = (
        read(data, options(block_size=size, max_record=64)) for size in (1 << 16, 5, 64, 150)
    )
    for other in others:
        assert records(other) == records(whole)
        broken, known = (
            sorted((each.row, each.reason, each.raw) for frame in found for each in frame.broken)
            for found in (other, whole)
        )
        assert broken == known


def test_many_long_records_take_time_by_the_length_of_the_file() -> None:
    def seconds(count: int) -> float:
        data = (b'4,"5"6,"' + b"x\n" * 40 + b'"\n') * count
        start = time.process_time()
        read(data, options(block_size=1 << 22, max_record=64))
        return time.process_time() - start

    seconds(100)
    short, long = seconds(1_000), seconds(8_000)
    assert long < 24 * short + 0.1


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_record_of_max_record_bytes_is_read(end: bytes) -> None:
    for block_size in (16, 203, 204, 1 << 16):
        used = options(block_size=block_size, max_record=204)
        assert records(read(b"1,2," + b"x" * 200 + end, used)) == [(1, ("1", "2", "x" * 200))]


def test_a_value_larger_than_the_block_is_read() -> None:
    big = "x" * 5000
    found = records(read(f'1,"{big}",3\n'.encode() * 3, options(block_size=64)))
    assert [fields for _, fields in found] == [("1", big, "3")] * 3


@pytest.mark.parametrize(
    "data",
    [b"", b"\xef\xbb\xbf", b"\n\r\n", b"a,b,c\n", b"\xef\xbb\xbfA, c ,b", b'"a","b","c"\r\n'],
)
def test_a_file_with_only_a_header_has_no_records(data: bytes) -> None:
    assert records(read(data, options(header="auto"))) == []


def test_header_names_give_the_order_and_further_columns_are_left_out() -> None:
    found = read(b"C,x,A,b\n3,?,1,2\n", options(header="yes"))
    assert records(found) == [(2, ("1", "2", "3"))]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a,b\n1,2\n", "c is missing"),
        (b"a,b,c,b\n", "b is present twice"),
        (b'a,b,"c\n1,2,3\n', "the header cannot be read"),
        (b"x,y,z\n", "a is missing"),
    ],
)
def test_a_header_that_does_not_fit_is_refused_with_advice(data: bytes, words: str) -> None:
    with pytest.raises(FatalError, match=words):
        read(data, options(header="yes"))


def test_a_file_without_names_is_recognised() -> None:
    assert records(read(b"1,2,3\n", options(header="auto"))) == [(1, ("1", "2", "3"))]
