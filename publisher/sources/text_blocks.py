"""Bytes of a text file in blocks of UTF-8, whatever its encoding and compression."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol

BOM = codecs.BOM_UTF8


class TextOptions(Protocol):
    """What framing of text must know; see ``SnapshotOptions``."""

    @property
    def encoding(self) -> str: ...
    @property
    def block_size(self) -> int: ...
    @property
    def max_record(self) -> int: ...


class Tail(NamedTuple):
    """Instead of a block: the rest of the file cannot be read."""

    reason: str


def text_blocks(
    file: BinaryIO, size: int | None, options: TextOptions, *, begins: bool
) -> Iterator[bytes | Tail]:
    """Blocks of about ``options.block_size`` bytes, ``size`` in all (``None``: to the end).

    Bytes that are wrong in the encoding stay as they are, which is wrong UTF-8: framing finds the
    records concerned.  ``begins``: a byte order mark may be at the start; it is no part of the text.
    """
    raw = _raw(file, size, options.block_size)
    if codecs.lookup(options.encoding).name not in ("utf-8", "ascii"):
        raw = _transcode(raw, options.encoding)
    for block in raw:
        if begins and not isinstance(block, Tail):
            block = block.removeprefix(BOM)
            begins = False
        if block:
            yield block


def _raw(file: BinaryIO, size: int | None, block_size: int) -> Iterator[bytes | Tail]:
    left = size
    while left is None or left > 0:
        try:
            block = file.read(block_size if left is None else min(block_size, left))
        except (EOFError, OSError, zlib.error) as problem:
            yield Tail(f"the file cannot be read on from here ({problem}): it is cut or damaged; export it again")
            return
        if not block:
            return
        if left is not None:
            left -= len(block)
        yield block


def _transcode(blocks: Iterator[bytes | Tail], encoding: str) -> Iterator[bytes | Tail]:
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
    for block in blocks:
        if isinstance(block, Tail):
            yield block
            return
        try:
            text = decoder.decode(block)
        except UnicodeDecodeError as problem:
            yield Tail(f"the text is not {encoding} ({problem.reason}); set the right encoding")
            return
        yield text.encode("utf-8", "surrogateescape")
    try:
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogateescape")
    except UnicodeDecodeError:
        yield Tail(f"the file ends inside a character of {encoding}; export it again")


def readable(raw: bytes, limit: int = 1 << 20) -> str:
    """Bytes as text for people: what is no UTF-8 as ``\\xNN``, cut after ``limit`` bytes."""
    text = raw[:limit].decode("utf-8", "backslashreplace")
    return text if len(raw) <= limit else f"{text}… ({len(raw)} bytes)"
