"""Sign nibbles and letters of decimals are signs, never digits.

Wrong sign nibbles or letters were read as digits, blanks became large numbers, and a valid ``{`` became
NULL.
"""

from __future__ import annotations

import struct

import pytest

from tests.support.workbench import Workbench

JOB = """
[[sources]]
format = "linkexpress"
snapshots = ["in"]
unit = "table"
extract = "diff"
difftype = "OPEN"
nulls = false
byte_order = "big"
charset = "CP932"
numeric_sign = "{sign}"
[[sources.tables]]
name = "usr"
key = ["idu"]
items = ["idu INTEGER", "pay {type}"]
"""
PACKED: dict[str, str | None] = {
    **dict.fromkeys(("12345a", "12345c", "12345e", "12345f"), "123.45"),
    **dict.fromkeys(("12345b", "12345d"), "-123.45"),
    "00000d": "0.00",
    **dict.fromkeys(("123455", "1a345c", "202020"), None),
}
ZONED: dict[str, dict[bytes, str | None]] = {
    "leading": {b"+12345": "123.45", b"-12345": "-123.45", b" 12345": None, b"      ": None},
    "trailing": {b"12345+": "123.45", b"12345-": "-123.45"},
    "overpunched": {b"1234E": "123.45", b"1234N": "-123.45", b"0000{": "0.00", b"0000}": "0.00"},
}


def published(
    bench: Workbench, kind: str, values: list[bytes], sign: str = "leading"
) -> list[str | None]:
    bench.write("job.toml", JOB.format(type=kind, sign=sign))
    records = (struct.pack(">hi", 1, n) + value for n, value in enumerate(values))
    bench.write("usr.dat", b"".join(records))
    bench.replay("usr.dat", "-c", "job.toml")
    assert {reject.reason for reject in bench.rejects()} <= {"value"}
    assert all("pay" in reject.detail for reject in bench.rejects())
    found = bench.objects()
    return [found.get(f"idu={n},table=usr", {}).get("pay", (None,))[0] for n in range(len(values))]


def test_packed_decimals(bench: Workbench) -> None:
    found = published(bench, "DECIMAL(5,2)", [bytes.fromhex(text) for text in PACKED])
    assert dict(zip(PACKED, found, strict=True)) == PACKED


def test_a_first_nibble_that_no_digit_needs_is_zero(bench: Workbench) -> None:
    values = [bytes.fromhex("12345c"), bytes.fromhex("02345c")]
    assert published(bench, "DECIMAL(4,2)", values) == [None, "23.45"]


@pytest.mark.parametrize("sign", ZONED)
def test_zoned_numbers(bench: Workbench, sign: str) -> None:
    found = published(bench, "NUMERIC(5,2)", list(ZONED[sign]), sign)
    assert dict(zip(ZONED[sign], found, strict=True)) == ZONED[sign]
