"""Assigns files to tables and finds the columns of files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from publisher.errors import FatalError
from publisher.model.catalogue import Catalogue
from publisher.sources.columns.object_names import split_name
from publisher.sources.files import file_splits, json_lines
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.triggerless.options import TriggerlessOptions

SAMPLE_BYTES = 1 << 20
"""Number of bytes at the beginning of a JSON file that are searched for keys."""
_PART = "part-"
"""Prefix of the names of files that are parts of a table, as Spark writes them."""


def files_by_table(
    paths: Sequence[str | os.PathLike[str]],
    options: TriggerlessOptions,
    *,
    may_be_none: bool = False,
) -> dict[str, list[Path]]:
    """Lists the files that paths name, as ``file_splits.files``, and groups them by table."""
    files = file_splits.files(paths, may_be_none=may_be_none)
    return group_by_table([path.absolute() for path in files], options)


def group_by_table(paths: Sequence[Path], options: TriggerlessOptions) -> dict[str, list[Path]]:
    """Groups files by table, in the order of their names.

    A file belongs to the table in its name (``usr.csv``, ``indirect.usr.parquet``); a part (``part-…``)
    belongs to the table in the name of its folder.  If the settings name a single table, all files belong to
    this table.
    Raises ``FatalError`` if a file belongs to none of the tables in the settings.
    """
    own_names = {name.casefold() for name in options.tables}
    for path in paths:
        is_part = (
            path.name.startswith(_PART) or file_splits.stem_of(path).casefold() not in own_names
        )
        if "=" in path.parent.name and is_part:
            raise FatalError(
                f"{path}: the folder {path.parent.name} holds a value of the column"
                f" {path.parent.name.partition('=')[0]}, and values in names of folders are not read:"
                " export the table without partitions"
            )
    if len(options.tables) == 1:
        return {options.tables[0]: sorted(paths, key=str)}
    folded = {name.casefold(): name for name in options.tables}
    files: dict[str, list[Path]] = {name: [] for name in options.tables}
    for path in sorted(paths, key=str):
        name = table_of(path)
        if folded:
            table = name if name in options.tables else folded.get(name.casefold())
            if table is None:
                raise FatalError(
                    f"{path}: {name} is none of the tables {', '.join(options.tables)}; give the file"
                    " the name of its table, or add the name to tables"
                )
            name = table
        elif split_name(name) is None:
            raise FatalError(
                f"{path}: {name} is not a table name; rename the file as table or schema.table"
            )
        files.setdefault(name, []).append(path)
    return files


def table_of(path: Path) -> str:
    """Returns the name of the table that a file, or the folder of a part, is named after."""
    return file_splits.stem_of(path.parent if path.name.startswith(_PART) else path)


def columns_of(
    table: str,
    path: Path,
    reading: SnapshotOptions,
    catalogue: Catalogue,
    options: TriggerlessOptions,
) -> tuple[tuple[str, ...], SnapshotOptions]:
    """Finds the columns of a table's file, and the settings to read it with.

    Raises ``FatalError`` if the columns are unknown.
    """
    kind = file_splits.kind_of(path)
    if kind == "jsonl":
        start = file_splits.beginning(path, replace(reading, block_size=SAMPLE_BYTES))
        names = json_lines.column_keys(start)
        return names or _known_columns(table, path, catalogue, options), reading
    if reading.header == "no":
        return _known_columns(table, path, catalogue, options), reading
    names = tuple(file_splits.column_names(str(path), reading))
    if not names:
        raise FatalError(f"{path} has no header with column names; export it with a header")
    return names, replace(reading, header="yes")


def _known_columns(
    table: str, path: Path, catalogue: Catalogue, options: TriggerlessOptions
) -> tuple[str, ...]:
    parts = split_name(table)
    known = catalogue.table(parts[0] or options.schema, parts[1]) if parts else None
    if known is None or not known.columns:
        raise FatalError(
            f"{path} has no column names, and the columns of {table} are unknown; export the file with"
            " names, or describe the table in [tables]"
        )
    return tuple(known.columns)
