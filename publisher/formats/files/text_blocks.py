"""Reads text files in blocks of UTF-8, whatever their encoding and compression."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from publisher.errors import FatalError, FileRefusedError
from publisher.formats.files.options import SnapshotOptions

BOM = codecs.BOM_UTF8
_FIRST = 64
"""Bytes of a text file that are checked for UTF-16."""
_LEAST_PAIRS = 8
"""Minimum length in characters to detect UTF-16 without a byte order mark; less may be damaged bytes."""
_UNREADABLE = "xds-unreadable"
"""Error handler that keeps what is not text as bytes that are not UTF-8, which reject their record."""


def _keep_bytes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    kept = (
        chr(0xDC00 + (byte if byte > 0x7F else 0xFF))
        for byte in error.object[error.start : error.end]
    )
    return "".join(kept), error.end


codecs.register_error(_UNREADABLE, _keep_bytes)


def is_gzip(path: Path) -> bool:
    """Tests whether the name of a file says that gzip compresses it."""
    return path.suffix.lower() == ".gz"


def text_blocks(
    path: str, options: SnapshotOptions, start: int = 0, stop: int | None = None
) -> Iterator[bytes]:
    """Yields blocks of about ``options.block_size`` bytes, none of them empty, without a byte order mark.

    Bytes that are invalid in the encoding make their block invalid UTF-8; so framing finds the damaged
    records.  ``start`` and ``stop`` are offsets in a file that gzip does not compress.  Raises ``FatalError``
    if the file breaks off, cannot be read, or begins without the byte order mark that its encoding needs.
    """
    raw = _read(Path(path), options.block_size, start, stop)
    if codecs.lookup(options.encoding).name not in ("utf-8", "ascii"):
        raw = _transcode(raw, options.encoding, path)
    is_first = not start
    for block in filter(None, raw):
        yield block.removeprefix(BOM) if is_first else block
        is_first = False


def refuse_cut(path: Path) -> None:
    """Unpacks a file that gzip compresses.  Raises ``FileRefusedError`` if it is truncated or damaged."""
    if is_gzip(path):
        for _ in _read(path, 1 << 22, 0, None):
            pass


def _read(path: Path, size: int, start: int, stop: int | None) -> Iterator[bytes]:
    try:
        with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
            file.seek(start)
            while stop is None or start < stop:
                block = file.read(size if stop is None else min(size, stop - start))
                if not block:
                    return
                start += len(block)
                yield block
    except EOFError:
        raise FileRefusedError(str(path), "the compressed file is cut; export it again") from None
    except (gzip.BadGzipFile, zlib.error) as problem:
        raise FileRefusedError(
            str(path), f"the compressed file is damaged ({problem}); export it again"
        ) from problem


def _transcode(blocks: Iterator[bytes], encoding: str, path: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(_UNREADABLE)
    try:
        for block in blocks:
            yield decoder.decode(block).encode("utf-8", "surrogateescape")
    except UnicodeError as problem:  # no byte order mark
        raise FatalError(
            f"{path}: the text is not {encoding} ({problem}); set the right encoding, for example utf-8, or"
            f" {encoding}-le or {encoding}-be if there is no byte order mark"
        ) from problem
    yield decoder.decode(b"", final=True).encode("utf-8", "surrogateescape")


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
