"""The description of a form of input: how to write it, and how far damage may reach.

The rules, by ``Framing``:

``LINES``
    Each line end ends a record, whatever stands there.  A line that was not touched gives what it gave,
    unless what is before it has lost its line end.
``QUOTED``
    The same, but quotes may hold line ends: where damage took or made a quote, a delimiter or a line
    end, or moved one, only the records before it are claimed.
``STRIDE``
    Records of one size.  Those that were not touched and still lie at a multiple of it are claimed,
    before the damage and behind it.  A file of another size is refused.
``LENGTHS``
    Each record says how long it is.  A file is refused, or all records that were not touched are claimed.
``ROWS``
    A container of rows, damaged row by row before it is packed: all other rows are claimed.

Where the container itself is damaged nothing is claimed but that all which is read is counted.

Records that mean something together share a *claim*: the rows of a transaction, an UPDATE and its before
image, two records of one id.  What damaged bytes may claim is no more claimed by the run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

Claim = tuple[Any, ...]
Content = dict[str, Any]


class Framing(Enum):
    """The framing of records: see the module."""

    LINES = "lines"
    QUOTED = "quoted"
    STRIDE = "stride"
    LENGTHS = "lengths"
    ROWS = "rows"


class Piece(NamedTuple):
    """One record as it was written."""

    data: bytes
    claims: frozenset[Claim] = frozenset()
    words: tuple[tuple[int, int], ...] = ()
    """Offset and size of the numbers in it that lead a reader: lengths, counts, codes."""
    transaction: int = -1
    """Number of the transaction whose records, the mark too, follow each other; -1: it has none."""


class MadeFile(NamedTuple):
    """A valid file."""

    head: bytes
    """What stands before the first record."""
    pieces: list[Piece]


class Read(NamedTuple):
    """The records of a file."""

    rows: list[Content]
    """All that came out but the tallies, with the columns of the schema."""
    framed: int
    """Sum of the tallies; of forms without any the number of rows."""


class Reader(Protocol):
    """Reads a file as the program does, in this process."""

    def __call__(self, path: Path, wanted: int) -> Read: ...


def no_claims(data: bytes) -> Iterable[Claim]:
    """Of forms whose records mean something by themselves."""
    return ()


@dataclass(frozen=True)
class Form:
    """A form of input."""

    name: str
    format: str
    file: str
    """Name of the file; what it ends with tells the kind."""
    read: Reader
    make: Callable[[random.Random, int], MadeFile]
    framing: Framing
    stride: int = 0
    claimed: Callable[[bytes], Iterable[Claim]] = no_claims
    """What damaged bytes may claim."""
    pack: Callable[[bytes], bytes] | None = None
    """Makes a container of the text; of ``ROWS``, of JSON lines."""
    address: Literal["line", "number", "offset", "key"] = "line"
    """What ``row`` of a record is; with ``key`` it is its object that tells which it is."""
    loose: Callable[[Content], Content] | None = None
    """What a record says whatever becomes of the others of its transaction."""
    unseen: frozenset[str] = frozenset()
    """Columns that go by the place of a record in other ways."""
    check: Callable[[Read], None] | None = None
    """What must hold of all that is read, in place of what holds of every source."""
