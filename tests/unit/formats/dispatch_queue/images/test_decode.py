"""Row images: bytes typed by hand, and the bulk reader against the declaration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats.dispatch_queue.images.decode import DecodedImages, ImageReader
from publisher.formats.dispatch_queue.images.layout import image_layout
from publisher.formats.dispatch_queue.options import DispatchQueueOptions, NullMode, QueueTable
from tests.support.dispatch_queue_files import image

PLAIN = DispatchQueueOptions(
    null_mode="none",
    image_charset="cp866",
    nchar_order="little",
    boolean_true="01",
    boolean_false="00",
    length_counted=False,
)


def reader(
    columns: Sequence[str], options: DispatchQueueOptions = PLAIN, **own: Any
) -> ImageReader:
    key = (columns[0].split()[0],)
    table = QueueTable(number=7, name="t", columns=tuple(columns), key=key, **own)
    used = options.of_table(table)
    return ImageReader(image_layout(used, table), used, table)


def decode(image_reader: ImageReader, *images: bytes) -> DecodedImages:
    lengths = np.array([len(one) for one in images], np.int64)
    data = np.frombuffer(b"".join(images), np.uint8)
    return image_reader.read(data, np.cumsum(lengths) - lengths, lengths)


@pytest.mark.parametrize(
    ("column", "area", "text"),
    [
        ("c SMALLINT", "FE FF", "-2"),
        ("c INTEGER", "01 02 00 00", "513"),
        ("c BIGINT", "00 00 00 00 00 00 00 80", "-9223372036854775808"),
        ("c REAL", "CD CC CC 3D", "0.1"),
        ("c DOUBLE", "9A 99 99 99 99 99 B9 3F", "0.1"),
        ("c CHAR(5)", "8C 91 20 20 20", "МС"),
        ("c BYTE(3)", "FF 00 00", "/wAA"),
        ("c VARCHAR(4)", "02 00 41 42 20 20", "AB"),
        ("c VARBYTE(4)", "02 00 FF FE 00 00", "//4="),
        ("c NCHAR(3)", "16 04 41 00 20 00", "ЖA"),
        ("c NVARCHAR(2)", "01 00 16 04 00 00", "Ж"),
        ("c BOOLEAN(5)", "01 00 00 00 00", "true"),
        ("c BOOLEAN(1)", "00", "false"),
        ("c BOOLEAN(1)", "02", None),
        # status, 20 digits before the point, 10 behind it (reference 2.2)
        ("c DECIMAL", "02 00 00 00 00 00 00 00 00 00 12 34 00 00 00 00", "12.34"),
        ("c DECIMAL(9,3)", "01 00 00 00 00 00 00 00 00 00 12 34 00 00 00 00", "-12.340"),
        ("c DECIMAL(9,1)", "01 00 00 00 00 00 00 00 00 00 12 34 00 00 00 00", None),
        ("c DECIMAL(9)", "02 00 00 00 00 00 00 00 00 12 00 00 00 00 00 00", "1200"),
        ("c DECIMAL", "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00", "0"),
        ("c DECIMAL", "02 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99", "9" * 20 + "." + "9" * 10),
        ("c DECIMAL", "02 00 00 00 00 00 00 00 00 00 0C 22 00 00 00 00", None),
        ("c DECIMAL", "00 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00", None),
        ("c DECIMAL", "03 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00", None),
        (
            "c DATE",
            "02 00 00 00 00 00 63 84 99 25 61 60 00 00 00 00",
            "020000000000638499256160" + "0" * 8,
        ),
        ("c REAL", "00 00 C0 7F", None),
        ("c VARCHAR(4)", "05 00 41 42 20 20", None),
        ("c BLOB(2)", "AB CD", None),
    ],
)
def test_values(column: str, area: str, text: str | None) -> None:
    found = decode(reader([column]), bytes.fromhex(area))
    assert found.texts[0].to_pylist() == [text]
    assert bool(found.problems) == (text is None and "BLOB" not in column)


def test_decimals_of_base_100_and_dates_of_ticks() -> None:
    options = replace(PLAIN, decimal_coding="base100", date_coding="decimal_ticks")
    twelve = bytes.fromhex("02 00 00 00 00 00 00 00 00 00 0C 22 00 00 00 00")
    assert decode(reader(["c DECIMAL"], options), twelve).texts[0].to_pylist() == ["12.34"]
    # 2024-01-01 00:00:00.25 is 738,885 days after 0001-01-01; ticks are 1/100 s
    ticks = 738_885 * 86_400 * 100 + 25
    digits = f"{ticks:020d}" + "0" * 10
    pairs = bytes(int(digits[at : at + 2]) for at in range(0, 30, 2))
    found = decode(reader(["c DATE"], options), b"\x02" + pairs)
    assert found.texts[0].to_pylist() == ["2024-01-01 00:00:00.25"]
    late = decode(reader(["c DATE"], options), b"\x02" + bytes([0, 10]) + pairs[2:])
    assert late.problems


MODES: list[tuple[NullMode, str]] = [
    ("byte_before", "00 07 00 00 00 01 20 20 00 41 20"),
    ("byte_after", "07 00 00 00 00 20 20 01 41 20 00"),
    ("bitmap_prefix", "02 07 00 00 00 20 20 41 20"),
    ("bitmap_suffix", "07 00 00 00 20 20 41 20 02"),
]


@pytest.mark.parametrize(("mode", "typed"), MODES)
def test_null_is_marked_as_the_settings_say(mode: NullMode, typed: str) -> None:
    options = replace(PLAIN, null_mode=mode, null_flag=1, null_bits="lsb")
    image_reader = reader(["a INTEGER", "b CHAR(2)", "c CHAR(2)"], options)
    found = decode(image_reader, bytes.fromhex(typed))
    assert [text.to_pylist() for text in found.texts] == [["7"], [None], ["A"]]
    assert not found.problems


def test_a_flag_that_is_none_is_a_fault() -> None:
    options = replace(PLAIN, null_mode="byte_before", null_flag=255)
    found = decode(reader(["a SMALLINT"], options), bytes.fromhex("010700"))
    assert "null_mode" in found.problems[0]


def test_offsets_and_length_may_be_given() -> None:
    image_reader = reader(["a SMALLINT", "b CHAR(2)"], offsets=(4, 1), image_length=8)
    found = decode(image_reader, bytes.fromhex("FF 41 42 FF 05 00 FF FF"))
    assert [text.to_pylist() for text in found.texts] == [["5"], ["AB"]]


def test_a_wrong_length_is_named_with_the_right_one() -> None:
    options = replace(PLAIN, null_mode="byte_before", null_flag=1)
    found = decode(reader(["a SMALLINT", "b VARCHAR(3)"], options), bytes(7))
    assert found.problems == {
        0: "the image has 7 bytes, the columns of table 7 need 9; compare the columns with the source, or set"
        " offsets if they are known"
    }


SEQUENTIAL = replace(PLAIN, record="sequential", null_mode="byte_before", null_flag=1)


def test_sequential_records_are_used_up() -> None:
    image_reader = reader(["a SMALLINT", "b VARCHAR(9)", "c SMALLINT"], SEQUENTIAL)
    good = bytes.fromhex("00 0100 00 0200 4142 00 0500")
    other = bytes.fromhex("00 0200 01 0000 00 0600")
    found = decode(image_reader, good, other, good + b"\0", good[:-1], good[:6])
    assert [text.to_pylist()[:2] for text in found.texts] == [["1", "2"], ["AB", None], ["5", "6"]]
    assert sorted(found.problems) == [2, 3, 4]
    assert "11 of 12 bytes" in found.problems[2]
    assert "crosses the end" in found.problems[3]


COLUMNS = ("id INTEGER", "s SMALLINT", "v VARCHAR(6)", "c CHAR(4)", "n NVARCHAR(3)", "b BIGINT")
rows = st.tuples(
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(-(2**15), 2**15 - 1),
    st.none() | st.text("abcж ", max_size=6),
    st.none() | st.text("abcж", max_size=4),
    st.none() | st.sampled_from(["", "A", "ЖA"]),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)


@given(
    drawn=st.lists(rows, min_size=1, max_size=5),
    mode=st.sampled_from(["byte_before", "byte_after", "bitmap_prefix", "bitmap_suffix"]),
    bits=st.sampled_from(["lsb", "msb"]),
    order=st.sampled_from(["little", "big"]),
    record=st.sampled_from(["fixed", "sequential"]),
)
def test_what_the_declaration_builds_is_read(
    drawn: list[tuple[Any, ...]], mode: NullMode, bits: Any, order: Any, record: Any
) -> None:
    options = replace(
        PLAIN,
        null_mode=mode,
        null_flag=7,
        null_bits=bits,
        image_byte_order=order,
        record=record,
    )
    used = reader(COLUMNS, options)
    built = []
    for values in drawn:
        national = None if values[4] is None else values[4].encode("utf-16-le")
        built.append(image(used.table, [*values[:4], national, values[5]], options))
    found = decode(used, *built)
    assert not found.problems
    for number, values in enumerate(drawn):
        texts = [None if value is None else str(value) for value in values]
        assert [column[number].as_py() for column in found.texts] == texts


@given(
    st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.sampled_from([PLAIN, SEQUENTIAL])
)
def test_any_bytes_are_decoded_or_at_fault(
    images: list[bytes], options: DispatchQueueOptions
) -> None:
    image_reader = reader(COLUMNS, options)
    found = decode(image_reader, *images)
    assert all(len(text) == len(images) for text in found.texts)
    for row, one in enumerate(images):
        if row not in found.problems and options.record == "fixed":
            assert len(one) == image_reader.layout.length
