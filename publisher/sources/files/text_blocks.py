"""Bytes of a text file in blocks of UTF-8, whatever its encoding and compression."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from publisher.sources.files.options import SnapshotOptions

BOM = codecs.BOM_UTF8
_GZIP = 31  # zlib: with the header and checksum of gzip
_PACKED_BLOCK = 1 << 14


class Tail(NamedTuple):
    """Instead of a block: the rest of the file cannot be read."""

    reason: str


def text_blocks(
    file: BinaryIO, size: int | None, options: SnapshotOptions, *, begins: bool, packed: bool
) -> Iterator[bytes | Tail]:
    """Blocks of about ``options.block_size`` bytes, ``size`` in all (``None``: to the end).

    Bytes that are wrong in the encoding stay as they are, which is wrong UTF-8: framing finds the
    records concerned.  ``begins``: a byte order mark may be at the start; it is no part of the text.
    ``packed``: the file is compressed by gzip.
    """
    raw: Iterator[bytes | Tail] = _raw(file, size, _PACKED_BLOCK if packed else options.block_size)
    if packed:
        raw = _unpacked(raw, options.block_size)
    if codecs.lookup(options.encoding).name not in ("utf-8", "ascii"):
        raw = _transcode(raw, options.encoding)
    for block in raw:
        if begins and not isinstance(block, Tail):
            begins = False
            yield block.removeprefix(BOM)
        else:
            yield block


def _raw(file: BinaryIO, size: int | None, block_size: int) -> Iterator[bytes | Tail]:
    left = size
    while left is None or left > 0:
        try:
            block = file.read(block_size if left is None else min(block_size, left))
        except OSError as problem:
            yield Tail(f"the file cannot be read on from here ({problem}); read it again")
            return
        if not block:
            return
        if left is not None:
            left -= len(block)
        yield block


def _unpacked(blocks: Iterator[bytes | Tail], block_size: int) -> Iterator[bytes | Tail]:
    """What gzip packed, member by member, up to the very place where a file is cut."""
    member = zlib.decompressobj(_GZIP)
    begun = False
    for packed in blocks:
        if isinstance(packed, Tail):
            yield packed
            return
        rest = packed
        while rest:
            try:
                block = member.decompress(rest, block_size)
            except zlib.error as problem:
                yield Tail(f"the compressed file is damaged from here ({problem}); export it again")
                return
            begun = True
            rest = member.unconsumed_tail
            if member.eof:
                rest, member, begun = (
                    member.unused_data.lstrip(b"\0"),
                    zlib.decompressobj(_GZIP),
                    False,
                )
            if block:
                yield block
    if begun:
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
            yield _escaped(decoder.decode(block[: max(0, problem.start - pending)]))
            yield Tail(f"the text is not {encoding} ({problem.reason}); set the right encoding")
            return
        except UnicodeError as problem:  # no byte order mark
            yield Tail(
                f"the text is not {encoding} ({problem}); set the right encoding, as utf-8, or"
                f" {encoding}-le or {encoding}-be where there is no byte order mark"
            )
            return
        yield _escaped(text)
    try:
        yield _escaped(decoder.decode(b"", final=True))
    except UnicodeError:
        yield Tail(f"the file ends inside a character of {encoding}; export it again")


def _escaped(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def readable(raw: bytes, limit: int = 1 << 20) -> str:
    r"""Bytes as text for people: what is no UTF-8 as ``\xNN``, cut after ``limit`` bytes."""
    text = raw[:limit].decode("utf-8", "backslashreplace")
    return text if len(raw) <= limit else f"{text}… ({len(raw)} bytes)"
