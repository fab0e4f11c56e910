"""Finds the files of a snapshot, cuts them into splits and reads the records of a split.

Text (CSV, JSON lines) is cut at LF only.  The driver counts the lines before each split once: the
number of a record is its line in the whole file, wherever the file is cut.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, TypeVar

from publisher.errors import FatalError, UsageError
from publisher.sources.files import csv, json_lines, parquet
from publisher.sources.files.file_names import distinct, list_files
from publisher.sources.files.frame import Frame
from publisher.sources.files.options import ExpectedColumns, SnapshotOptions
from publisher.sources.files.recognise import format_of, hint
from publisher.sources.files.text_blocks import Tail, refuse_utf16, text_blocks

_PROBED = 1 << 16
"""Number of bytes of a JSON file that are searched for keys of other formats."""
TextKind = Literal["csv", "jsonl"]
Kind = Literal[TextKind, "parquet"]
Payload_co = TypeVar("Payload_co", covariant=True)
Other = TypeVar("Other")

SUFFIXES: Mapping[str, Kind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True, slots=True)
class Split(Generic[Payload_co]):
    """A part of the input that one task reads.

    Journals keep splits as plain values, so payloads are frozen dataclasses of values that JSON has.
    """

    path: str
    """The file, or a folder if the format reads several files at once."""
    size: int
    """Approximate bytes to read, to balance tasks."""
    length: int
    """Bytes of the whole file when the splits were made."""
    payload: Payload_co
    """The part of the file, and facts about the whole input: a type of the format."""

    def with_payload(self, payload: Other) -> Split[Other]:
        """Returns a split of the same file with another payload."""
        return Split(self.path, self.size, self.length, payload)


@dataclass(frozen=True, slots=True)
class TextRange:
    """Bytes of a text file, which begin and end at a line break unless they are the whole file."""

    kind: TextKind
    start: int
    stop: int
    """The byte after the last one."""
    first: int
    """Number of the first line in the file."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Row groups of a Parquet file."""

    start: int
    stop: int
    """The group after the last one."""
    first: int
    """Number of the first row in the file, as in ``Frame.rows``."""


FileRange = TextRange | RowGroups


def every_file(paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False) -> list[Path]:
    """Lists the files that paths name, of any kind; otherwise as ``files``.

    Two files of the same name are refused, because positions name a file without its directory.
    """
    file_list = distinct(list_files(paths))
    if not file_list and not may_be_none:
        raise UsageError(f"no files in {', '.join(map(str, paths))}; name a file or a directory")
    names: dict[str, Path] = {}
    for path in file_list:
        if names.setdefault(path.name, path) != path:
            raise UsageError(
                f"{names[path.name]} and {path} have the same name, and positions name files by it:"
                " rename one"
            )
    return file_list


def files(paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False) -> list[Path]:
    """Lists the files of a snapshot as given, and the files below directories in name order.

    Names below directories that begin with ``.`` or ``_`` are left out.  Raises ``UsageError`` if there are
    no files (unless ``may_be_none``), or if the name of a given file shows no known kind.
    """
    names = f"use {', '.join(SUFFIXES)} (and .gz)"
    file_list = list_files(
        paths, lambda path: kind_of(path) is not None, f"its name shows no known kind; {names}"
    )
    if not file_list and not may_be_none:
        raise UsageError(f"no snapshot files in {', '.join(map(str, paths))}; {names}")
    return distinct(file_list)


def kind_of(path: Path) -> Kind | None:
    """Returns the kind of a file by its suffix, which precedes ``.gz`` if it is compressed."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
        return None if suffixes and SUFFIXES.get(suffixes[-1]) == "parquet" else _kind(suffixes)
    return _kind(suffixes)


def stem_of(path: Path) -> str:
    """The name of a file or folder without the suffixes of its kind."""
    stem = path.name
    for suffix in reversed(path.suffixes):
        if suffix.lower() in (*SUFFIXES, ".gz"):
            stem = stem.removesuffix(suffix)
    return stem


def splits(
    paths: Sequence[str | os.PathLike[str]],
    options: SnapshotOptions,
    columns: ExpectedColumns,
    wanted: int,
) -> list[Split[FileRange]]:
    """Cuts a snapshot into splits in the order of its files, about ``wanted`` of them or more.

    Raises ``FatalError`` if the columns of a file do not fit, so that a run ends before it starts.
    """
    file_list = files(paths)
    target = max(1, sum(path.stat().st_size for path in file_list) // max(1, wanted))
    return [split for path in file_list for split in _cut(path, options, columns, target)]


def json_splits(path: Path, options: SnapshotOptions, wanted: int) -> list[Split[TextRange]]:
    """Cuts a file of JSON lines, whatever the keys of its objects; otherwise as ``splits``."""
    _check_keys(path, options, ExpectedColumns(()))
    return _cut_text(path, "jsonl", options, path.stat().st_size // max(1, wanted))


def frames(
    split: Split[FileRange], options: SnapshotOptions, columns: ExpectedColumns
) -> Iterator[Frame]:
    """Yields the records of a split.  Raises ``FatalError`` if the file has changed."""
    if Path(split.path).stat().st_size != split.length:
        raise FatalError(f"{split.path} has changed since the run began; start again")
    match split.payload:
        case RowGroups(start, stop, first):
            return parquet.frames(split.path, range(start, stop), first, columns, options)
        case TextRange("jsonl") as lines:
            texts = blocks(split.path, lines, options)
            return json_lines.frames(texts, lines.first, columns, options)
        case lines:
            head = header(split.path, options, columns)
            texts = blocks(split.path, lines, options)
            return csv.frames(texts, lines.first, head, columns, options)


def narrow(split: Split[FileRange], row: int, options: SnapshotOptions) -> Split[FileRange]:
    """Returns the part of a split that begins with record ``row`` or shortly before it."""
    match split.payload:
        case RowGroups(start, stop, first) as groups:
            group, first = parquet.group_of(split.path, range(start, stop), first, row)
            return split.with_payload(replace(groups, start=group, first=first))
        case lines:
            return split.with_payload(narrow_lines(split.path, lines, row, options))


def narrow_lines(path: str, lines: TextRange, row: int, options: SnapshotOptions) -> TextRange:
    """Returns the part of a text range that begins with line ``row`` or before it."""
    if _is_gzip(Path(path)) or not splits_at_lf(options) or row <= lines.first:
        return lines
    return replace(lines, start=_line_start(path, lines, row), first=row)


def _line_start(path: str, lines: TextRange, line: int) -> int:
    """Finds the offset of a line by its number in the file; the end of the range if the line is not in it."""
    position, missing = lines.start, line - lines.first
    with Path(path).open("rb", buffering=0) as file:
        file.seek(position)
        while block := file.read(1 << 22):
            breaks = block.count(b"\n")
            if breaks >= missing:
                return position + _after_lines(block, missing)
            position, missing = position + len(block), missing - breaks
    return lines.stop


def _after_lines(block: bytes, lines: int) -> int:
    at = 0
    for _ in range(lines):
        at = block.index(b"\n", at) + 1
    return at


def header(path: str, options: SnapshotOptions, columns: ExpectedColumns) -> csv.Header:
    """Reads the header of a CSV file.  Raises ``FatalError`` if its columns do not fit."""
    start, why = _beginning(Path(path), options)
    try:
        return csv.read_header(start, path, columns, options)
    except FatalError:
        _refuse_cut(Path(path), start, why, options)
        raise


def column_names(path: str, options: SnapshotOptions) -> list[str]:
    """Reads the fields of the first record of a CSV file, or the columns of Parquet.

    Raises ``FatalError`` if the file cannot be read.
    """
    if kind_of(Path(path)) == "parquet":
        return parquet.column_names(path)
    return csv.first_fields(beginning(Path(path), options), path, options)


def beginning(path: Path, options: SnapshotOptions) -> bytes:
    """Reads the first bytes of a text file, at least up to the end of its first record.

    Raises ``FatalError`` if the file breaks off before that.
    """
    start, why = _beginning(path, options)
    _refuse_cut(path, start, why, options)
    return start


def _refuse_cut(path: Path, start: bytes, why: str | None, options: SnapshotOptions) -> None:
    """Raises ``FatalError`` if a file breaks off, which ``why`` explains, before its first record ends."""
    if why is None:
        return
    is_json = kind_of(path) == "jsonl"
    if not (b"\n" in start.lstrip() if is_json else csv.has_record(start, options)):
        raise FatalError(f"{path}: its first record cannot be read: {why}")


def _beginning(path: Path, options: SnapshotOptions) -> tuple[bytes, str | None]:
    """Reads the first bytes of a file, and the reason if it breaks off there."""
    if not _is_gzip(path):
        refuse_utf16(path, options)
    start = bytearray()
    examined = 0
    with Path(path).open("rb") as file:
        for block in text_blocks(file, None, options, begins=True, packed=_is_gzip(path)):
            if isinstance(block, Tail):
                return bytes(start), block.reason
            start += block
            if len(start) > options.max_record:
                break
            if len(start) >= 2 * examined:  # not at each block: each search starts at the beginning
                examined = len(start)
                if csv.has_record(bytes(start), options):
                    break
    return bytes(start), None


def by_position(
    split: Split[FileRange], options: SnapshotOptions, columns: ExpectedColumns
) -> bool:
    """Tests whether the columns of a split's file have no names."""
    match split.payload:
        case RowGroups():
            return options.header == "no"
        case TextRange(kind):
            return kind == "csv" and not header(split.path, options, columns).named


def _kind(suffixes: list[str]) -> Kind | None:
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def _cut(
    path: Path, options: SnapshotOptions, columns: ExpectedColumns, target: int
) -> list[Split[FileRange]]:
    kind, name = kind_of(path), str(path)
    assert kind is not None  # ``files`` lists only known kinds
    if kind == "parquet":
        length = path.stat().st_size
        groups = parquet.row_groups(name, columns, options, target)
        return [Split(name, size, length, RowGroups(a, b, row)) for a, b, row, size in groups]
    if kind == "csv":
        header(name, options, columns)
    if kind == "jsonl":
        _check_keys(path, options, columns)
    return list(_cut_text(path, kind, options, target))


def _cut_text(
    path: Path, kind: TextKind, options: SnapshotOptions, target: int
) -> list[Split[TextRange]]:
    name, length = str(path), path.stat().st_size
    whole = _is_gzip(path) or not splits_at_lf(options)
    if whole or (kind == "csv" and options.holds_line_breaks):
        return [Split(name, length, length, TextRange(kind, 0, length, 1))]
    return [
        Split(name, b - a, length, TextRange(kind, a, b, line))
        for a, b, line in _lines(path, max(target, options.block_size))
    ]


def _check_keys(path: Path, options: SnapshotOptions, columns: ExpectedColumns) -> None:
    """Raises ``FatalError`` if the first objects have the keys of another format."""
    start, _ = _beginning(path, replace(options, block_size=_PROBED))
    needed = {columns.written_name(name).casefold() for name in columns.names}
    needed -= {columns.written_name(name).casefold() for name in columns.optional}
    listed = [keys for keys in json_lines.first_keys(start) if keys]
    if not needed or any(needed <= {key.casefold() for key in keys} for keys in listed):
        return
    for keys in listed:
        other = hint(keys, format_of(columns.names))
        if other:
            raise FatalError(
                f"{path}: its first objects have the keys {', '.join(keys[:9])}{other}"
            )


def splits_at_lf(options: SnapshotOptions) -> bool:
    """Tests whether each LF byte is a line end in this encoding."""
    return codecs.lookup(options.encoding).name in (
        "utf-8",
        "ascii",
        "iso8859-1",
        "iso8859-15",
        "cp1252",
    )


def _lines(path: Path, target: int) -> Iterator[tuple[int, int, int]]:
    """Yields byte ranges of ``target`` bytes or a little more that end at LF, with their first line."""
    start, line, position, breaks = 0, 1, 0, 0
    with Path(path).open("rb", buffering=0) as file:
        while block := file.read(1 << 22):
            while position + len(block) >= start + target:
                cut = block.find(b"\n", max(0, start + target - 1 - position)) + 1
                if not cut:
                    break
                yield start, position + cut, line
                line += breaks + block.count(b"\n", 0, cut)
                start = position = position + cut
                block, breaks = block[cut:], 0
            breaks += block.count(b"\n")
            position += len(block)
    if position > start or start == 0:
        yield start, position, line


def _is_gzip(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def blocks(path: str, lines: TextRange, options: SnapshotOptions) -> Iterator[bytes | Tail]:
    """Yields the text of a range."""
    with Path(path).open("rb") as file:
        file.seek(lines.start)
        yield from text_blocks(
            file,
            lines.stop - lines.start,
            options,
            begins=lines.start == 0,
            packed=_is_gzip(Path(path)),
        )
