"""One pair of bytes has two code points: the character code decides.

Bytes A1C1 and 8160 became WAVE DASH or FULLWIDTH TILDE depending on the table, so texts no longer
matched. JIS X 0208 and Microsoft's table differ.
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
charset = "{charset}"
[[sources.tables]]
name = "usr"
key = ["idu"]
items = ["idu INTEGER", "name CHARACTER(8)"]
"""
CASES = [
    ("EUC-JP", bytes.fromhex("a1c1a1dd"), "\u301c\u2212"),
    ("eucJP-ms", bytes.fromhex("a1c1a1dd"), "\uff5e\uff0d"),
    ("CP51932", bytes.fromhex("a1c1a1dd"), "\uff5e\uff0d"),
    ("CP932", bytes.fromhex("8160817c"), "\uff5e\uff0d"),
    ("CP932", bytes.fromhex("5c7e8740eee0"), "\\~①髙"),
]


def write_record(bench: Workbench, charset: str, text: bytes) -> None:
    bench.write("job.toml", JOB.format(charset=charset))
    bench.write("usr.dat", struct.pack(">hi", 1, 7) + text.ljust(8))


@pytest.mark.parametrize(("charset", "data", "text"), CASES)
def test_each_code_has_its_characters(
    bench: Workbench, charset: str, data: bytes, text: str
) -> None:
    write_record(bench, charset, data)
    bench.replay("usr.dat", "-c", "job.toml")
    assert bench.objects() == {"idu=7,table=usr": {"name": (text,)}}


def test_a_character_of_a_vendor_is_rejected_with_item_and_byte(bench: Workbench) -> None:
    write_record(bench, "EUC-JP", bytes.fromhex("ada1"))
    bench.replay("usr.dat", "-c", "job.toml")
    (reject,) = bench.rejects()
    assert reject.reason == "value"
    assert "name" in reject.detail
    assert "ad" in reject.detail.lower()
