"""Extraction files that are damaged, with the counts that are expected: nothing is lost, what was not
touched stays as it was."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.sources.linkexpress import LinkexpressOptions
from publisher.sources.linkexpress.options import ByteOrder
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
WITH_LENGTHS = [name for name in FORMS if not name.startswith("open")]


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
def test_a_file_cut_at_every_byte(name: str, tmp_path: Path) -> None:
    options = FORMS[name]
    parts = pieces(options)
    data = b"".join(parts)
    whole, _ = read(options, data, tmp_path)
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    for size in range(len(data)):
        complete = sum(end <= size for end in ends)
        exactly = size in (0, *ends)
        try:
            records, framed = read(options, data[:size], tmp_path)
        except FatalError as error:
            assert not exactly
            assert "usr.dat" in error.message  # noqa: PT017 - it need not be raised
            assert complete == 0 or name.startswith("open")
            continue
        assert framed == len(records) == complete + (not exactly)
        assert len(rejects(records)) == (not exactly)
        for found, before in zip(records[:complete], whole, strict=False):
            assert record_text(found).removeprefix("held ") == record_text(before)


@pytest.mark.parametrize("by", [-1, 1, -2, 2, 256, 1 << 24, 1 << 31])
@pytest.mark.parametrize("name", WITH_LENGTHS)
def test_a_wrong_length_word_costs_its_record_only(name: str, by: int, tmp_path: Path) -> None:
    options = FORMS[name]
    parts = pieces(options)
    expected = record_texts(read(options, b"".join(parts), tmp_path)[0])
    for place, part in enumerate(parts):
        length = (int.from_bytes(part[:4], "big") + by) % (1 << 32)
        damaged = [*parts]
        damaged[place] = length.to_bytes(4, "big") + part[4:]
        records, framed = read(options, b"".join(damaged), tmp_path)
        assert framed == len(parts)
        assert len(rejects(records)) == 1
        assert records[place]["outcome"] == 5
        assert records[place]["reason"] == "broken-record"
        found = [text.removeprefix("held ") for text in record_texts(records)]
        assert found[:place] + found[place + 1 :] == expected[:place] + expected[place + 1 :]


@pytest.mark.parametrize("name", WITH_LENGTHS)
def test_a_length_of_two_records_swallows_none(name: str, tmp_path: Path) -> None:
    options = FORMS[name]
    parts = pieces(options)
    both = len(parts[0]) + len(parts[1])
    parts[0] = both.to_bytes(4, "big") + parts[0][4:]
    records, framed = read(options, b"".join(parts), tmp_path)
    assert framed == len(parts)
    assert len(rejects(records)) == 1
    assert records[0]["outcome"] == 5


@pytest.mark.parametrize("name", FORMS)
def test_an_unknown_code_costs_its_record_only(name: str, tmp_path: Path) -> None:
    options = FORMS[name]
    for code in (0x0000, 0x0004, 0x00F1, 0xFFFF, 0x8000, 0x0100):
        parts = pieces(options)
        parts[1] = record(options, 0, code, RECORDS[1][2])
        records, framed = read(options, b"".join(parts), tmp_path)
        assert framed == len(parts)
        (found,) = rejects(records)
        assert found["reason"] == "operation-code"
        assert found["high"] == len(parts[0])
        assert parts[1].hex() in found["raw"]


@pytest.mark.parametrize("name", WITH_LENGTHS[2:])
def test_a_wrong_count_costs_its_record_only(name: str, tmp_path: Path) -> None:
    options = FORMS[name]
    for by in (-1, 1, 0x7000):
        parts = pieces(options)
        count = int.from_bytes(parts[1][4:6], "big") + by
        parts[1] = parts[1][:4] + count.to_bytes(2, "big") + parts[1][6:]
        records, framed = read(options, b"".join(parts), tmp_path)
        assert framed == len(parts)
        (found,) = rejects(records)
        assert found["reason"] == "broken-record"
        assert "CNT" in found["detail"]


@pytest.mark.parametrize("name", FORMS)
def test_the_wrong_byte_order_is_refused(name: str, tmp_path: Path) -> None:
    options = FORMS[name]
    with pytest.raises(FatalError, match='byte_order = "big"'):
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


@pytest.mark.parametrize("name", ["group", "group-little", "group-bare"])
@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("count", [2, 3, 5, 40])
def test_unknown_tables_in_a_row_are_told_one_by_one(
    name: str, first: int, count: int, tmp_path: Path
) -> None:
    options = FORMS[name]
    parts = pieces(options)[:3]
    strangers = [strange(parts[n % 3], 9 + n % 2) for n in range(count)]
    parts[first:first] = strangers
    data = b"".join(parts)
    records, framed = read(options, data, tmp_path)
    assert framed == len(parts)
    assert [each["reason"] for each in rejects(records)] == ["table-name"] * count
    assert [each["detail"] for each in rejects(records)] == [
        f"extraction identifier {9 + n % 2} is not one of the tables'; add a table with xid = {9 + n % 2}"
        for n in range(count)
    ]
    starts = [sum(map(len, parts[:n])) for n in range(len(parts))]
    for start in starts[
        1 :: 1 + count // 8
    ]:  # what is found depends on the bytes from there on only
        rest, _ = read(options, mark(options) + data[start:], tmp_path)
        assert [each["detail"] for each in rejects(rest)] == [
            each["detail"] for each in rejects(records) if each["high"] >= start
        ]


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


def test_records_of_an_unknown_table_that_lead_nowhere_are_damage(tmp_path: Path) -> None:
    good = record(GROUP, *RECORDS[0])
    records, framed = read(GROUP, good + strange(good) * 2 + b"\xff" * 9, tmp_path)
    assert framed == 2
    assert [each["reason"] for each in rejects(records)] == ["broken-record"]


def test_records_beside_a_record_of_no_rows_are_rejected(tmp_path: Path) -> None:
    options = replace(little(BARE), extract="all")
    rows = [record(options, 0, 0, RECORDS[n][2]) for n in range(2)]
    empty = bytes.fromhex("00000006 FFFF")
    first, _ = read(options, empty + b"".join(rows), tmp_path)
    assert record_texts(first) == ["ignored empty-table", *["rejected operation-code"] * 2]
    last, _ = read(options, b"".join(rows) + empty, tmp_path)
    assert record_texts(last)[-1] == "rejected operation-code"
    assert len(rejects(last)) == 1


def test_a_key_that_is_null_is_rejected(tmp_path: Path) -> None:
    records, _ = read(OPEN, record(OPEN, 0, 1, [NULL, *RECORDS[0][2][1:]]), tmp_path)
    assert record_texts(records) == ["rejected table-key"]


def test_a_delete_needs_no_more_than_its_key(tmp_path: Path) -> None:
    values = [7, b"\x81\xff      ", b"\xff\xff\xff", {"length": 0, "data": b""}]
    records, _ = read(OPEN, record(OPEN, 0, 3, values) + record(OPEN, 0, 2, values), tmp_path)
    assert record_texts(records) == ["4 idu=7", "rejected value"]


@pytest.mark.parametrize("name", FORMS)
def test_mutations_change_only_what_they_touch(name: str, tmp_path: Path) -> None:
    """One byte is changed at a time; every other record gives what it gave before."""
    options = FORMS[name]
    parts = pieces(options) * 3
    data = b"".join(parts)
    before, _ = read(options, data, tmp_path)
    starts = [each["high"] for each in before]
    chance = random.Random(name)
    for _ in range(120):  # ./run fuzz goes on
        at = chance.randrange(len(data))
        damaged = data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
        records, framed = read(options, damaged, tmp_path)
        assert framed == len(records)
        after = {each["high"]: record_text(each).removeprefix("held ") for each in records}
        for start, part, found in zip(starts, parts, before, strict=True):
            if not start <= at < start + len(part):
                assert after.get(start) == record_text(found), (at, start)


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
    records, framed = read(options, b"".join([*pieces(options), row]), tmp_path)
    assert framed == len(RECORDS) + 1
    (found,) = rejects(records)
    assert 'little_null (try "absent")' in found["detail"]


def test_a_damaged_record_behind_a_commit_is_found_by_every_cut(tmp_path: Path) -> None:
    parts = [record(GROUP, *RECORDS[0]), mark(GROUP), record(GROUP, *RECORDS[1]), mark(GROUP)]
    parts[2] = parts[2][:4] + b"\xff" + parts[2][5:]
    data = b"".join(parts)
    expected = record_texts(read(GROUP, data, tmp_path)[0])
    for wanted in (2, 4, 50):
        assert record_texts(read(GROUP, data, tmp_path, wanted)[0]) == expected


def test_what_is_said_of_the_last_bytes_of_a_part_does_not_depend_on_the_part(
    tmp_path: Path,
) -> None:
    parts = [record(JNL, *each) for each in RECORDS]
    data = parts[0] + bytes(6) + b"".join(parts[1:])
    expected = [each["detail"] for each in read(JNL, data, tmp_path)[0]]
    for wanted in (2, 3, 50):
        assert [each["detail"] for each in read(JNL, data, tmp_path, wanted)[0]] == expected


def test_a_wrong_length_that_leads_to_a_record_swallows_none_where_items_are_damaged(
    tmp_path: Path,
) -> None:
    options = little(OPEN)
    parts = [record(options, *each) for each in RECORDS]
    three = sum(map(len, parts[:3]))
    parts[0] = three.to_bytes(4, "big") + parts[0][4:-5] + b"\xff" * 5
    records, framed = read(options, b"".join(parts), tmp_path)
    assert framed == len(parts)
    assert [each["outcome"] for each in records] == [5, None, None, None, None]


def test_a_length_beyond_the_greatest_record_swallows_none_where_more_is_damaged(
    tmp_path: Path,
) -> None:
    parts = [record(JNL, *each) for each in RECORDS]
    size = sum(map(len, parts)) + 6
    parts[0] = size.to_bytes(4, "big") + b"\xff" * len(parts[0]) + b"\xff" * 2
    parts[2] = parts[2][:4] + b"\xff" * 6 + parts[2][10:]
    records, framed = read(JNL, b"".join(parts), tmp_path)
    assert framed == len(parts)
    assert [each["outcome"] for each in records] == [5, None, 5, None, None]


def test_a_header_that_leads_out_of_its_part_is_judged_by_the_file(tmp_path: Path) -> None:
    options = little(JNL)
    parts = [record(options, *each) for each in RECORDS]
    parts[0] = b"\x80" + parts[0][1:]
    parts[1] = parts[1][:-4]
    data = b"".join(parts)
    expected = [(each["high"], each["detail"]) for each in read(options, data, tmp_path)[0]]
    assert "LEN says -" in str(expected[0][1])
    assert "no record begins here or in the" in str(expected[1][1])
    for wanted in (2, 3, 50):
        found = [
            (each["high"], each["detail"]) for each in read(options, data, tmp_path, wanted)[0]
        ]
        assert found == expected


@pytest.mark.parametrize("kept", [12, 24])
@pytest.mark.parametrize("order", ["big", "little"])
def test_a_file_whose_first_mebibyte_is_damaged_is_known_by_what_follows(
    order: ByteOrder, kept: int, tmp_path: Path
) -> None:
    written = replace(little(JNL), byte_order=order)
    parts = [record(written, *each) for each in RECORDS]
    data = parts[4][:kept] + b"x" * (1 << 20) + b"".join(parts)
    records, framed = read(replace(written, byte_order="auto"), data, tmp_path)
    assert framed == len(parts) + 1
    assert [each["outcome"] for each in records] == [5, None, None, None, None, None]


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
