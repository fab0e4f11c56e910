"""Unique values for tests that search everything a program has written for them.

The search knows texts, gzip, Parquet and Arrow files, ledgers, and everything in them that is hex or Base64.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.ledger.storage import LEDGER
from publisher.ledger.tables import TABLES, unpack

# each begins with fixed letters, for which expressions search quickly
_TEXT = re.compile(rb"pv[a-z]{10}")
_NUMBER = re.compile(rb"77(?<![0-9a-fA-F]77)[0-9]{7}(?![0-9a-fA-F])")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{12,}")
_HEX = re.compile(rb"[0-9a-fA-F]{24,}")
_DEPTH = 2
"""Number of encodings inside each other that the search decodes."""


class PlantedValues:
    """Creates unique texts and numbers, and finds them."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)
        self.tokens: set[bytes] = set()

    def text(self) -> str:
        """A new text of 12 letters."""
        return self._new("pv" + "".join(self._random.choices("abcdefghijklmnopqrstuvwxyz", k=10)))

    def number(self) -> str:
        """A new number of 9 digits."""
        while (number := f"77{self._random.randrange(10**7):07d}").encode() in self.tokens:
            pass
        return self._new(number)

    def _new(self, token: str) -> str:
        self.tokens.add(token.encode())
        return token

    def find_in(self, *texts: str) -> set[bytes]:
        """The planted values in texts."""
        return self._find([text.encode() for text in texts])

    def find_below(self, folder: Path) -> set[bytes]:
        """The planted values in the names and contents of all files of a folder."""
        found: set[bytes] = set()
        for path in folder.rglob("*"):
            found |= self._find([str(path.relative_to(folder)).encode()])
            if path.is_file():
                found |= self._find(_contents(path.read_bytes()))
            if path.name == LEDGER:
                found |= self._find(_rows(path))
        return found

    def _find(self, contents: Iterable[bytes], depth: int = _DEPTH) -> set[bytes]:
        found: set[bytes] = set()
        for content in contents:
            tokens = _TEXT.findall(content) + _NUMBER.findall(content)
            found |= self.tokens.intersection(tokens)
            if depth:
                found |= self._find(set(_decoded(content)), depth - 1)
        return found


def _contents(octets: bytes) -> Iterator[bytes]:
    """The content of a file, and what its format packs."""
    yield octets
    if octets[:2] == b"\x1f\x8b":
        yield gzip.decompress(octets)
    table: pa.Table | None = None
    if octets[:4] == b"PAR1":
        table = pq.read_table(io.BytesIO(octets))
    elif octets[:6] == b"ARROW1":
        table = pa.ipc.open_file(pa.py_buffer(octets)).read_all()
    if table is not None:
        yield repr(table.to_pylist()).encode(errors="surrogatepass")
        yield repr(table.schema.metadata).encode()


def _rows(ledger: Path) -> Iterator[bytes]:
    """The rows of all tables of a ledger, unpacked."""
    with closing(sqlite3.connect(ledger)) as connection:
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        for (name,) in names.fetchall():
            yield repr(connection.execute(f"SELECT * FROM {name}").fetchall()).encode()
        for stored, *packed in connection.execute(
            "SELECT manifest, records, documents, lookups FROM run"
        ):
            yield zlib.decompress(stored)
            for table, content in zip(TABLES, packed, strict=True):
                rows = unpack(table, content or None, ledger.name).to_pylist()
                yield repr(rows).encode(errors="surrogatepass")


def _decoded(content: bytes) -> Iterator[bytes]:
    for match in _BASE64.finditer(content):
        for start in range(4):
            text = match[0][start:]
            text = text[:-1] if len(text) % 4 == 1 else text
            yield base64.b64decode(text + b"=" * (-len(text) % 4))
    for match in _HEX.finditer(content):
        for start in range(2):
            text = match[0][start:]
            yield binascii.unhexlify(text[: len(text) // 2 * 2])
