"""Sizes of the pages of a Parquet file, read from its footer and page headers before unpacking.

A few bytes of Parquet may unpack to gigabytes: a page that compresses well, a long value in a
dictionary that each row names, column chunks that share their bytes.  These sizes show which files
to refuse, and how many rows may be unpacked at once.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.sources.files.thrift_compact import ThriftError, read_struct

_FREE_BYTES = 256 << 20
"""Bytes that every file may unpack to, however small it is."""
_MOST_PER_PAGE = 50
_MOST_PER_GROUP = 1_000
"""Maximum ratios of unpacked to stored bytes, of pages and row groups that exceed the free bytes."""
_ROW = 16
"""Minimum bytes that a row counts as: a row of NULLs takes none in the file."""
_DELTA_BYTE_ARRAY = 7
_DICTIONARY_CODES = (2, 8)
"""Encodings of pages whose values are entries of the dictionary."""
_BYTE_ARRAY = 6
_DELTA_ROWS = 16
"""Maximum number of values assumed in a page with shared prefixes, because a few may be very long."""
_MAGIC = b"PAR1"
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
# numbers of fields in parquet.thrift
_FOOTER_GROUPS, _GROUP_COLUMNS, _GROUP_ROWS, _CHUNK_META = 4, 1, 3, 3
_TYPE, _PATH, _VALUES, _STORED, _DATA_AT, _DICTIONARY_AT = 1, 3, 5, 7, 9, 11
_PAGE_TYPE, _PAGE_SIZE, _PAGE_STORED = 1, 2, 3
_PAGE_HEADERS = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}
_ENCODING = {_DATA_PAGE: 2, _DATA_PAGE_V2: 4}


@dataclass(frozen=True, slots=True)
class PageSizes:
    """The pages of one column of a row group."""

    name: str
    is_text: bool
    """Whether the column has texts or bytes and is not nested, so that it can be read as a dictionary."""
    stored: int
    """Bytes in the file."""
    dictionary: int
    """Bytes of the dictionary page; 0 if there is none."""
    entries: int
    """Number of entries of the dictionary."""
    is_mixed: bool
    """Whether some pages have the values themselves, because the dictionary was full."""
    largest: int
    """Bytes of the largest data page."""
    unpacked: int
    """Bytes of all data pages."""
    density: float
    """Mean bytes of a value, in the page with the largest values."""

    @property
    def entry(self) -> int:
        """Mean size of an entry of the dictionary."""
        return self.dictionary // max(1, self.entries)

    @property
    def value_bytes(self) -> float:
        """Expected bytes of one value that is not read as an entry of a dictionary."""
        if not self.dictionary:
            return self.density
        return max(self.density, self.entry if self.entry and not self.is_text else 0)


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """The columns of a row group that are read."""

    columns: tuple[PageSizes, ...]
    rows: int
    allowed: int
    """Maximum bytes of all its rows."""

    @property
    def row_bytes(self) -> int:
        """Expected bytes of one row, without dictionaries."""
        return int(sum(column.value_bytes for column in self.columns))


def group_sizes(
    path: str, names: Collection[str], groups: range | None = None
) -> dict[int, GroupSizes]:
    """Reads the sizes of some row groups of a file, by default of all, for the columns ``names``.

    Raises:
        FatalError: The file is damaged, or would unpack to far more than its size warrants.
    """
    with (
        Path(path).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        try:
            sizes = dict(_groups(data, names, groups))
        except (ThriftError, LookupError, AttributeError, TypeError) as error:
            reason = str(error) if isinstance(error, ThriftError) else "fields are missing"
            raise FatalError(
                f"{path} is not a Parquet file, or cut or damaged ({reason}); export it again"
            ) from None
    for number, group in sizes.items():
        problem = _problem(group)
        if problem is not None:
            raise FatalError(f"{path}: its row group {number + 1} {problem}")
    return sizes


def _problem(group: GroupSizes) -> str | None:
    """Returns the reason to refuse a row group, if there is one."""
    advice = "; export it again, with smaller pages or as CSV"
    stored = sum(column.stored for column in group.columns)
    at_once = sum(column.dictionary + column.largest for column in group.columns)
    if at_once > max(_FREE_BYTES, _MOST_PER_PAGE * stored):
        return f"has pages of {at_once:,} bytes in {stored:,} bytes of the file{advice}"
    unpacked = sum(column.unpacked for column in group.columns)
    if unpacked > group.allowed:
        return f"unpacks to {unpacked:,} bytes from {stored:,} bytes of the file{advice}"
    if group.rows * _ROW > group.allowed:
        return f"has {group.rows:,} rows in {stored:,} bytes of the file{advice}"
    return None


def _groups(
    data: mmap.mmap, names: Collection[str], wanted: range | None
) -> Iterator[tuple[int, GroupSizes]]:
    size = len(data)
    if size < 12 or data[-4:] != _MAGIC:
        raise ThriftError("no footer")
    (length,) = struct.unpack("<I", data[-8:-4])
    if length > size - 8:
        raise ThriftError("the footer is longer than the file")
    footer, _ = read_struct(data, size - 8 - length, size - 8)
    remaining = size
    for number, group in enumerate(footer[_FOOTER_GROUPS]):
        metas = [chunk[_CHUNK_META] for chunk in group[_GROUP_COLUMNS]]
        stored = sum(max(0, meta[_STORED]) for meta in metas)
        remaining -= stored
        if remaining < 0:
            raise ThriftError("its column chunks are larger than the file")
        if wanted is not None and number not in wanted:
            continue
        columns = tuple(
            _pages(data, meta) for meta in metas if meta[_PATH][0].decode(errors="replace") in names
        )
        allowed = int(stored * max(_MOST_PER_GROUP, _FREE_BYTES / size))
        # otherwise all pages of the file with a header would stay in memory
        data.madvise(mmap.MADV_DONTNEED)
        yield number, GroupSizes(columns, group[_GROUP_ROWS], allowed)


def _pages(data: mmap.mmap, meta: dict[int, Any]) -> PageSizes:
    """Reads the pages of a column chunk, header by header."""
    at = min(meta[_DATA_AT], meta.get(_DICTIONARY_AT) or meta[_DATA_AT])
    end = at + meta[_STORED]
    if at < 0 or end > len(data):
        raise ThriftError("a column chunk lies outside the file")
    values = dictionary = entries = largest = unpacked = 0
    density, is_mixed = 0.0, False
    while at < end and values < meta[_VALUES]:
        header, at = read_struct(data, at, end)
        size, kind = header[_PAGE_SIZE], header[_PAGE_TYPE]
        if size < 0 or not 0 <= header[_PAGE_STORED] <= end - at:
            raise ThriftError("a page lies outside its column")
        at += header[_PAGE_STORED]
        page_header = header.get(_PAGE_HEADERS.get(kind, 0), {})
        if kind == _DICTIONARY_PAGE:
            dictionary, entries = size, page_header[1]
        elif kind in _ENCODING:
            values += max(0, page_header[1])
            largest, unpacked = max(largest, size), unpacked + size
            mean_bytes = size / max(1, page_header[1])
            encoding = page_header[_ENCODING[kind]]
            is_mixed |= encoding not in _DICTIONARY_CODES
            if encoding == _DELTA_BYTE_ARRAY:
                mean_bytes = max(mean_bytes, size / _DELTA_ROWS)
            density = max(density, mean_bytes)
    return PageSizes(
        name=meta[_PATH][0].decode(errors="replace"),
        is_text=meta[_TYPE] == _BYTE_ARRAY and len(meta[_PATH]) == 1,
        stored=meta[_STORED],
        dictionary=dictionary,
        entries=entries,
        is_mixed=is_mixed,
        largest=largest,
        unpacked=unpacked,
        density=density,
    )
