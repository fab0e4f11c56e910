"""Which files hold which table, and which columns they have."""

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
from publisher.sources.triggerless.options import Options

LOOKED_AT = 1 << 20
"""Bytes of a JSON file in which keys are looked for."""
_PART = "part-"
"""What the names of files begin with that are parts of a table, as Spark writes them."""


def files_by_table(
    named: Sequence[str | os.PathLike[str]], options: Options, *, may_be_none: bool = False
) -> dict[str, list[Path]]:
    """The files of each table that paths name, see ``snapshots.files`` and ``by_table``."""
    found = file_splits.files(named, may_be_none=may_be_none)
    return by_table([path.absolute() for path in found], options)


def by_table(paths: Sequence[Path], options: Options) -> dict[str, list[Path]]:
    """The files of each table, in the order of their names.

    A file is of the table that it is named after (``usr.csv``, ``indirect.usr.parquet``), a part
    (``part-…``) of the one that its folder is named after; where the settings name one table, whatever
    its name is.  Raises ``FatalError`` where a file is of none of the tables of the settings.
    """
    if len(options.tables) == 1:
        return {options.tables[0]: sorted(paths, key=str)}
    asked = {name.casefold(): name for name in options.tables}
    found: dict[str, list[Path]] = {name: [] for name in options.tables}
    for path in sorted(paths, key=str):
        name = _stem(path.parent) if path.name.startswith(_PART) else _stem(path)
        if asked:
            whole = asked.get(name.casefold())
            if whole is None:
                raise FatalError(
                    f"{path}: {name} is none of the tables {', '.join(options.tables)}; rename the file"
                    " after its table, or add it to tables"
                )
            name = whole
        elif split_name(name) is None:
            raise FatalError(
                f"{path}: {name} is no name of a table; rename it as table or schema.table"
            )
        found.setdefault(name, []).append(path)
    return found


def columns_of(
    table: str, path: Path, reading: SnapshotOptions, catalogue: Catalogue, options: Options
) -> tuple[tuple[str, ...], SnapshotOptions]:
    """The columns of a file of a table, and how it is to be read then.

    Raises ``FatalError`` where they cannot be told.
    """
    kind = file_splits.kind_of(path)
    if kind == "jsonl":
        start = file_splits.beginning(path, replace(reading, block_size=LOOKED_AT))
        names = json_lines.column_keys(start)
        return names or _known_columns(table, path, catalogue, options), reading
    if reading.header == "no":
        return _known_columns(table, path, catalogue, options), reading
    names = tuple(file_splits.column_names(str(path), reading))
    if not names:
        raise FatalError(f"{path} begins with no names of columns; export it with them")
    return names, replace(reading, header="yes")


def _known_columns(
    table: str, path: Path, catalogue: Catalogue, options: Options
) -> tuple[str, ...]:
    parts = split_name(table)
    known = catalogue.table(parts[0] or options.schema, parts[1]) if parts else None
    if known is None or not known.columns:
        raise FatalError(
            f"{path} has no names of columns, and nothing says which columns {table} has; export it with"
            " names, or describe it in [tables]"
        )
    return tuple(known.columns)


def _stem(path: Path) -> str:
    """A file's or folder's name without what says its kind."""
    stem = path.name
    for suffix in reversed(path.suffixes):
        if suffix.lower() in (*file_splits.SUFFIXES, ".gz"):
            stem = stem.removesuffix(suffix)
    return stem
