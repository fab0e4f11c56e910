"""Finds the files of a snapshot, cuts them into splits and reads the records of a split.

A text file (CSV, JSON lines) is one split, Parquet is cut at row groups.  The number of a record of text is
its line in the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, TypeVar

from publisher.errors import FatalError, UsageError
from publisher.formats.files import csv, json_lines, parquet
from publisher.formats.files.file_names import distinct, list_files
from publisher.formats.files.frame import Frame
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from publisher.formats.files.recognise import format_of, hint
from publisher.formats.files.text_blocks import is_gzip, refuse_cut, refuse_utf16, text_blocks

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

    Ledger keep splits as plain values, so payloads are frozen dataclasses of values that JSON has.
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
    """Bytes of a text file, which begin and end at a line break."""

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


def json_split(path: Path, options: SnapshotOptions) -> Split[TextRange]:
    """Returns a file of JSON lines as a split, whatever the keys of its objects; otherwise as ``splits``."""
    _check_keys(path, options, ExpectedColumns(()))
    return text_split(path, "jsonl")


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


def narrow(split: Split[FileRange], row: int) -> Split[FileRange]:
    """Returns the part of a split that begins with record ``row`` or before it."""
    match split.payload:
        case RowGroups(start, stop, first) as groups:
            group, first = parquet.group_of(split.path, range(start, stop), first, row)
            return split.with_payload(replace(groups, start=group, first=first))
        case _:
            return split


def header(path: str, options: SnapshotOptions, columns: ExpectedColumns) -> csv.Header:
    """Reads the header of a CSV file.  Raises ``FatalError`` if its columns do not fit."""
    return csv.read_header(beginning(Path(path), options), path, columns, options)


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
    if not is_gzip(path):
        refuse_utf16(path, options)
    start = bytearray()
    examined = 0
    for block in text_blocks(str(path), options):
        start += block
        if len(start) > options.max_record:
            break
        if len(start) >= 2 * examined:  # not at each block: each search starts at the beginning
            examined = len(start)
            if csv.has_record(bytes(start), options):
                break
    return bytes(start)


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
    return [text_split(path, kind)]


def text_split(path: Path, kind: TextKind) -> Split[TextRange]:
    """Returns a text file as a split.  Raises ``FileRefusedError`` if it is compressed and cut."""
    refuse_cut(path)
    length = Path(path).stat().st_size
    return Split(str(path), length, length, TextRange(kind, 0, length, 1))


def _check_keys(path: Path, options: SnapshotOptions, columns: ExpectedColumns) -> None:
    """Raises ``FatalError`` if the first objects have the keys of another format."""
    start = beginning(path, replace(options, block_size=_PROBED))
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


def blocks(path: str, lines: TextRange, options: SnapshotOptions) -> Iterator[bytes]:
    """Yields the text of a range."""
    if is_gzip(Path(path)):
        return text_blocks(path, options)
    return text_blocks(path, options, lines.start, lines.stop)
