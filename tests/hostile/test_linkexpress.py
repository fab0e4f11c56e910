"""Extraction files whose framing is damaged are refused; records whose content is damaged cost only
themselves."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.errors import FatalError, FileRefusedError
from publisher.formats.linkexpress import LinkexpressOptions
from tests.support.linkexpress_files import (
    GROUP,
    JNL,
    NULL,
    OPEN,
    Record,
    jack,
    little,
    mark,
    read,
    record,
    record_text,
)

BARE = replace(OPEN, nulls=False)
RECORDS = [
    jack(1),
    jack(2, 2),
    jack(3, 3),
    (0, 1, [4, b"Ann     ", bytes.fromhex("00001D"), {"length": 0, "data": b""}]),
    (0, 2, [5, b"\x93\xfa\x96\x7b    ", bytes.fromhex("99999F"), {"length": 6, "data": b"x" * 6}]),
]
FORMS = {
    "open": OPEN,
    "open-bare": BARE,
    "little": little(OPEN),
    "little-bare": little(BARE),
    "jnl": JNL,
    "jnl-little": little(JNL),
    "group": GROUP,
    "group-little": little(GROUP),
    "group-bare": replace(GROUP, nulls=False),
}


def pieces(options: LinkexpressOptions) -> list[bytes]:
    records_ = [record(options, *each) for each in RECORDS]
    if options.unit == "group":
        records_.insert(3, mark(options))
        records_.append(mark(options))
    return records_


def record_texts(records: list[Record]) -> list[str]:
    return [record_text(each) for each in records]


def rejects(records: list[Record]) -> list[Record]:
    return [each for each in records if each["outcome"] == 5]


@pytest.mark.parametrize("name", FORMS)
def test_a_file_cut_at_every_byte_is_refused(name: str, tmp_path: Path) -> None:
    options = FORMS[name]
    parts = pieces(options)
    data = b"".join(parts)
    ends = [sum(map(len, parts[:n])) for n in range(len(parts) + 1)]
    for size in range(len(data)):
        if size in ends:
            _, framed = read(options, data[:size], tmp_path)
            assert framed == ends.index(size)
            continue
        with pytest.raises(FileRefusedError) as error:
            read(options, data[:size], tmp_path)
        last = max(end for end in ends if end <= size)
        place = (
            f"byte {last} " if options.unit == "group" or name not in ("open", "open-bare") else ""
        )
        assert place in error.value.message
        assert "truncated" in error.value.message or not last


DAMAGE: dict[str, tuple[str, int, bytes, str]] = {
    # form, offset in the second record, bytes, message
    "length": ("jnl", 3, b"\x30", "at byte 41 .*: LEN is 48, by the settings it is 41"),
    "variable length": ("little", 0, b"\x7f", "at byte 34 .*: LEN is"),
    "count": ("group", 5, b"\x09", "at byte 43 .*: CNT is 9, by the settings it is 6"),
    "flag": ("group", 8, b"\x01", "at byte 43 .*: the NULL area of OP is 0100 instead of 0000"),
    "code": ("group", 11, b"\x07", "at byte 43 .*: OP is 0007, by the settings it is one of"),
    "commit code": ("group", 10, b"\x80\x00", "at byte 43 .*: OP is 8000 commit, but CNT is 6"),
    "fixed code": ("open", 1, b"\x07", "at byte 33 .*: OP is 0007"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_header_refuses_the_file(case: str, tmp_path: Path) -> None:
    name, at, changed, message = DAMAGE[case]
    options = FORMS[name]
    parts = pieces(options)
    at += len(parts[0])
    data = b"".join(parts)
    with pytest.raises(FileRefusedError, match=message):
        read(options, data[:at] + changed + data[at + len(changed) :], tmp_path)


def test_records_beside_a_record_of_no_rows_refuse_the_file(tmp_path: Path) -> None:
    options = replace(little(BARE), extract="all")
    row = record(options, 0, 0, RECORDS[0][2])
    empty = bytes.fromhex("00000006 FFFF")
    for data in (empty + row, row + empty):
        with pytest.raises(FileRefusedError, match="must be the only one"):
            read(options, data, tmp_path)


@pytest.mark.parametrize(
    ("magic", "tool"), [(b"\x1f\x8b\x08", "gunzip"), (b"PK\x03\x04", "unzip"), (b"BZh", "bunzip2")]
)
def test_a_compressed_file_is_called_so(magic: bytes, tool: str, tmp_path: Path) -> None:
    with pytest.raises(FileRefusedError, match=f"unpack it first .{tool}"):
        read(JNL, magic + bytes(100), tmp_path)


@pytest.mark.parametrize("name", FORMS)
def test_the_wrong_byte_order_is_refused(name: str, tmp_path: Path) -> None:
    options = FORMS[name]
    with pytest.raises(FileRefusedError, match=r"at byte 0 .*byte_order = little"):
        read(replace(options, byte_order="little"), b"".join(pieces(options)), tmp_path)


def test_the_wrong_charset_is_rejected_by_item(tmp_path: Path) -> None:
    records, _ = read(replace(JNL, charset="UTF-8"), b"".join(pieces(JNL)), tmp_path)
    (found,) = rejects(records)
    assert found["reason"] == "value"
    assert (found["table"], found["key"]) == ("usr", "idu=5")
    assert "item 2, fname CHARACTER(8), at byte 18" in found["detail"]
    assert "charset" in found["detail"]


def test_an_item_that_claims_more_than_there_is(tmp_path: Path) -> None:
    options = little(JNL)
    parts = pieces(options)
    parts[0] = parts[0][:-5] + b"\xff\xff" + parts[0][-3:]
    records, framed = read(options, b"".join(parts), tmp_path)
    assert framed == len(parts)
    (found,) = rejects(records)
    assert "item 4, note CHARACTER VARYING(6)" in found["detail"]
    assert "logtype" in found["detail"]


def test_an_unknown_table_is_rejected(tmp_path: Path) -> None:
    parts = pieces(GROUP)
    parts[1] = parts[1][:6] + (9).to_bytes(2, "big") + parts[1][8:]
    records, framed = read(GROUP, b"".join(parts), tmp_path)
    assert framed == len(parts)
    (found,) = rejects(records)
    assert found["reason"] == "table-name"
    assert "add a table with xid = 9" in found["detail"]


def strange(part: bytes, xid: int = 9) -> bytes:
    """A record of a group with another extraction identifier."""
    return part[:6] + xid.to_bytes(2, "big") + part[8:]


def test_parts_give_the_same_unknown_tables_as_the_file(tmp_path: Path) -> None:
    parts = [
        strange(part) if n % 7 in (2, 4, 5) else part for n, part in enumerate(pieces(GROUP) * 40)
    ]
    expected = [
        (each["high"], each["detail"]) for each in read(GROUP, b"".join(parts), tmp_path)[0]
    ]
    assert len(expected) == len(parts)
    for wanted in (2, 9, 500):
        found = read(GROUP, b"".join(parts), tmp_path, wanted)[0]
        assert [(each["high"], each["detail"]) for each in found] == expected


def test_a_record_inside_one_of_an_unknown_table_is_its_data(tmp_path: Path) -> None:
    inner = record(GROUP, *RECORDS[0])
    head = record(GROUP, *RECORDS[1])[4:]
    length = 4 + len(head) + len(inner) + 5
    part = strange(length.to_bytes(4, "big") + head + inner + b"\xff" * 5)
    for count in (1, 2, 6):
        records, framed = read(GROUP, inner + part * count + mark(GROUP), tmp_path)
        assert framed == count + 2
        assert [each["reason"] for each in rejects(records)] == ["table-name"] * count


def test_a_key_that_is_null_is_rejected(tmp_path: Path) -> None:
    records, _ = read(OPEN, record(OPEN, 0, 1, [NULL, *RECORDS[0][2][1:]]), tmp_path)
    assert record_texts(records) == ["rejected table-key"]


def test_a_delete_needs_no_more_than_its_key(tmp_path: Path) -> None:
    values = [7, b"\x81\xff      ", b"\xff\xff\xff", {"length": 0, "data": b""}]
    records, _ = read(OPEN, record(OPEN, 0, 3, values) + record(OPEN, 0, 2, values), tmp_path)
    assert record_texts(records) == ["4 idu=7", "rejected value"]


@pytest.mark.parametrize("name", FORMS)
def test_noise_is_read_or_refused_in_words(name: str, tmp_path: Path) -> None:
    chance = random.Random(name)
    for size in (1, 2, 3, 5, 8, 40, 500):
        try:
            records, framed = read(FORMS[name], chance.randbytes(size), tmp_path)
        except FatalError as error:
            assert "usr.dat" in error.message  # noqa: PT017
        else:
            assert framed == len(records)


def test_a_null_of_another_form_names_the_setting(tmp_path: Path) -> None:
    options = little(JNL)
    row = record(replace(options, little_null="absent"), 0, 1, [6, NULL, NULL, NULL])
    with pytest.raises(
        FileRefusedError, match=r"LEN is 33, by the settings it is 35 to 41.*little_null"
    ):
        read(options, b"".join([*pieces(options), row]), tmp_path)


def test_damaged_records_do_not_tell_how_items_lie(tmp_path: Path) -> None:
    options = little(JNL)
    whole = record(options, *RECORDS[4])
    length = len(whole) - 7  # of the note, 6
    damaged = whole[:length] + b"\x26" + whole[length + 1 :]
    without = record(options, 0, 2, [6, b"Ann     ", bytes.fromhex("12345C"), NULL])
    parts = [whole, damaged, without]
    records, framed = read(options, b"".join(parts), tmp_path)
    assert framed == len(parts)
    assert [each["outcome"] for each in records] == [None, 5, None]
