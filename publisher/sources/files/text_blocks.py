"""Reads text files in blocks of UTF-8, whatever their encoding and compression."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from publisher.errors import FatalError
from publisher.sources.files.options import SnapshotOptions

BOM = codecs.BOM_UTF8
_GZIP = 31  # zlib: with the header and checksum of gzip
_PACKED_BLOCK = 1 << 14
_FIRST = 64
"""Bytes of a text file that are checked for UTF-16."""
_LEAST_PAIRS = 8
"""Minimum length in characters to detect UTF-16 without a byte order mark; less may be damaged bytes."""


class Tail(NamedTuple):
    """Ends the blocks of a file whose rest cannot be read."""

    reason: str


def text_blocks(
    file: BinaryIO, size: int | None, options: SnapshotOptions, *, begins: bool, packed: bool
) -> Iterator[bytes | Tail]:
    """Yields blocks of about ``options.block_size`` bytes, ``size`` in all (``None``: to the end).

    Bytes that are invalid in the encoding are copied, which makes the block invalid UTF-8; so framing
    finds the damaged records.  ``begins``: a byte order mark at the start is removed.  ``packed``: the
    file is compressed by gzip.
    """
    raw: Iterator[bytes | Tail] = _read_raw(
        file, size, _PACKED_BLOCK if packed else options.block_size
    )
    if packed:
        raw = _unpack(raw, options.block_size)
    if codecs.lookup(options.encoding).name not in ("utf-8", "ascii"):
        raw = _transcode(raw, options.encoding)
    for block in raw:
        if begins and not isinstance(block, Tail):
            begins = False
            yield block.removeprefix(BOM)
        else:
            yield block


def _read_raw(file: BinaryIO, size: int | None, block_size: int) -> Iterator[bytes | Tail]:
    remaining = size
    while remaining is None or remaining > 0:
        try:
            block = file.read(block_size if remaining is None else min(block_size, remaining))
        except OSError as problem:
            yield Tail(f"the file cannot be read from here on ({problem}); read it again")
            return
        if not block:
            return
        if remaining is not None:
            remaining -= len(block)
        yield block


def _unpack(blocks: Iterator[bytes | Tail], block_size: int) -> Iterator[bytes | Tail]:
    """Unpacks gzip member by member; yields all bytes of a truncated file that can be unpacked."""
    member = zlib.decompressobj(_GZIP)
    in_member = False
    for packed in blocks:
        if isinstance(packed, Tail):
            yield packed
            return
        remaining = packed
        while remaining:
            try:
                block = member.decompress(remaining, block_size)
            except zlib.error as problem:
                yield Tail(f"the compressed file is damaged from here ({problem}); export it again")
                return
            in_member = True
            remaining = member.unconsumed_tail
            if member.eof:
                remaining, member, in_member = (
                    member.unused_data.lstrip(b"\0"),
                    zlib.decompressobj(_GZIP),
                    False,
                )
            if block:
                yield block
    if in_member:
        yield Tail("the compressed file is cut here; export it again")


def _transcode(blocks: Iterator[bytes | Tail], encoding: str) -> Iterator[bytes | Tail]:
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
    for block in blocks:
        if isinstance(block, Tail):
            yield block
            return
        try:
            text = decoder.decode(block)
        except UnicodeDecodeError as problem:
            pending = len(problem.object) - len(block)
            yield _escape(decoder.decode(block[: max(0, problem.start - pending)]))
            yield Tail(f"the text is not {encoding} ({problem.reason}); set the right encoding")
            return
        except UnicodeError as problem:  # no byte order mark
            yield Tail(
                f"the text is not {encoding} ({problem}); set the right encoding, for example utf-8, or"
                f" {encoding}-le or {encoding}-be if there is no byte order mark"
            )
            return
        yield _escape(text)
    try:
        yield _escape(decoder.decode(b"", final=True))
    except UnicodeError:
        yield Tail(f"the file ends inside a character of {encoding}; export it again")


def _escape(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def readable(raw: bytes, limit: int = 1 << 20) -> str:
    r"""Shows bytes as text: bytes that are not UTF-8 as ``\xNN``, truncated after ``limit`` bytes."""
    text = raw[:limit].decode("utf-8", "backslashreplace")
    return text if len(raw) <= limit else f"{text}… ({len(raw)} bytes)"


def refuse_utf16(path: Path, options: SnapshotOptions) -> None:
    """Raises ``FatalError`` if a file is UTF-16, but the settings name UTF-8 or ASCII."""
    if codecs.lookup(options.encoding).name not in ("utf-8", "ascii"):
        return
    with Path(path).open("rb") as file:
        first = file.read(_FIRST)
    high, low = first[1::2].count(0), first[::2].count(0)
    pairs = len(first) // 2
    name = None
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "utf-16"
    elif pairs >= _LEAST_PAIRS and high == pairs and not low:
        name = "utf-16-le"
    elif pairs >= _LEAST_PAIRS and low >= pairs and not high:
        name = "utf-16-be"
    if name is not None:
        raise FatalError(f'{path} is text in UTF-16: set encoding = "{name}"')
