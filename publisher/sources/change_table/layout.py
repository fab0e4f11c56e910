"""Which columns a change table has, and which table it is of: from ``.dfm``, file or settings.

Header columns: any subset of the documented eight may be there, in front of the data columns, their
names with a prefix (manual, change tables).  A ``.dfm`` beside a data file describes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from publisher.errors import FatalError
from publisher.sources.change_table.description import (
    DfmDescription,
    described_by_dfm,
    with_reading,
)
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.columns.object_names import split_name
from publisher.sources.files import file_splits, json_lines
from publisher.sources.files.options import Columns, SnapshotOptions
from publisher.sources.files.recognise import hint

HEADERS = (
    "change_seq",
    "change_oper",
    "change_mask",
    "stream_position",
    "operation",
    "transaction_id",
    "timestamp",
    "partition_name",
)
"""The documented header columns in their order."""


LOOKED_AT = 1 << 20
"""Bytes of a JSON file in which keys are looked for."""


@dataclass(frozen=True, slots=True)
class ChangeTableLayout:
    """The columns of one change table and the table it is of."""

    names: tuple[str, ...]
    """All columns in their order."""
    headers: Mapping[str, str]
    """Header columns that are there: documented name to name in the table."""
    data: tuple[str, ...]
    """The columns of the table itself, in their order."""
    table: str
    """The table, as ``table`` or ``schema.table``."""
    key: tuple[str, ...] = ()
    """Primary key by the ``.dfm``."""
    reading: SnapshotOptions = field(default_factory=SnapshotOptions)
    """How its file is to be read."""

    @property
    def header_counts(self) -> list[int]:
        """How many header columns may count in masks, the likeliest first.

        All of them, ``partition_name`` or not (the manual does not say); without those behind the data
        columns, where Hive and Spark put the columns by which they partition."""
        leading = self.names.index(self.data[0]) if self.data else len(self.headers)
        named = len(self.headers) - ("partition_name" in self.headers)
        return list(dict.fromkeys((len(self.headers), named, leading)))

    def columns(self, wanted: Sequence[str] | None = None) -> Columns:
        """The columns to ask the file for: all, or some where the file names them."""
        names = self.names if wanted is None or self.reading.header == "no" else tuple(wanted)
        return Columns(names, optional=frozenset(names), closed=wanted is None)


def layout_of(
    path: Path, options: ChangeTableOptions, reading: SnapshotOptions
) -> ChangeTableLayout:
    """The layout of one file.  Raises ``FatalError`` where it cannot be told."""
    described = described_by_dfm(path)
    names, reading = _columns(path, described, options, reading)
    table = options.source_table or (described.table if described else "") or named(path, options)
    return arranged(names, table, options, str(path), described.key if described else (), reading)


def arranged(
    names: Sequence[str],
    table: str,
    options: ChangeTableOptions,
    where: str,
    key: tuple[str, ...] = (),
    reading: SnapshotOptions | None = None,
) -> ChangeTableLayout:
    """The layout with these columns.  Raises ``FatalError`` where the header columns do not do."""
    known = {f"{options.prefix}{name}".casefold(): name for name in HEADERS}
    headers = {known[name.casefold()]: name for name in names if name.casefold() in known}
    data = tuple(name for name in names if name.casefold() not in known)
    missing = [] if "change_seq" in headers else [f"{options.prefix}change_seq"]
    if not headers.keys() & {"change_oper", "operation"}:
        missing.append(f"{options.prefix}change_oper or {options.prefix}operation")
    if missing or len(headers) + len(data) < len(names):
        raise FatalError(
            f"{where}: {f'no {missing[0]}' if missing else 'a header column stands twice'} among the"
            f" columns {', '.join(names[:20])}; keep this header column in the task, or set prefix, or"
            f" columns where the file has no names{hint(names, 'change-table')}"
        )
    inside = [name.casefold() in known for name in names]
    changes = sum(one != other for one, other in pairwise([True, *inside]))
    if changes > 2 and "change_mask" in headers:
        raise FatalError(
            f"{where}: header columns stand between data columns, so bits of the mask cannot be counted;"
            " export the columns in the order of the change table"
        )
    wrong = [name for name in key if name not in data]
    if wrong:
        raise FatalError(
            f"{where}: the .dfm has the key column {wrong[0]}, which is no data column"
        )
    return ChangeTableLayout(tuple(names), headers, data, table, key, reading or SnapshotOptions())


def named(path: Path, options: ChangeTableOptions) -> str:
    """The table that the name of a folder or file speaks of: ``schema.table__ct``."""
    stem = path.name
    for suffix in reversed(path.suffixes):
        if suffix.lower() in (*file_splits.SUFFIXES, ".gz"):
            stem = stem.removesuffix(suffix)
    for name in (path.parent.name, path.parent.parent.name, stem):
        if options.suffix and name.endswith(options.suffix) and split_name(name) is not None:
            return name.removesuffix(options.suffix)
    raise FatalError(
        f"{path}: neither a .dfm nor a name that ends with {options.suffix!r} says which table it is of;"
        " set source_table"
    )


def _columns(
    path: Path,
    described: DfmDescription | None,
    options: ChangeTableOptions,
    reading: SnapshotOptions,
) -> tuple[tuple[str, ...], SnapshotOptions]:
    """Column names of a file, and how it is to be read then."""
    kind = file_splits.kind_of(path)
    told = options.columns or (described.names if described else ())
    if described is not None and kind == "csv":
        reading = _as_described(path, described, reading)
    if kind == "jsonl":
        return told or _keys_of(path, reading), reading
    names = file_splits.column_names(str(path), reading)
    if kind == "csv" and not _has_header(names, options, told, reading):
        if not told:
            raise FatalError(
                f"{path} begins with no {options.prefix}change_seq; export with column names or a .dfm,"
                f" set prefix where it differs, or set columns{hint(names, 'change-table')}"
            )
        return told, replace(reading, header="no")
    if told and set(told) != set(names):
        odd = min(set(told) ^ set(names))
        raise FatalError(
            f"{path}: column {odd} is either not in the file or not in its description (.dfm, columns);"
            " export both again"
        )
    return tuple(told or names), replace(reading, header="yes")


def _has_header(
    first: Sequence[str], options: ChangeTableOptions, told: Sequence[str], reading: SnapshotOptions
) -> bool:
    """Whether a CSV file begins with column names, by the setting or its first record: this holds that
    of change_seq then, or most of the names that are known."""
    if reading.header != "auto":
        return reading.header == "yes"
    known = {name.casefold() for name in told}
    hits = [name for name in first if name.casefold() in known]
    seq = f"{options.prefix}change_seq".casefold()
    return seq in (name.casefold() for name in first) or len(hits) * 2 > len(first)


def _as_described(
    path: Path, described: DfmDescription, reading: SnapshotOptions
) -> SnapshotOptions:
    if described.unreadable is not None:
        raise FatalError(described.unreadable)
    given = SnapshotOptions()
    for name, theirs in described.reading.items():
        said = getattr(reading, name)
        if said not in (theirs, getattr(given, name)):
            raise FatalError(
                f"{path}: {name} is {said!r} in the settings and {theirs!r} in the .dfm; leave the"
                " setting out"
            )
    try:
        return with_reading(reading, described.reading)
    except ValueError as problem:
        raise FatalError(f"{path}: the settings do not fit the .dfm: {problem}") from None


def _keys_of(path: Path, reading: SnapshotOptions) -> tuple[str, ...]:
    """The keys that are columns by the first objects of a file."""
    return json_lines.column_keys(_start(path, reading))


def _start(path: Path, reading: SnapshotOptions) -> bytes:
    """The first bytes of a text file, the same whatever the settings of speed."""
    return file_splits.beginning(path, replace(reading, block_size=LOOKED_AT))
