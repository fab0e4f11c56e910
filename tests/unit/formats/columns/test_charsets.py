"""Names of character codes, and the two codes of EUC-JP with the characters of vendors."""

from __future__ import annotations

import codecs
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.formats.columns.charsets import find_codec
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.linkexpress.options import codec_of
from publisher.formats.table_queue.code_pages import code_page_of
from tests.support.dispatch_queue_files import OPTIONS as QUEUE
from tests.support.linkexpress_files import JNL, jack, read, record

TWO = [bytes([lead, trail]) for lead in range(0xA1, 0xFF) for trail in range(0xA1, 0xFF)]
THREE = [b"\x8f" + pair for pair in TWO]
NO_CHARSETS = [
    *("rot13", "hex", "base64", "uu", "quopri", "zip", "bz2"),
    *("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"),
    *("", "nope", "a\0b", "x" * 100_000),
]


def text_of(data: bytes, charset: str) -> str:
    """The text, nothing where the bytes are none."""
    try:
        return data.decode(find_codec(charset))
    except UnicodeDecodeError:
        return ""


@pytest.mark.parametrize(
    ("hex_", "plain", "ms", "cp51932"),
    [
        ("ada1", "", "①", "①"),
        ("ade4", "", "℡", "℡"),
        ("fce2", "", "\ue2d3", "髙"),
        ("8ff4d4", "", "礰", ""),
        ("8ff4fb", "", "髙", ""),
        ("8ff3f3", "", "ⅰ", ""),
        ("8ff4fe", "", "黑", ""),
        ("f5a1", "", "\ue000", ""),
        ("8ffefe", "", "\ue757", ""),
        ("f9a1", "", "\ue178", "纊"),
        ("8fb0a1", "丂", "丂", ""),
        ("8fa2b7", "~", "\uff5e", ""),
        ("8fa2c3", "¦", "￤", ""),
        ("a1c1", "\u301c", "\uff5e", "\uff5e"),
        ("a1dd", "\u2212", "\uff0d", "\uff0d"),
        ("a1f1", "¢", "￠", "￠"),
        ("c6fccbdc", "日本", "日本", "日本"),
        ("8eb1", "ｱ", "ｱ", "ｱ"),
        ("41ada142", "", "A①B", "A①B"),
    ],
)
def test_characters_of_vendors(hex_: str, plain: str, ms: str, cp51932: str) -> None:
    data = bytes.fromhex(hex_)
    found = [text_of(data, charset) for charset in ("EUC-JP", "eucJP-ms", "CP51932")]
    assert found == [plain, ms, cp51932]


def test_eucjp_ms_is_that_of_the_c_library() -> None:
    """Every pair and every triple, as glibc reads it."""
    tool = shutil.which("iconv")
    if (
        tool is None
        or b"EUC-JP-MS" not in subprocess.run([tool, "-l"], check=True, capture_output=True).stdout
    ):
        pytest.skip("iconv does not know EUC-JP-MS here")
    every = TWO + THREE
    lines = b"".join(each + b"\n" for each in every)
    command = [tool, "-c", "-f", "EUC-JP-MS", "-t", "UTF-8"]
    # what it leaves out makes it end with 1
    run = subprocess.run(command, check=False, input=lines, capture_output=True)
    assert run.stdout.decode().split("\n")[:-1] == [text_of(each, "eucJP-ms") for each in every]


def test_cp51932_is_code_page_932_in_euc() -> None:
    """All rows that EUC has room for, each at its place in Shift-JIS; nothing else."""
    codes = [*range(0x81, 0xA0), *range(0xE0, 0xF0)]
    trails = [*range(0x40, 0x7F), *range(0x80, 0xFD)]
    shifted = [bytes([lead, trail]) for lead in codes for trail in trails]
    assert len(shifted) == len(TWO)
    assert [text_of(each, "CP51932") for each in TWO] == [
        text_of(each, "cp932") for each in shifted
    ]
    assert not any(text_of(each, "CP51932") for each in THREE)


@pytest.mark.parametrize("charset", ["eucJP-ms", "CP51932"])
def test_a_text_may_come_in_pieces(charset: str) -> None:
    data = bytes.fromhex("41ada1c6fc8eb10a42fce2ff8fb0a1ada1") + b"\x8f"
    whole = data.decode(find_codec(charset), "surrogateescape")
    assert whole.encode("utf-8", "surrogateescape").endswith(b"\x8f")
    for size in range(1, len(data)):
        decoder = codecs.getincrementaldecoder(find_codec(charset))("surrogateescape")
        pieces = [decoder.decode(data[at : at + size]) for at in range(0, len(data), size)]
        assert "".join(pieces) + decoder.decode(b"", final=True) == whole


@pytest.mark.parametrize("charset", NO_CHARSETS)
def test_what_is_no_character_code_is_refused(charset: str) -> None:
    with pytest.raises(LookupError):
        find_codec(charset)
    if charset:
        with pytest.raises(ValueError, match="no codec is known"):
            codec_of(charset)
        with pytest.raises(ValueError, match="charset"):
            replace(JNL, charset=charset)
        with pytest.raises(ValueError, match="image_charset"):
            replace(QUEUE, image_charset=charset)
    with pytest.raises(ValueError, match="encoding"):
        SnapshotOptions(encoding=charset)
    with pytest.raises(ValueError, match="code page"):
        code_page_of(charset, "little")


def test_names_of_people_are_published(tmp_path: Path) -> None:
    """In one record alone and among many others."""
    for charset, raw, name in (
        ("eucJP-ms", bytes.fromhex("8ff4fb b6b6 ada1 20"), "髙橋①"),
        ("CP51932", bytes.fromhex("fce2 b6b6 ada1 2020"), "髙橋①"),
    ):
        options = replace(JNL, charset=charset)
        for count in (1, 50):
            data = record(options, *jack(1, 1, raw)) * count
            records, _ = read(options, data, tmp_path)
            assert [each["new"][0] for each in records] == [name] * count
    options = replace(JNL, charset="EUC-JP")
    (found,) = read(options, record(options, *jack(1, 1, raw)), tmp_path)[0]
    assert found["reason"] == "value"
    assert '"eucJP-ms" or "CP51932"' in found["detail"]
