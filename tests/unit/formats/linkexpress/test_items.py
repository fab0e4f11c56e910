"""Items: the vectors of the reference typed by hand, and reading in bulk against the declarations."""

from __future__ import annotations

import base64
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.formats.linkexpress import LinkexpressOptions
from publisher.formats.linkexpress.file_probe import ExtractFileForm, build_framer
from publisher.formats.linkexpress.items import ItemReader
from publisher.formats.linkexpress.layout import form_of, item_layout
from publisher.formats.linkexpress.layout import record as declared_record
from publisher.formats.linkexpress.options import ByteOrder, ExtractedTable
from publisher.formats.linkexpress.types import parse_item
from tests.support.linkexpress_files import NULL, little, record

BASE = LinkexpressOptions(
    "table",
    "diff",
    False,
    (ExtractedTable("t", ("k SMALLINT",), ("k",)),),
    "OPEN",
    charset="CP932",
    national_charset="CP932",
    blob_head=8,
)
Read = tuple[list[str | None], list[bool]]


def of_type(written: str, options: LinkexpressOptions = BASE, **more: Any) -> LinkexpressOptions:
    table = replace(options.tables[0], items=("k SMALLINT", f"x {written}"))
    return replace(options, tables=(table,), **more)


def column(options: LinkexpressOptions, data: bytes, order: ByteOrder = "big") -> Read:
    """The texts of ``x`` in some records, and which are wrong."""
    buffer = np.frombuffer(data, np.uint8)
    finder = build_framer(options, buffer, ExtractFileForm(order), len(data))
    texts: list[str | None] = []
    wrong: list[bool] = []
    table = finder.tables[0]
    for block in finder.blocks(0):
        assert block.heads.good.all()
        cells = table.cells(buffer, block.offsets, block.offsets + block.lengths)
        found = ItemReader(table.layout, options).column(buffer, cells, 1, table.items[1])
        found.texts.validate(full=True)
        texts += found.texts.to_pylist()
        wrong += found.wrong.tolist()
    return texts, wrong


def item_text(options: LinkexpressOptions, area: str, order: ByteOrder = "big") -> str | None:
    """The text of one item whose bytes are typed as hex, in an insert record with key 1."""
    head = "0001 0001" if order == "big" else "0100 0100"
    body = bytes.fromhex(head + area)
    if options.tables[0].logtype == "LITTLE":
        length = (len(body) + 4).to_bytes(4, order)
        body = length + body
    (text,), (wrong,) = column(options, body, order)
    assert not wrong
    return text


VECTORS = [
    # type, text, big-endian, little-endian ("" where it is the same)
    ("DECIMAL(5,2)", "123.45", "12345C", ""),
    ("DECIMAL(5,2)", "12.34", "01234C", ""),
    ("DECIMAL(5,2)", "123.45", "12345A", ""),
    ("DECIMAL(5,2)", "123.45", "12345E", ""),
    ("DECIMAL(5,2)", "123.45", "12345F", ""),
    ("DECIMAL(5,2)", "-123.45", "12345D", ""),
    ("DECIMAL(5,2)", "-123.45", "12345B", ""),
    ("DECIMAL(5,2)", "0.00", "00000D", ""),
    ("DECIMAL(6,2)", "1234.56", "0123456C", ""),
    ("DECIMAL(3,3)", "0.007", "007C", ""),
    ("DECIMAL(3)", "7", "007C", ""),
    ("NUMERIC(5,2)", "123.45", "2B 3132333435", ""),
    ("NUMERIC(5,2)", "-12.34", "2D 3031323334", ""),
    ("SMALLINT", "-2", "FFFE", "FEFF"),
    ("INTEGER", "100", "00000064", "64000000"),
    ("REAL", "1.5", "3FC00000", "0000C03F"),
    ("DOUBLE PRECISION", "-2.25", "C002000000000000", "00000000000002C0"),
    ("FLOAT(23)", "1.1", "3F8CCCCD", "CDCC8C3F"),
    ("FLOAT(24)", "1.1", "3FF199999999999A", "9A9999999999F13F"),
    ("DATE", "2005-12-31", "07D50C1F", "D5070C1F"),
    ("TIME", "23:59:58", "173B3A", ""),
    ("TIMESTAMP", "2005-12-31 23:59:58", "07D50C1F173B3A", "D5070C1F173B3A"),
    ("INTERVAL YEAR(4) TO MONTH", "12-03", "2B000C03", "2B0C0003"),
    ("INTERVAL DAY TO SECOND", "-1 02:03:04", "2D01020304", ""),
    ("CHAR(5)", "ABC", "4142432020", ""),
    ("CHAR(5)", "日本", "93FA967B20", ""),
    ("VARCHAR(8)", "ABC", "0003 414243 A5A5A5A5A5", "0300 414243 A5A5A5A5A5"),
    ("NCHAR(2)", "日本", "93FA967B", ""),
    ("NCHAR(3)", "日本\u3000", "93FA967B8140", ""),
    ("NCHAR VARYING(2)", "日本", "0002 93FA967B", "0200 93FA967B"),
    ("NCHAR VARYING(2)", "日", "0001 93FA FFFF", "0100 93FA FFFF"),
    ("BLOB(4)", "YWJj", "00000000 00000003 61626300", "00000000 03000000 61626300"),
]


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize(("written", "text", "big", "swapped"), VECTORS)
def test_a_vector_of_the_reference(
    written: str, text: str, big: str, swapped: str, order: ByteOrder
) -> None:
    area = big if order == "big" else swapped or big
    assert item_text(of_type(written), area, order) == text


@pytest.mark.parametrize(
    ("written", "more", "text", "area"),
    [
        ("NCHAR(2)", {"national_charset": "UCS-2"}, "日本", "65E5672C"),
        ("NCHAR(2)", {"national_charset": "UCS-2LE"}, "日本", "E5652C67"),
        ("NCHAR(2)", {"national_charset": "EUC-JP"}, "日本", "C6FCCBDC"),
        ("NCHAR(2)", {"national_charset": "UTF-8", "national_width": 3}, "日本", "E697A5E69CAC"),
        ("NCHAR VARYING(2)", {"national_length": "bytes"}, "日本", "0004 93FA967B"),
        ("CHAR(5)", {"trim_padding": False}, "ABC  ", "4142432020"),
        ("CHAR(6)", {"charset": "UTF-8"}, "日本", "E697A5E69CAC"),
        ("CHAR(4)", {"charset": "EUC-JP"}, "日本", "C6FCCBDC"),
        ("CHAR(5)", {"charset": "cp500"}, "ABC", "C1C2C34040"),
        ("NUMERIC(3)", {"numeric_sign": "trailing"}, "-12", "3031322D"),
        ("NUMERIC(3)", {"numeric_sign": "overpunched"}, "-12", "30314B"),
        ("NUMERIC(3)", {"numeric_sign": "overpunched"}, "12", "303142"),
        ("NUMERIC(3)", {"numeric_sign": "overpunched"}, "120", "31327B"),
        ("INTERVAL DAY(2) TO HOUR", {"interval_leading": 2}, "1 02", "2B000102"),
    ],
)
def test_a_setting_changes_how_an_item_is_read(
    written: str, more: dict, text: str, area: str
) -> None:
    assert item_text(of_type(written, **more), area) == text


@pytest.mark.parametrize(
    ("written", "head", "text", "area"),
    [
        ("VARCHAR(8)", 8, "ABC", "0003 414243"),
        ("NCHAR VARYING(2)", 8, "日", "0001 93FA"),
        ("BLOB(1K)", 8, "YWJj", "00000000 00000003 616263"),
        ("BLOB(1K)", 4, "YWJj", "00000003 616263"),
    ],
)
def test_variable_items_of_a_little_log(written: str, head: Any, text: str, area: str) -> None:
    assert item_text(little(of_type(written, blob_head=head)), area) == text


@pytest.mark.parametrize(
    ("written", "area"),
    [
        ("DECIMAL(5,2)", "123459"),
        ("DECIMAL(5,2)", "1A345C"),
        ("DECIMAL(6,2)", "1123456C"),
        ("NUMERIC(3)", "20313233"),
        ("NUMERIC(3)", "2B31323A"),
        ("DATE", "07D50D01"),
        ("DATE", "07D5021D"),
        ("DATE", "00000101"),
        ("TIME", "183B3A"),
        ("TIMESTAMP", "07D50C1F173C00"),
        ("INTERVAL YEAR(4) TO MONTH", "20000C03"),
        ("CHAR(2)", "81FF"),
        ("NCHAR(1)", "93"),
        ("VARCHAR(2)", "0003 4142"),
        ("NCHAR VARYING(1)", "0002 93FA"),
        ("BLOB(2)", "00000000 00000003 6162"),
        ("BLOB(2)", "00000001 00000001 6162"),
        ("REAL", "7FC00000"),
        ("DOUBLE PRECISION", "7FF0000000000000"),
    ],
)
def test_what_is_no_value_is_wrong(written: str, area: str) -> None:
    options = of_type(written)
    body = bytes.fromhex("0001 0001" + area)
    size = (
        build_framer(options, np.zeros(0, np.uint8), ExtractFileForm("big"), 0).tables[0].greatest
    )
    (text,), (wrong,) = column(options, body.ljust(size, b"\0"))
    assert wrong
    assert text is None or written != "DATE"


def digits_of(item: Any) -> st.SearchStrategy[int]:
    return st.integers(-(10**item.length) + 1, 10**item.length - 1)


def plain(value: int, scale: int) -> str:
    digits = tuple(map(int, str(abs(value))))
    return format(Decimal((int(value < 0), digits, -scale)), "f")


def pack_decimal(value: int, digits: int) -> bytes:
    nibbles = f"{abs(value):0{digits}d}" + ("D" if value < 0 else "C")
    return bytes.fromhex(nibbles.rjust(digits // 2 * 2 + 2, "0"))


TYPES = st.sampled_from(
    [
        "SMALLINT",
        "INTEGER",
        "DOUBLE PRECISION",
        "DECIMAL(1)",
        "DECIMAL(18,4)",
        "DECIMAL(7,7)",
        "DECIMAL(38,2)",
        "NUMERIC(1)",
        "NUMERIC(18,4)",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "INTERVAL YEAR(4) TO MONTH",
        "INTERVAL DAY(9) TO SECOND",
        "CHAR(7)",
        "VARCHAR(7)",
        "NCHAR(3)",
        "NCHAR VARYING(3)",
        "BLOB(9)",
    ]
)
WORDS = st.text("aZ 9~日本語アｱ\u3000", max_size=3)


@st.composite
def values(draw: st.DrawFn, written: str) -> tuple[Any, str]:
    """A value as the declaration takes it, and its text."""
    item = parse_item(f"x {written}")
    match item.type:
        case "SMALLINT" | "INTEGER":
            bits = 15 if item.type == "SMALLINT" else 31
            number = draw(st.integers(-(1 << bits), (1 << bits) - 1))
            return number, str(number)
        case "DOUBLE PRECISION":
            real = draw(st.floats(allow_nan=False, allow_infinity=False))
            return real, repr(real)
        case "DECIMAL":
            number = draw(digits_of(item))
            return pack_decimal(number, item.length), plain(number, item.scale)
        case "NUMERIC":
            number = draw(digits_of(item))
            sign = "-" if number < 0 else "+"
            return f"{sign}{abs(number):0{item.length}d}".encode(), plain(number, item.scale)
        case "DATE" | "TIME" | "TIMESTAMP":
            moment = draw(st.datetimes()).replace(microsecond=0)
            date = {"year": moment.year, "month": moment.month, "day": moment.day}
            time = {"hour": moment.hour, "minute": moment.minute, "second": moment.second}
            both = {"date": date, "time": time}
            return {
                "DATE": (date, moment.date().isoformat()),
                "TIME": (time, moment.time().isoformat()),
                "TIMESTAMP": (both, moment.isoformat(" ")),
            }[item.type]
        case "INTERVAL":
            sign = draw(st.sampled_from("+-"))
            most = {"MONTH": 11, "HOUR": 23, "MINUTE": 59, "SECOND": 59}
            fields = [draw(st.integers(0, most.get(name, 99))) for name in item.fields]
            if len(fields) == 2:
                text = f"{fields[0]}-{fields[1]:02d}"
            else:
                text = f"{fields[0]} {fields[1]:02d}:{fields[2]:02d}:{fields[3]:02d}"
            named = dict(zip(item.fields, fields, strict=True))
            return {"sign": sign.encode(), **named}, ("-" if sign == "-" else "") + text
        case "CHARACTER":
            word = draw(WORDS)
            return word.encode("cp932").ljust(item.length), word.rstrip(" ")
        case "CHARACTER VARYING":
            word = draw(WORDS)
            data = word.encode("cp932")
            return {"length": len(data), "data": data}, word
        case "NATIONAL CHARACTER":
            word = draw(st.text("日本語\u3000", min_size=3, max_size=3))
            return word.encode("cp932"), word
        case "NATIONAL CHARACTER VARYING":
            word = draw(st.text("日本語", max_size=3))
            return {"length": len(word), "data": word.encode("cp932")}, word
        case _:
            data = draw(st.binary(max_size=9))
            return {"length": len(data), "data": data}, base64.b64encode(data).decode()


@settings(max_examples=300, deadline=None)
@given(st.data(), TYPES, st.sampled_from(["big", "little"]), st.booleans(), st.booleans())
def test_what_a_declaration_builds_is_read_in_bulk(
    data: st.DataObject, written: str, order: Any, is_little: bool, nulls: bool
) -> None:
    options = replace(of_type(written), nulls=nulls)
    options = little(options) if is_little else options
    drawn = data.draw(st.lists(values(written), min_size=1, max_size=5))
    missing = [data.draw(st.booleans()) if nulls else False for _ in drawn]
    rows = [NULL if gone else value for (value, _), gone in zip(drawn, missing, strict=True)]
    built = b"".join(record(options, 0, 1, [7, row], order) for row in rows)
    texts, wrong = column(options, built, order)
    assert texts == [None if gone else text for (_, text), gone in zip(drawn, missing, strict=True)]
    assert not any(wrong)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(["big", "little"]), st.booleans(), st.booleans())
def test_reading_in_bulk_finds_items_where_the_declaration_does(
    data: st.DataObject, order: Any, is_little: bool, nulls: bool
) -> None:
    written = data.draw(st.lists(TYPES, min_size=1, max_size=6))
    table = replace(
        BASE.tables[0], items=("k SMALLINT", *(f"x{n} {text}" for n, text in enumerate(written)))
    )
    options = replace(BASE, tables=(table,), nulls=nulls)
    options = little(options) if is_little else options
    row = [7, *(data.draw(values(text))[0] for text in written)]
    if nulls:
        row = [row[0], *(NULL if data.draw(st.booleans()) else value for value in row[1:])]
    built = record(options, 0, 1, row, order)
    buffer = np.frombuffer(built, np.uint8)
    form, layout = form_of(options), item_layout(options, options.tables[0], order)
    items = options.tables[0].parse_items()
    parsed = declared_record(form, layout, items).parse(built)
    finder = build_framer(options, buffer, ExtractFileForm(order), len(built))
    (block,) = finder.blocks(0)
    cells = finder.tables[0].cells(buffer, block.offsets, block.offsets + block.lengths)
    assert cells.ends.tolist() == [len(built)]
    assert int(block.heads.code[0]) == parsed.header.operation
    for number, item in enumerate(items):
        value = parsed["items"][f"item{number}"].value
        if nulls:
            assert int(cells.flags[number][0]) == parsed["items"][f"item{number}"].null
            if cells.flags[number][0]:
                continue
        again = layout.area(item).parse(built[int(cells.starts[number][0]) :])
        assert again == value


def test_a_null_is_never_decoded() -> None:
    options = replace(of_type("DECIMAL(3)"), nulls=True)
    texts, wrong = column(options, bytes.fromhex("0001 0000 0001 FFFF FFFF"))
    assert (texts, wrong) == ([None], [False])


def test_null_flags_are_strict_unless_told_otherwise() -> None:
    options = replace(of_type("DECIMAL(3)"), nulls=True)
    body = bytes.fromhex("0001 0000 0001 0001 007C")
    assert column(options, body) == ([None], [True])
    assert column(replace(options, null_flags="lenient"), body) == ([None], [False])
