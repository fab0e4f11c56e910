"""Snapshots of tables as files: which files, how they are cut into splits, how they are framed.

Text (CSV, JSON lines) is cut at LF only; the driver counts the lines before each split once, so that
a record's number is the number of its line in the whole file, whatever the cut.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, cast

from annotated_types import Ge, Le, Len

from publisher.errors import FatalError, UsageError
from publisher.sources import csv_frames, json_frames, parquet_frames
from publisher.sources.frames import Frame
from publisher.sources.text_blocks import Tail, text_blocks

Kind = Literal["csv", "jsonl", "parquet"]

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
class SnapshotOptions:
    """How the files of a snapshot are to be read."""

    header: Literal["auto", "yes", "no"] = "auto"
    """Whether CSV files begin with column names; ``auto`` looks whether the first record holds any
    of the names asked for.  ``no`` also makes Parquet columns count by position."""
    delimiter: Annotated[str, Len(1, 1)] = ","
    """One ASCII character between the fields of a CSV record."""
    null_text: str | None = None
    """A further NULL mark of CSV beside the unquoted empty field; only where it is unquoted."""
    line_breaks: bool = True
    """Whether CSV fields may hold line breaks.  If not, large files are read by several tasks."""
    encoding: str = "utf-8"
    """Character encoding of text files."""
    block_size: Annotated[int, Ge(64), Le(1 << 30)] = 4 << 20
    """Bytes framed at once."""
    max_record: Annotated[int, Ge(64), Le(1 << 30)] = 64 << 20
    """Bytes of the longest text record; a longer one is broken, and reading goes on after its
    next line break."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a source asks for, by its own names."""

    names: tuple[str, ...]
    """In the order that files without names have; frames hold exactly these, in this order."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Names in the file where they differ: our name to theirs."""
    optional: frozenset[str] = frozenset()
    """May be absent from a JSON object, which then stands for NULL."""

    def locate(self, found: Sequence[str], where: str) -> list[int]:
        """Index in ``found`` of each of ``names``: as written, else whatever the case.

        Raises ``FatalError`` where one is absent or there twice.
        """
        exact = [name.strip() for name in found]
        folded = [name.casefold() for name in exact]
        places, problems = [], []
        for name in self.names:
            theirs = self.written.get(name, name)
            hits = [i for i, other in enumerate(exact) if other == theirs]
            hits = hits or [i for i, other in enumerate(folded) if other == theirs.casefold()]
            if len(hits) != 1:
                problems.append(f"{theirs} is {'there twice' if hits else 'missing'}")
            places.append(hits[0] if hits else -1)
        if problems:
            raise FatalError(
                f"{where}: the columns do not fit: {', '.join(problems)}; found are"
                f" {', '.join(exact) or 'none'}. Map the names in the settings (columns), or set"
                ' header = "no" where the file has no names'
            )
        return places

    def names_a_column(self, fields: Sequence[str]) -> bool:
        """Whether the fields of a first record look like a header."""
        theirs = {self.written.get(name, name).casefold() for name in self.names}
        return any(item.strip().casefold() in theirs for item in fields)


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a snapshot that one task reads.  Plain values only: it goes through JSON."""

    path: str
    kind: str
    start: int
    """First byte of text, first row group of Parquet."""
    stop: int
    """Byte or row group after the last one."""
    first: int
    """Number of the first record, as in ``Frame.rows``."""
    size: int
    """Bytes to be read, about; for balance between tasks."""
    length: int
    """Bytes of the whole file when the splits were made."""

    @property
    def at(self) -> str:
        return f"{self.path} (from record {self.first})" if self.start else self.path


def files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files of a snapshot: as given, directories in name order, without hidden ones and those
    that begin with ``_``.  Raises ``UsageError`` where there are none or a kind is not known."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not _hidden(p, path))
            found += [p for p in inside if kind_of(p) is not None]
        elif not path.is_file():
            raise UsageError(f"{path} does not exist; name a file or a directory")
        elif kind_of(path) is None:
            raise UsageError(f"{path}: the kind is not known by its name; use {', '.join(SUFFIXES)} (and .gz)")
        else:
            found.append(path)
    if not found:
        raise UsageError(f"no snapshot files in {', '.join(map(str, paths))}; use {', '.join(SUFFIXES)} (and .gz)")
    return found


def kind_of(path: Path) -> Kind | None:
    """Kind of a file by its suffix, below ``.gz`` where it is compressed."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
        return None if suffixes and SUFFIXES.get(suffixes[-1]) == "parquet" else _kind(suffixes)
    return _kind(suffixes)


def splits(
    paths: Sequence[str | os.PathLike[str]], options: SnapshotOptions, columns: Columns, wanted: int
) -> list[Split]:
    """The splits of a snapshot in the order of its files, about ``wanted`` of them or more.

    Raises ``FatalError`` where the columns of a file do not fit, so that a run ends before it starts.
    """
    found = files(paths)
    target = max(1, sum(path.stat().st_size for path in found) // max(1, wanted))
    return [split for path in found for split in _cut(path, options, columns, target)]


def frames(split: Split, options: SnapshotOptions, columns: Columns) -> Iterator[Frame]:
    """The records of a split.  Raises ``FatalError`` where the file is not what the split says."""
    if os.stat(split.path).st_size != split.length:
        raise FatalError(f"{split.path} has changed since the run began; start again")
    match split.kind:
        case "parquet":
            return parquet_frames.frames(split.path, range(split.start, split.stop), split.first, columns, options)
        case "jsonl":
            return json_frames.frames(_blocks(split, options), split.first, columns, options)
        case _:
            head = header(split.path, options, columns)
            return csv_frames.frames(_blocks(split, options), split.first, head, columns, options)


def header(path: str, options: SnapshotOptions, columns: Columns) -> csv_frames.Header:
    """What the first record of a CSV file says of its columns."""
    with _open(Path(path)) as file:
        start = b"".join(_take(text_blocks(file, None, options, begins=True), options.block_size))
    return csv_frames.read_header(start, path, columns, options)


def by_position(split: Split, options: SnapshotOptions, columns: Columns) -> bool:
    """Whether the columns of a split's file have no names."""
    if split.kind == "csv":
        return not header(split.path, options, columns).named
    return split.kind == "parquet" and options.header == "no"


def _take(blocks: Iterator[bytes | Tail], size: int) -> Iterator[bytes]:
    for block in blocks:
        if isinstance(block, Tail):
            return
        yield block
        size -= len(block)
        if size <= 0:
            return


def _kind(suffixes: list[str]) -> Kind | None:
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def _hidden(path: Path, root: Path) -> bool:
    return any(part[0] in "._" for part in path.relative_to(root).parts)


def _cut(path: Path, options: SnapshotOptions, columns: Columns, target: int) -> list[Split]:
    kind = cast(Kind, kind_of(path))
    length = path.stat().st_size
    name = str(path)
    if kind == "parquet":
        groups = parquet_frames.row_groups(name, columns, options, target)
        return [Split(name, kind, a, b, first, size, length) for a, b, first, size in groups]
    if kind == "csv":
        header(name, options, columns)
    whole = path.suffix.lower() == ".gz" or not splits_at_lf(options)
    if whole or (kind == "csv" and options.line_breaks):
        return [Split(name, kind, 0, length, 1, length, length)]
    return [
        Split(name, kind, a, b, first, b - a, length)
        for a, b, first in _lines(path, max(target, options.block_size))
    ]


def splits_at_lf(options: SnapshotOptions) -> bool:
    """Whether each LF byte is a line end in this encoding."""
    return codecs.lookup(options.encoding).name in ("utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252")


def _lines(path: Path, target: int) -> Iterator[tuple[int, int, int]]:
    """Byte ranges that end at LF, of ``target`` bytes or a little more, with their first line."""
    start, line, position, seen = 0, 1, 0, 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(1 << 22):
            while position + len(block) >= start + target:
                cut = block.find(b"\n", max(0, start + target - 1 - position)) + 1
                if not cut:
                    break
                yield start, position + cut, line
                line += seen + block.count(b"\n", 0, cut)
                start = position = position + cut
                block, seen = block[cut:], 0  # noqa: PLW2901
            seen += block.count(b"\n")
            position += len(block)
    if position > start or start == 0:
        yield start, position, line


def _open(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def _blocks(split: Split, options: SnapshotOptions) -> Iterator[bytes | Tail]:
    path = Path(split.path)
    with _open(path) as file:
        if split.start:
            file.seek(split.start, io.SEEK_SET)
        size = None if path.suffix.lower() == ".gz" else split.stop - split.start
        yield from text_blocks(file, size, options, begins=split.start == 0)
