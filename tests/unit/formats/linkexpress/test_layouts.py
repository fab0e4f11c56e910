"""Records typed by hand as hex from the pages: each layout, both byte orders, each operation code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from publisher.errors import FatalError, UsageError
from publisher.formats.contract import Context
from publisher.formats.linkexpress import Linkexpress, LinkexpressOptions
from publisher.formats.linkexpress.options import ExtractedTable
from publisher.model.catalogue import JobCatalogue
from tests.support.linkexpress_files import little, read, record_text

# idu INTEGER, pay DECIMAL(5,2), note VARCHAR(4)
USR = ExtractedTable("usr", ("idu INTEGER", "pay DECIMAL(5,2)", "note VARCHAR(4)"), ("idu",), xid=7)
BARE = LinkexpressOptions("table", "diff", False, (USR,), "OPEN", charset="EUC-JP")
NULLS = replace(BARE, nulls=True)
JNL = replace(NULLS, difftype="JNL")
GROUP = replace(NULLS, unit="group", difftype=None)
GROUP_BARE = replace(GROUP, nulls=False)

ROW = "00000064 12345C 0003 414243"
ROW_NULLS = "0000 00000064 0000 12345C 0000 0003 414243"
SAID = "idu=100 pay=123.45 note=ABC"

CASES = {
    # table, OPEN, NORMAL: OP (N D)*
    "open": (BARE, f"0001 {ROW} 00", [f"1 {SAID}"]),
    "open-nulls": (NULLS, f"0001 {ROW_NULLS} 00", [f"1 {SAID}"]),
    "open-update": (BARE, f"0002 {ROW} FF", [f"3 {SAID}"]),
    "open-delete": (BARE, f"0003 {ROW} 20", ["4 idu=100"]),
    "open-null": (
        NULLS,
        "0001 0000 00000064 FFFF A5A5A5 0000 0000 00000000",
        ["1 idu=100 pay=NULL note="],
    ),
    "open-full": (replace(BARE, extract="all", byte_order="big"), f"0000 {ROW} 00", [f"1 {SAID}"]),
    "open-no-rows": (replace(BARE, extract="all"), "FFFF", ["ignored empty-table"]),
    "open-swapped": (BARE, "0100 64000000 12345C 0300 41424300", [f"1 {SAID}"]),
    # table, OPEN, LITTLE: LEN OP (N D)*
    "little": (little(BARE), f"00000012 0001 {ROW}", [f"1 {SAID}"]),
    "little-nulls": (little(NULLS), f"00000018 0002 {ROW_NULLS}", [f"3 {SAID}"]),
    "little-null": (
        little(NULLS),
        "00000015 0001 0000 00000064 0000 12345C FFFF 0000",
        ["1 idu=100 pay=123.45 note=NULL"],
    ),
    "little-null-absent": (
        replace(little(NULLS), little_null="absent"),
        "00000013 0001 0000 00000064 0000 12345C FFFF",
        ["1 idu=100 pay=123.45 note=NULL"],
    ),
    "little-no-rows": (
        replace(little(BARE), extract="all"),
        "00000006 FFFF",
        ["ignored empty-table"],
    ),
    "little-swapped": (
        little(BARE),
        "12000000 0100 64000000 12345C 0300 414243",
        [f"1 {SAID}"],
    ),
    # table, JNL: LEN CNT N(op) OP (N D)*, CNT = items + 1
    "jnl": (JNL, f"0000001D 0004 0000 0001 {ROW_NULLS} 00", [f"1 {SAID}"]),
    "jnl-little": (little(JNL), f"0000001C 0004 0000 0003 {ROW_NULLS}", ["4 idu=100"]),
    "jnl-though-little": (little(JNL), f"0000001D 0004 0000 0001 {ROW_NULLS} 00", [f"1 {SAID}"]),
    # a full extract of a JNL definition: the table's form, with NULL areas
    "jnl-full": (
        replace(JNL, extract="all", byte_order="big"),
        f"0000 {ROW_NULLS} 00",
        [f"1 {SAID}"],
    ),
    # group: LEN CNT XID [N] OP, CNT = items + 2; commit LEN 10 or 8, CNT 1
    "group": (
        GROUP,
        f"0000001F 0005 0007 0000 0001 {ROW_NULLS} 00  0000000A 0001 0000 8000",
        [f"1 {SAID}", "ignored commit"],
    ),
    "group-bare": (
        GROUP_BARE,
        f"00000017 0005 0007 0002 {ROW} 00  00000008 0001 8000",
        [f"3 {SAID}", "ignored commit"],
    ),
    "group-little": (
        little(GROUP_BARE),
        f"00000016 0005 0007 0003 {ROW}  00000008 0001 8000",
        ["4 idu=100", "ignored commit"],
    ),
    "group-open": (
        GROUP_BARE,
        f"00000008 0001 8000  00000017 0005 0007 0001 {ROW} 00",
        ["ignored commit", f"held 1 {SAID}"],
    ),
    "group-full": (
        replace(GROUP_BARE, extract="all"),
        f"00000017 0005 0000 0000 {ROW} 00",
        [f"1 {SAID}"],
    ),
    "group-no-rows": (
        replace(GROUP, extract="all"),
        "0000000C 0002 0000 0000 FFFF",
        ["ignored empty-table"],
    ),
    "group-no-rows-bare": (
        replace(GROUP_BARE, extract="all"),
        "0000000A 0005 0000 FFFF",
        ["ignored empty-table"],
    ),
    "empty": (BARE, "", []),
    "empty-group": (GROUP, "", []),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layout_is_read(name: str, tmp_path: Path) -> None:
    options, typed, expected = CASES[name]
    records, framed = read(options, bytes.fromhex(typed), tmp_path)
    assert [record_text(record) for record in records] == expected
    assert framed == len(expected)


def test_transactions_are_named_by_their_first_record(tmp_path: Path) -> None:
    data = bytes.fromhex(
        f"00000017 0005 0007 0001 {ROW} 00 00000017 0005 0007 0002 {ROW} 00 00000008 0001 8000"
        f"00000017 0005 0007 0003 {ROW} 00 00000008 0001 8000"
    )
    for wanted in (1, 100):
        records, _ = read(GROUP_BARE, data, tmp_path, wanted)
        changes = [record for record in records if record["key"]]
        assert [change["transaction"] for change in changes] == [
            "usr.dat:0",
            "usr.dat:0",
            "usr.dat:54",
        ]
        assert [change["high"] for change in changes] == [0, 23, 54]


def test_rows_of_full_extracts_are_marked_as_snapshot(tmp_path: Path) -> None:
    options, typed, _ = CASES["group-full"]
    (record,), _ = read(options, bytes.fromhex(typed), tmp_path)
    assert record["transaction"] == "snapshot"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("open", {"nulls": True}, "15 bytes are not a multiple of the record length 21"),
        (
            "open",
            {"byte_order": "little"},
            "at byte 0 .*: OP is 0100, by the settings it is one of",
        ),
        (
            "open-full",
            {"extract": "diff"},
            "at byte 0 .*: OP is 0000, by the settings it is one of",
        ),
        ("jnl", {"difftype": "OPEN"}, "are not a multiple of the record length"),
        ("little", {"tables": (USR,)}, "are not a multiple of the record length"),
    ],
)
def test_a_file_that_cannot_be_is_refused_with_its_field(
    name: str, change: dict, message: str, tmp_path: Path
) -> None:
    options, typed, _ = CASES[name]
    with pytest.raises(FatalError, match=message):
        read(replace(options, **change), bytes.fromhex(typed), tmp_path)


def test_a_byte_order_that_cannot_be_told_is_asked_for(tmp_path: Path) -> None:
    table = replace(USR, items=("idu INTEGER",))
    options = replace(BARE, extract="all", tables=(table,), charset=None)
    with pytest.raises(FatalError, match="set byte_order"):
        read(options, bytes.fromhex("0000 00000001 0000 00000002"), tmp_path)


def test_years_tell_the_byte_order_of_a_full_extract(tmp_path: Path) -> None:
    table = replace(USR, items=("idu INTEGER", "born DATE"))
    options = replace(BARE, extract="all", tables=(table,), charset=None)
    (record,), _ = read(options, bytes.fromhex("0000 01000000 D507 0C1F"), tmp_path)
    assert record_text(record) == "1 idu=1 born=2005-12-31"


def test_several_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, code in (("b.dat", 2), ("a.dat", 1), ("c.dat", 3)):
        (tmp_path / name).write_bytes(bytes.fromhex(f"000{code} {ROW} 00") * 2)
    source = Linkexpress(BARE)
    ranks = []
    for number, split in enumerate(source.splits([tmp_path], 4)):
        for batch in source.read(split, number, Context(0, 1, JobCatalogue(()))):
            rows = [row for row in batch.to_pylist() if row["key"] is not None]
            ranks += [(row["part"], row["high"], row["rank"]) for row in rows]
    assert [rank[:2] for rank in ranks] == [
        (name, at) for name in ("a.dat", "b.dat", "c.dat") for at in (0, 15)
    ]
    assert [rank for *_, rank in ranks] == sorted({rank for *_, rank in ranks})


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "usr.dat").write_bytes(b"")
    with pytest.raises(UsageError, match="same name"):
        Linkexpress(BARE).splits([tmp_path], 1)


def test_a_file_that_grew_since_the_run_began_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "usr.dat"
    path.write_bytes(bytes.fromhex(f"0001 {ROW} 00"))
    source = Linkexpress(BARE)
    (split,) = source.splits([path], 1)
    path.write_bytes(bytes.fromhex(f"0001 {ROW} 00") * 2)
    with pytest.raises(FatalError, match="has changed"):
        list(source.read(split, 0, Context(0, 1, JobCatalogue(()))))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (USR.items[:2], "CNT is 4, by the settings it is 3"),
        (
            ("idu INTEGER", "pay DECIMAL(7,2)", "note VARCHAR(4)"),
            "LEN is 29, by the settings it is 30",
        ),
    ],
)
def test_items_that_do_not_fit_any_record(items: tuple, message: str, tmp_path: Path) -> None:
    options = replace(JNL, tables=(replace(USR, items=items),))
    with pytest.raises(FatalError, match=message):
        read(options, bytes.fromhex(CASES["jnl"][1]) * 3, tmp_path)
