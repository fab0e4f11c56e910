"""Finds the documents in a file: one document, or one on each line.

Lines end at LF only.  These tests distinguish the two kinds of files, in this order:

1. The first line that is not blank is a complete XML document: one document on each line.
2. The file is well-formed as a whole: one document.
3. Otherwise the file is broken.  It has one document on each line if two of the first lines begin with
   ``<nds`` or one of them is a complete document, else one document.

A first line that begins with a brace is a document in JSON: one on each line.

Compressed files are recognised by their first bytes, not by their name.  Files with a document on each line
are read line by line, so memory depends on the longest line and not on the file.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from lxml import etree

from publisher.xds.json_form import is_json

BROKEN_FILE = (OSError, EOFError, zlib.error)
"""Exceptions of reading unreadable files, and compressed files that are truncated or damaged."""

LARGEST = 256 * 1024 * 1024
"""Maximum bytes of a document; a larger one is a finding."""

MAX_TAGS = 250_000
"""Maximum tags of a document, because a tag needs many times its bytes in the tree."""

PARSER = etree.XMLParser(
    encoding="utf-8", resolve_entities=False, load_dtd=False, no_network=True, huge_tree=True
)
"""A parser that expands no entity and fetches nothing.

``huge_tree`` permits values above 10 MB, which are a finding of their own; it also lifts the limit on
entities in attributes, which ``refusal`` excludes."""

_LONGEST_TAG = 11 * 1024 * 1024
"""Maximum bytes without the end of a tag: the parser limits text to 10 MB, but not attributes."""
_GZIP = b"\x1f\x8b"
_BUFFER = 1024 * 1024
_SAMPLE_LINES = 1000
_START = re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*\?>\s*)?<nds[\s/>]")
_PROLOG = re.compile(rb"\s+|<\?.*?\?>|<!--.*?-->", re.DOTALL)
_ENCODING = re.compile(rb"<\?xml\s[^>]*?encoding\s*=\s*[\"']([^\"'>]*)")
_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\0")


class Framed(NamedTuple):
    """A document as bytes, or the problem in its place.

    ``number`` counts the documents of the file, ``line`` is its first line; both from 1.  In a file with
    a document on each line, an empty line counts as one.
    """

    number: int
    line: int
    data: bytes
    problem: str | None = None


def documents(path: Path) -> Iterator[Framed]:
    """Reads the documents of a file in order.

    Raises one of ``BROKEN_FILE``.
    """
    if path.is_fifo() or path.is_char_device():
        yield Framed(1, 1, b"", "is a pipe, which cannot be read twice: save it to a file first")
        return
    one_per_line = _is_one_per_line(path)
    with open_plain(path) as file:
        yield from (_lines(file) if one_per_line else _whole(file))


def refusal(data: bytes) -> str | None:
    """Returns the reason why a document must not be parsed; ``None`` if it may be parsed.

    The number of tags is limited, because a small compressed file may contain a document whose tree needs
    many times its size.  XDS has no document type: a DOCTYPE is refused before its entities can take
    effect.
    """
    if _has_too_many_tags(data):
        return f"the document has more than {MAX_TAGS:,} tags: it is not checked; divide it"
    if data.startswith((b"<nds", b"{")):
        return None
    if data.startswith(_WIDE_BOMS):
        return "not UTF-8 text: convert the file to UTF-8"
    position = len(_BOM) if data.startswith(_BOM) else 0
    encoding = _ENCODING.match(data, position)
    if encoding and encoding[1].lower() not in (b"utf-8", b"utf8", b"us-ascii"):
        name = encoding[1].decode("ascii", "replace")
        return f"declares the encoding {name}: convert the document to UTF-8"
    while prolog := _PROLOG.match(data, position):
        position = prolog.end()
    if data.startswith(b"<!DOCTYPE", position):
        return "has a DOCTYPE, which XDS does not: remove it (entities are never expanded)"
    return None


def _has_too_many_tags(data: bytes) -> bool:
    if is_json(data):  # each element is an object, and has few members
        return data.count(b"{") > MAX_TAGS or data.count(b",") > 4 * MAX_TAGS
    attributes = data.count(b'="') + data.count(b"='")
    return data.count(b"<") > MAX_TAGS or attributes > 2 * MAX_TAGS


def open_plain(path: Path) -> BinaryIO:
    """Opens a file, uncompressed if necessary."""
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
    if packed:
        return cast(BinaryIO, gzip.GzipFile(path))
    return path.open("rb", _BUFFER)


def _whole(file: BinaryIO) -> Iterator[Framed]:
    data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        yield Framed(1, 1, b"", _too_large())
    elif data.strip():
        yield Framed(1, 1, data)
    elif data:
        yield Framed(1, 1, b"", "the file is blank: it contains no document")
    # an empty file is the part file of a lane without documents


def _lines(file: BinaryIO) -> Iterator[Framed]:
    number = 0
    while data := file.readline(LARGEST + 1):
        number += 1
        if len(data) > LARGEST:
            yield Framed(number, number, b"", _too_large())
            _skip_line(file, data)
        elif data.isspace():
            yield Framed(number, number, b"", "the line is empty: each line is one document")
        else:
            yield Framed(number, number, data.removesuffix(b"\n"))


def _skip_line(file: BinaryIO, data: bytes) -> None:
    while data and not data.endswith(b"\n"):
        data = file.readline(_BUFFER)


def _too_large() -> str:
    return f"the document is larger than {LARGEST // 2**20} MiB: it is not checked; divide it"


def _is_one_per_line(path: Path) -> bool:
    with open_plain(path) as file:
        filled = (line for line in _limited_lines(file) if not line.isspace())
        first = next(filled, b"")
        second = next(filled, b"")
        if is_json(first):
            return True
        # a comment or an instruction may follow the only document of a file
        if _is_complete(first) and not second.startswith((b"<!", b"<?")):
            return True
        if not first or _is_complete_file(path):
            return False
        return _looks_like_lines(chain((first, second), filled))


def _looks_like_lines(sample: Iterator[bytes]) -> bool:
    starts = 0
    for line in sample:
        if _START.match(line):
            starts += 1
            if starts > 1 or _is_complete(line):
                return True
    return False


def _limited_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields the complete first line, and the beginnings of further lines of a readable file."""
    # broken files are reported when their documents are read
    with suppress(*BROKEN_FILE):
        yield file.readline(LARGEST)
        for _ in range(_SAMPLE_LINES):
            line = file.readline(_BUFFER)
            if not line:
                return
            yield line


def _is_complete(data: bytes) -> bool:
    if refusal(data) is not None:
        return False
    try:
        etree.fromstring(data, PARSER)
    except etree.XMLSyntaxError:
        return False
    return True


class _NoTree:
    """A parser target that builds no tree; a document type stops the parser."""

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise ValueError

    def close(self) -> None:
        """Returns no tree."""


def _is_complete_file(path: Path) -> bool:
    """Returns whether the file as a whole is well-formed.

    Reads up to the first fault; memory does not grow with the file."""
    target: Any = _NoTree()
    parser = etree.XMLParser(encoding="utf-8", target=target, resolve_entities=False)
    with open_plain(path) as file:
        chunk = file.read(64 * 1024)
        if refusal(chunk) is not None:
            return False
        try:
            size = open_tag = 0
            while chunk:
                size += len(chunk)
                end = chunk.rfind(b">")
                open_tag = open_tag + len(chunk) if end < 0 else len(chunk) - end
                # documents beyond the limits are not checked
                if size > LARGEST or open_tag > _LONGEST_TAG:
                    return False
                parser.feed(chunk)
                chunk = file.read(_BUFFER)
            parser.close()
        except (etree.XMLSyntaxError, ValueError, *BROKEN_FILE):
            return False
    return True
