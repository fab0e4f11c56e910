"""Prepares tables in files for a comparison, with the files of their child tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from publisher.errors import FatalError
from publisher.formats.columns.object_names import split_name
from publisher.formats.files import file_splits, json_lines
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from publisher.formats.triggerless.comparison import ReadTable, TableInput
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.state import identity_of
from publisher.formats.triggerless.table_shape import (
    TableShape,
    child_tables,
    is_name_of,
    parent_of,
    shape_of,
)
from publisher.model.catalogue import Catalogue

_UNPACKED = {".parquet": 4, ".pq": 4, ".gz": 6}
"""Approximate ratio of the size of the text to that of the file."""


class ClassFiles(NamedTuple):
    """The files of a compared table, and those of its child tables by name."""

    own: Sequence[Path]
    children: Mapping[str, Sequence[Path]]


def file_inputs(
    by_table: Mapping[str, Sequence[Path]],
    spare: Mapping[str, Sequence[Path]],
    catalogue: Catalogue,
    options: TriggerlessOptions,
    reading: SnapshotOptions,
    wanted: int = 1,
) -> Iterator[TableInput]:
    """Prepares the classes of tables in files; ``spare`` has the files of tables that need no comparison.

    The class of a changed child table is compared, too.  Raises ``FatalError`` if a file is missing or does
    not fit.
    """
    files = {**spare, **by_table}
    names = dict.fromkeys(_class_of(table, files, catalogue, options) for table in by_table)
    classes = {name: _class_files(name, files, catalogue, options) for name in names}
    before = files_by_table(options.before, options) if options.before else {}
    earlier = {
        name: _class_files(name, before, catalogue, options) for name in classes if before.get(name)
    }
    for name, (own, children) in classes.items():
        paths = {name: own, **children}
        columns, readings = {}, {}
        for part, of_part in paths.items():
            found = columns_of(part, of_part[0], reading, catalogue, options)
            columns[part], readings[part] = found
        own_columns = columns.pop(name)
        shape = shape_of(name, own_columns, catalogue, options, str(own[0]), columns)
        old = {name: earlier[name].own, **earlier[name].children} if name in earlier else {}
        tables = tuple(
            _file_table(part, readings[n], paths[n], old.get(n, ()), wanted)
            for part in (shape, *shape.children)
            for n in (part.source_name,)
        )
        yield TableInput(
            tables,
            sum(_text_bytes(of_part) for of_part in paths.values()),
            files=tuple(identity_of(own)),
            child_files={part: identity_of(of_part) for part, of_part in children.items()},
        )


def _file_table(
    shape: TableShape,
    reading: SnapshotOptions,
    now: Sequence[Path],
    before: Sequence[Path],
    wanted: int,
) -> ReadTable:
    columns = ExpectedColumns(shape.read, optional=frozenset(shape.read), closed=True)
    current, earlier = (
        tuple(file_splits.splits(paths, reading, columns, wanted)) if paths else ()
        for paths in (now, before)
    )
    return ReadTable(shape, reading, current, earlier)


def _text_bytes(files: Sequence[Path]) -> int:
    return sum(path.stat().st_size * _UNPACKED.get(path.suffix.lower(), 1) for path in files)


def _class_of(
    table: str,
    files: Mapping[str, Sequence[Path]],
    catalogue: Catalogue,
    options: TriggerlessOptions,
) -> str:
    """Names the table to compare for the files of a table: itself, or the parent of a child table."""
    parent = parent_of(table, catalogue, options)
    if parent is None:
        return table
    for name in files:
        if is_name_of(name, None, parent.name):
            return name
    raise FatalError(
        f"{table} is a child table of {parent.name}, but there is no file of {parent.name}: export it"
    )


def _class_files(
    name: str,
    files: Mapping[str, Sequence[Path]],
    catalogue: Catalogue,
    options: TriggerlessOptions,
) -> ClassFiles:
    own = files[name]
    if not own:
        raise FatalError(f"there is no file of table {name}: export it, or remove it from tables")
    children: dict[str, list[Path]] = {}
    for child in child_tables(name, catalogue, options, str(own[0])):
        found = [path for table in files if is_name_of(table, None, child) for path in files[table]]
        # with a single name in the settings, all files are listed under this name
        found += [path for path in own if is_name_of(table_of(path), None, child)]
        if not found:
            raise FatalError(
                f"there is no file of {child}, a child table of {name}: export it, because its values would"
                " count as removed"
            )
        children[child] = found
    of_children = {path for paths in children.values() for path in paths}
    return ClassFiles([path for path in own if path not in of_children], children)


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
