"""The columns of a change table and the table that was changed: from ``.dfm``, file or settings.

Any subset of the eight documented header columns may precede the data columns; their names begin with a
prefix (manual, change tables).  A ``.dfm`` beside a data file describes the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from publisher.errors import FatalError
from publisher.formats.change_table.dfm import DfmDescription, apply_dfm, read_dfm
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.columns.object_names import split_name
from publisher.formats.files import file_splits, json_lines
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from publisher.formats.files.recognise import hint

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

_SAMPLE_BYTES = 1 << 20
"""Number of bytes of a JSON file that are searched for columns."""


@dataclass(frozen=True, slots=True)
class ChangeTableLayout:
    """The columns of one change table, and the table that was changed."""

    names: tuple[str, ...]
    """All columns in their order."""
    headers: Mapping[str, str]
    """The header columns of the table, by their documented names."""
    data: tuple[str, ...]
    """The columns of the table itself, in their order."""
    table: str
    """The changed table, as ``table`` or ``schema.table``."""
    key: tuple[str, ...] = ()
    """Primary key by the ``.dfm``."""
    reading: SnapshotOptions = field(default_factory=SnapshotOptions)
    """Settings for reading its file."""

    @property
    def header_counts(self) -> list[int]:
        """Possible numbers of header columns that count in masks, the likeliest first.

        These are all header columns, with or without ``partition_name`` (the manual does not say), or only
        those before the data columns: Hive and Spark move partition columns behind them.
        """
        leading = self.names.index(self.data[0]) if self.data else len(self.headers)
        named = len(self.headers) - ("partition_name" in self.headers)
        return list(dict.fromkeys((len(self.headers), named, leading)))

    def columns(self, wanted: Sequence[str] | None = None) -> ExpectedColumns:
        """The columns to read from the file: ``wanted`` if the file names its columns, else all."""
        names = self.names if wanted is None or self.reading.header == "no" else tuple(wanted)
        return ExpectedColumns(names, optional=frozenset(names), closed=wanted is None)


def layout_of(
    path: Path, options: ChangeTableOptions, reading: SnapshotOptions
) -> ChangeTableLayout:
    """Finds the layout of one file.  Raises ``FatalError`` if its columns or its table are unknown."""
    dfm = read_dfm(path)
    names, reading = _columns(path, dfm, options, reading)
    seq = f"{options.prefix}change_seq"
    if dfm and dfm.content == "data" and seq.casefold() not in map(str.casefold, names):
        raise FatalError(
            f"{path}: its .dfm describes a full load without a column {seq}, so it contains no changes;"
            f" publish the files of the {options.suffix or '__ct'!r} folder, or set prefix if the header"
            " columns have another one"
        )
    table = options.source_table or (dfm.table if dfm else "") or table_in_path(path, options)
    return build_layout(names, table, options, str(path), dfm.key if dfm else (), reading)


def build_layout(
    names: Sequence[str],
    table: str,
    options: ChangeTableOptions,
    where: str,
    key: tuple[str, ...] = (),
    reading: SnapshotOptions | None = None,
) -> ChangeTableLayout:
    """Builds the layout of these columns.  Raises ``FatalError`` if header columns are wrong."""
    known = {f"{options.prefix}{name}".casefold(): name for name in HEADERS}
    headers = {known[name.casefold()]: name for name in names if name.casefold() in known}
    data = tuple(name for name in names if name.casefold() not in known)
    missing = [] if "change_seq" in headers else [f"{options.prefix}change_seq"]
    if not headers.keys() & {"change_oper", "operation"}:
        missing.append(f"{options.prefix}change_oper or {options.prefix}operation")
    if missing or len(headers) + len(data) < len(names):
        raise FatalError(
            f"{where}: {f'no {missing[0]}' if missing else 'a header column appears twice'} among the"
            f" columns {', '.join(names[:20])}; keep this header column in the task, or set prefix, or"
            f" columns if the file has no names{hint(names, 'change-table')}"
        )
    inside = [name.casefold() in known for name in names]
    changes = sum(left != right for left, right in pairwise([True, *inside]))
    if changes > 2 and "change_mask" in headers:
        raise FatalError(
            f"{where}: there are header columns between data columns, so bits of the mask cannot be counted;"
            " export the columns in the order of the change table"
        )
    foreign = [name for name in key if name not in data]
    if foreign:
        raise FatalError(
            f"{where}: the .dfm has the key column {foreign[0]}, which is not a data column; export it again"
        )
    return ChangeTableLayout(tuple(names), headers, data, table, key, reading or SnapshotOptions())


def table_in_path(path: Path, options: ChangeTableOptions) -> str:
    """The table in the name of a folder or file: ``schema.table__ct``."""
    for name in (path.parent.name, path.parent.parent.name, file_splits.stem_of(path)):
        if options.suffix and name.endswith(options.suffix) and split_name(name) is not None:
            return name.removesuffix(options.suffix)
    raise FatalError(
        f"{path}: neither a .dfm nor a name that ends with {options.suffix!r} names the changed table; set"
        " source_table"
    )


def _columns(
    path: Path,
    dfm: DfmDescription | None,
    options: ChangeTableOptions,
    reading: SnapshotOptions,
) -> tuple[tuple[str, ...], SnapshotOptions]:
    """Column names of a file, and the settings for reading it with them."""
    kind = file_splits.kind_of(path)
    described = options.columns or (dfm.names if dfm else ())
    if dfm is not None and kind == "csv":
        reading = _check_dfm(path, dfm, reading)
    if kind == "jsonl":
        return described or _json_keys(path, reading), reading
    names = file_splits.column_names(str(path), reading)
    if kind == "csv" and not _has_header(names, options, described, reading):
        if not described:
            raise FatalError(
                f"{path}: its first record does not name a column {options.prefix}change_seq; export with"
                " column names or a .dfm, set prefix if it differs, or set columns"
                f"{hint(names, 'change-table')}"
            )
        return described, replace(reading, header="no")
    if described and set(described) != set(names):
        column = min(set(described) ^ set(names))
        raise FatalError(
            f"{path}: column {column} is either not in the file or not in its description (.dfm, columns);"
            " export both again"
        )
    return tuple(described or names), replace(reading, header="yes")


def _has_header(
    first: Sequence[str],
    options: ChangeTableOptions,
    described: Sequence[str],
    reading: SnapshotOptions,
) -> bool:
    """Returns whether a CSV file begins with column names, by the setting or its first record.

    A first record holds column names if it names change_seq, or most of its values are described names.
    """
    if reading.header != "auto":
        return reading.header == "yes"
    known = {name.casefold() for name in described}
    named_values = [name for name in first if name.casefold() in known]
    seq = f"{options.prefix}change_seq".casefold()
    return seq in (name.casefold() for name in first) or len(named_values) * 2 > len(first)


def _check_dfm(path: Path, dfm: DfmDescription, reading: SnapshotOptions) -> SnapshotOptions:
    """Applies the CSV settings of a ``.dfm``, which must not contradict those of the user."""
    if dfm.problem is not None:
        raise FatalError(dfm.problem)
    default = SnapshotOptions()
    for name, theirs in dfm.reading.items():
        ours = getattr(reading, name)
        if ours not in (theirs, getattr(default, name)):
            raise FatalError(
                f"{path}: {name} is {ours!r} in the settings and {theirs!r} in the .dfm; leave the"
                " setting out"
            )
    try:
        return apply_dfm(reading, dfm.reading)
    except ValueError as problem:
        raise FatalError(f"{path}: the settings do not fit the .dfm: {problem}") from None


def _json_keys(path: Path, reading: SnapshotOptions) -> tuple[str, ...]:
    """The keys of the first objects of a JSON file; the block size of the settings has no influence."""
    sample = file_splits.beginning(path, replace(reading, block_size=_SAMPLE_BYTES))
    return json_lines.column_keys(sample)
