"""CSV with other quotes, escapes and delimiters than RFC 4180 has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.formats.files.csv import frames, read_header
from publisher.formats.files.frame import Frame
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions

ABC = ExpectedColumns(("a", "b", "c"))
Fields = tuple[str | None, ...]
BLOCK_SIZES = (3, 17, 64, 1 << 16)

DIALECTS = (
    {"delimiter": "||"},
    {"delimiter": "\x01\x02"},
    {"delimiter": "|~|"},
    {"delimiter": "||", "quote": "'"},
    {"delimiter": "||", "escape": "\\"},
    {"quote": "'"},
    {"quote": "'", "escape": '"'},
    {"escape": "\\"},
    {"escape": "^", "quote": "]", "delimiter": "-"},
)


def options(**changes: object) -> SnapshotOptions:
    return SnapshotOptions(**({"header": "no", "block_size": 1 << 16} | changes))  # type: ignore[arg-type]


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def read(data: bytes, used: SnapshotOptions) -> list[Frame]:
    header = read_header(data, "file.csv", ABC, used)
    return list(frames(blocks(data, used.block_size), 1, header, ABC, used))


def records(found: list[Frame]) -> list[tuple[int, Fields | None]]:
    every: list[tuple[int, Fields | None]] = []
    for frame in found:
        rows = zip(*(column.to_pylist() for column in frame.batch.columns), strict=True)
        every += list(zip(frame.rows.tolist(), rows, strict=True))
        every += [(broken.row, None) for broken in frame.broken]
    return sorted(every, key=lambda record: record[0])


def fields_of(found: list[Frame]) -> list[Fields | None]:
    return [fields for _, fields in records(found)]


def reason_of(found: list[Frame]) -> str:
    (broken,) = (each for frame in found for each in frame.broken)
    return broken.reason


def cell_text(value: str | None, used: SnapshotOptions) -> str:
    if value is None:
        return ""
    return (
        used.quote
        + value.replace(used.quote, (used.escape or used.quote) + used.quote)
        + used.quote
    )


text = st.lists(
    st.sampled_from(
        ["a", "|", "~", "\x01", "\x02", '"', "'", "]", "^", "\\", "-", ",", "\n", "\r\n", "é"]
    ),
    max_size=6,
).map("".join)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(DIALECTS),
    st.lists(st.tuples(*[st.one_of(st.none(), text)] * 3), min_size=1, max_size=6),
    st.sampled_from(BLOCK_SIZES),
    st.sampled_from(["\n", "\r\n"]),
)
def test_quoted_text_of_any_dialect_is_read_back(
    dialect: dict[str, str], rows: list[Fields], block_size: int, end: str
) -> None:
    used = options(**dialect, block_size=block_size)
    if used.escape:  # before a quote it would be two, or end the text: see below
        rows = [tuple(v and v.replace(used.escape, "") for v in row) for row in rows]
    rows = [row for row in rows if any(value is not None for value in row)]
    lines = (used.delimiter.join(cell_text(value, used) for value in row) for row in rows)
    data = "".join(line + end for line in lines).encode()
    assert fields_of(read(data, used)) == rows


hostile = st.lists(
    st.sampled_from([b"a", b"1", b"|", b"||", b"'", b"\\", b"\\'", b"\n", b"\r", b"\xff", b"'||'"]),
    max_size=40,
).map(b"".join)


@settings(max_examples=200, deadline=None)
@given(hostile, st.sampled_from(["", "\\"]), st.sampled_from([64, 1 << 20]))
def test_any_bytes_give_the_same_records_in_any_blocks(
    data: bytes, escape: str, max_record: int
) -> None:
    whole, *others = (
        records(
            read(
                data,
                options(
                    delimiter="||",
                    quote="'",
                    escape=escape,
                    block_size=size,
                    max_record=max_record,
                ),
            )
        )
        for size in (1 << 16, 4, 7, 70)
    )
    assert all(other == whole for other in others)


@pytest.mark.parametrize("delimiter", [",", "||"])
def test_without_quotes_a_quote_is_text(delimiter: str) -> None:
    data = ('1,"x,y"z\n"\n,a,\n4,"5",6\n').replace(",", delimiter).encode()
    found = records(read(data, options(quote="", delimiter=delimiter)))
    assert found == [
        (1, ("1", '"x', 'y"z')),
        (2, None),
        (3, (None, "a", None)),
        (4, ("4", '"5"', "6")),
    ]


def test_without_quotes_an_empty_field_is_text_where_null_has_a_mark() -> None:
    found = fields_of(read(b"1,,NULL\n", options(quote="", null_text="NULL")))
    assert found == [("1", "", None)]
    assert fields_of(read(b"1,,NULL\n", options(null_text="NULL"))) == [("1", None, None)]


def test_unquoted_marks_of_null_are_read_field_by_field_too() -> None:
    found = fields_of(read(b'1||NULL||"NULL"\n', options(delimiter="||", null_text="NULL")))
    assert found == [("1", None, "NULL")]


@pytest.mark.parametrize("line", [b"a|||b||c", b"|||b||c", b"a||b|||||c"])
def test_a_delimiter_with_two_possible_places_rejects_its_record(line: bytes) -> None:
    found = read(b"1||2||3\n" + line + b"\n4||||6\n", options(delimiter="||", quote=""))
    assert records(found) == [(1, ("1", "2", "3")), (2, None), (3, ("4", None, "6"))]
    assert "delimiter" in reason_of(found) or "fields" in reason_of(found)


def test_an_escape_counts_before_a_quote_only_and_two_of_them_reject_their_record() -> None:
    data = b'"C:\\new","say \\"x\\"",\\\n"a\\\\b",2,3\n"4",5,6\n'
    found = read(data, options(escape="\\"))
    assert records(found) == [
        (1, ("C:\\new", 'say "x"', "\\")),
        (2, None),
        (3, ("4", "5", "6")),
    ]
    assert "escape" in reason_of(found)


def test_bytes_that_are_no_text_reject_their_record_only() -> None:
    found = records(read(b"1||2||3\n1||\xff||3\n4||5||6\n", options(delimiter="||")))
    assert found == [(1, ("1", "2", "3")), (2, None), (3, ("4", "5", "6"))]


@pytest.mark.parametrize(
    "changes",
    [
        {"delimiter": "§"},
        {"delimiter": ""},
        {"delimiter": "a\n"},
        {"delimiter": '|"'},
        {"delimiter": "|\\", "escape": "\\"},
        {"quote": "\n"},
        {"quote": "«"},
        {"escape": "\r"},
        {"escape": "\\", "quote": ""},
    ],
)
def test_ambiguous_marks_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"^({'|'.join(changes)})|^delimiter"):
        options(**changes)
