"""Wrong settings of row images: rejected, and the message names the right ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from publisher.sources.dispatch_queue.images import advise_settings
from publisher.sources.dispatch_queue.images.decode import DecodedImages, ImageReader
from publisher.sources.dispatch_queue.images.layout import image_layout
from publisher.sources.dispatch_queue.options import DispatchQueueOptions, QueueTable
from tests.support.dispatch_queue_codes import COMMIT, INSERT
from tests.support.dispatch_queue_files import Queue, binary, image, read

TRUE = DispatchQueueOptions(
    null_mode="byte_before",
    null_flag=1,
    image_charset="cp866",
    nchar_order="little",
    length_counted=False,
)
COLUMNS = (
    "id INTEGER",
    "first VARCHAR(20)",
    "last VARCHAR(30)",
    "title NVARCHAR(8)",
    "code CHAR(6)",
    "pay DECIMAL(9,2)",
)
SHORTER = (
    COLUMNS[0],
    "first VARCHAR(18)",
    "last VARCHAR(28)",
    "title NVARCHAR(7)",
    *COLUMNS[4:],
)
"""The same where LEN was taken to count the length before the value."""
PAY = bytes.fromhex("02 00 00 00 00 00 00 00 00 00 12 34 00 00 00 00")


def table(columns: tuple[str, ...] = COLUMNS, **own: Any) -> QueueTable:
    return QueueTable(number=1, name="t", columns=columns, key=("id",), **own)


def images(used: DispatchQueueOptions, described: QueueTable | None = None) -> list[bytes]:
    """Some, in one of which a column is NULL."""
    rows: list[list[Any]] = [
        [1, "Jack", "Smith", "Dr".encode("utf-16-le"), "A1", PAY],
        [70_000, "Жанна", None, b"", "B22", PAY],
        [3, "", "O'Hara", "Ж".encode("utf-16-le"), "", PAY],
    ]
    return [image(described or table(), row, used) for row in rows]


def decode(used: DispatchQueueOptions, described: QueueTable, every: list[bytes]) -> DecodedImages:
    used = used.of_table(described)
    lengths = np.array([len(one) for one in every], np.int64)
    data = np.frombuffer(b"".join(every), np.uint8)
    reader = ImageReader(image_layout(used, described), used, described)
    return reader.read(data, np.cumsum(lengths) - lengths, lengths)


def advice(fault: str) -> str:
    """Returns the advice of the message."""
    return fault.split("would fit ")[1]


def test_lengths_that_were_counted_the_wrong_way_round_are_named() -> None:
    wrong = replace(TRUE, length_counted=True)
    every = images(TRUE)
    found = decode(wrong, table(SHORTER), every)
    assert len(found.faults) == 3
    assert (
        f"has {len(every[0])} bytes, the columns of table 1 need {len(every[0]) - 6}"
        in (found.faults[0])
    )
    assert {advice(fault) for fault in found.faults.values()} == {"length_counted = false"}
    # and the other way
    every = images(TRUE, table(SHORTER))
    found = decode(TRUE, table(COLUMNS), every)
    assert {advice(fault) for fault in found.faults.values()} == {"length_counted = true"}


def test_lengths_of_columns_in_the_job_file_are_named() -> None:
    found = decode(replace(TRUE, length_counted=None), table(SHORTER), images(TRUE))
    assert advice(found.faults[0]) == "VARCHAR, VARBYTE and NVARCHAR that are 2 bytes longer"


MODES: list[Any] = ["none", "byte_before", "byte_after", "bitmap_prefix", "bitmap_suffix"]


@pytest.mark.parametrize("truth", MODES)
@pytest.mark.parametrize("declared", MODES)
@pytest.mark.parametrize("flag", [1, 255])
def test_the_null_mode_is_named(truth: Any, declared: Any, flag: int) -> None:
    true = replace(TRUE, null_mode=truth, null_flag=flag, null_bits="lsb")
    bare = not declared.startswith("byte")
    used = replace(true, null_mode=declared, null_flag=None if bare else flag, null_bits=None)
    if declared.startswith("bitmap"):
        used = replace(used, null_bits="lsb")
    found = decode(used, table(), images(true))
    assert len(found.faults) == (0 if truth == declared else 3)
    for fault in found.faults.values():
        named = f'null_mode = "{truth}"'
        if bare and truth.startswith("byte"):
            named += f", null_flag = {flag}"
        assert advice(fault) == named
        assert "image_length" not in fault


def test_an_invalid_null_byte_is_shown() -> None:
    used = replace(TRUE, null_mode="byte_after")
    found = decode(used, table(), [images(TRUE)[0]])
    assert "its NULL byte is" in found.faults[0] or "is not a valid value" in found.faults[0]
    assert 'null_mode = "byte_before"' in found.faults[0]
    found = decode(replace(TRUE, null_flag=255), table(), images(TRUE))
    assert found.faults == {
        1: "column last VARCHAR(30): its NULL byte is 01, neither 00 nor null_flag (FF); images of"
        f" {len(images(TRUE)[0])} bytes would fit null_flag = 1"
    }


def test_null_mode_is_named_where_nothing_fits() -> None:
    broken = bytearray(images(TRUE)[0])
    broken[-1] = 0xFF
    found = decode(TRUE, table(), [bytes(broken)])
    assert "check decimal_coding, null_mode and the columns before it" in found.faults[0]


@pytest.mark.parametrize("truth", ["fixed", "sequential"])
def test_the_other_record_is_named(truth: Any) -> None:
    declared: Any = "sequential" if truth == "fixed" else "fixed"
    found = decode(replace(TRUE, record=declared), table(), images(replace(TRUE, record=truth)))
    assert {advice(fault) for fault in found.faults.values()} == {f'record = "{truth}"'}


def test_two_wrong_settings_are_named() -> None:
    used = replace(TRUE, null_mode="none", null_flag=None, length_counted=True)
    found = decode(used, table(SHORTER), images(TRUE))
    wanted = 'null_mode = "byte_before" with length_counted = false, null_flag = 1'
    assert advice(found.faults[0]) == wanted
    used = replace(TRUE, null_mode="bitmap_suffix", null_bits="msb")
    found = decode(used, table(), images(replace(TRUE, record="sequential")))
    assert advice(found.faults[0]) == 'null_mode = "byte_before" with record = "sequential"'


def test_a_length_is_explained_where_values_are_wrong_besides() -> None:
    true = replace(TRUE, image_charset="cp866")
    used = replace(true, image_charset="ascii", null_mode="none")
    found = decode(used, table(), [images(true)[1]])
    assert 'would have the right length with null_mode = "byte_before"' in found.faults[0]


def test_image_length_takes_filler_only() -> None:
    every = images(TRUE)
    size = len(every[0])
    for filler in (b"\0" * 5, b" " * 5):
        found = decode(TRUE, table(image_length=size + 5), [one + filler for one in every])
        assert not found.faults
    found = decode(TRUE, table(image_length=size + 5), [one + b"\0\0 \0\0" for one in every])
    assert "leaves 5 bytes after the columns, and they are not filler" in found.faults[0]
    assert "00 00 20 00 00; remove image_length" in found.faults[0]
    places = image_layout(TRUE, table()).places
    known = table(image_length=size + 1, offsets=places)
    assert not decode(TRUE, known, [one + b"x" for one in every]).faults


def test_image_length_hides_no_wrong_setting() -> None:
    every = images(TRUE)
    wrong = replace(TRUE, length_counted=True)
    found = decode(wrong, table(SHORTER, image_length=len(every[0])), every)
    assert len(found.faults) == 3
    assert advice(found.faults[0]) == "length_counted = false"


def test_image_length_below_what_the_columns_need_reads_nothing_beyond() -> None:
    every = [one[:-3] for one in images(TRUE)]
    found = decode(TRUE, table(image_length=len(every[0])), every)
    assert len(found.faults) == 3
    assert f"image_length is {len(every[0])}" in found.faults[0]


def test_the_filler_of_a_bitmap_behind_it_lies_before_the_bitmap() -> None:
    true = replace(TRUE, null_mode="bitmap_suffix", null_bits="lsb")
    every = [one[:-1] + b"\0\0" + one[-1:] for one in images(true)]
    assert not decode(true, table(image_length=len(every[0])), every).faults


def test_searches_are_remembered_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    search = advise_settings.search_settings

    def count_search(length: int, count: int, *others: Any) -> str | None:
        tried.append(length)
        assert count <= advise_settings.SAMPLE
        return search(length, count, *others)

    monkeypatch.setattr(advise_settings, "_RECENT", advise_settings.RecentSearches())
    monkeypatch.setattr(advise_settings, "search_settings", count_search)
    used = replace(TRUE, null_mode="none", null_flag=None)
    first = decode(used, table(), images(TRUE) * 50).faults
    assert len(first) == 150
    assert len(tried) == 1
    assert decode(used, table(), images(TRUE) * 50).faults == first
    assert len(tried) == 1
    decode(used, table(), images(TRUE) * 2)
    assert len(tried) == 2
    tried.clear()
    rows = [[n, "x" * (n % 20), "y" * (n % 30), b"", "", PAY] for n in range(90)]
    true = replace(TRUE, record="sequential")
    found = decode(TRUE, table(), [image(table(), row, true) for row in rows])
    assert len(tried) == advise_settings.SEARCHES
    assert all('record = "sequential"' in fault for fault in found.faults.values())


def test_a_rejected_record_of_a_queue_names_the_setting(tmp_path: Path) -> None:
    queue = Queue()
    rows = [*(queue.row(INSERT, one, TABNUM_SRC=1) for one in images(TRUE)), queue.row(COMMIT)]
    used = replace(TRUE, null_mode="byte_after", tables=(table(),))
    records, _ = read(used, binary(rows), tmp_path)
    details = [record["detail"] for record in records[:-1]]
    assert all('would fit null_mode = "byte_before"' in detail for detail in details)
