"""Prepares tables in files for a comparison, with the files of their child tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from publisher.errors import FatalError
from publisher.model.catalogue import Catalogue
from publisher.sources.files import file_splits
from publisher.sources.files.options import ExpectedColumns, SnapshotOptions
from publisher.sources.triggerless import input_files
from publisher.sources.triggerless.class_shape import child_tables, parent_of, with_children
from publisher.sources.triggerless.comparison import ComparisonContext, ReadTable, TableInput
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.state import identity_of
from publisher.sources.triggerless.table_shape import TableShape, is_name_of, shape_of

_UNPACKED = {".parquet": 4, ".pq": 4, ".gz": 6}
"""Approximate ratio of the size of the text to that of the file."""


class ClassFiles(NamedTuple):
    """The files of a compared table, and those of its child tables by name."""

    own: Sequence[Path]
    children: Mapping[str, Sequence[Path]]


def group_classes(
    by_table: Mapping[str, Sequence[Path]],
    spare: Mapping[str, Sequence[Path]],
    catalogue: Catalogue,
    options: TriggerlessOptions,
) -> dict[str, ClassFiles]:
    """Groups the files of tables by class; ``spare`` has the files of tables that need no comparison.

    The class of a changed child table is compared, too.  Raises ``FatalError`` if files are missing.
    """
    files = {**spare, **by_table}
    names = dict.fromkeys(
        name for table in by_table for name in _classes_of(table, files, catalogue, options)
    )
    return {name: _class_files(name, files, catalogue, options) for name in names}


def file_inputs(
    classes: Mapping[str, ClassFiles],
    options: TriggerlessOptions,
    reading: SnapshotOptions,
    context: ComparisonContext,
) -> list[TableInput]:
    """Prepares the tables in files.  Raises ``FatalError`` if a file does not fit."""
    earlier = _earlier_files(classes, context.catalogue, options)
    catalogue, inputs = context.catalogue, []
    for name, files in classes.items():
        parts = [(name, files.own), *files.children.items()]
        columns, readings = zip(
            *(
                input_files.columns_of(part, paths[0], reading, catalogue, options)
                for part, paths in parts
            ),
            strict=True,
        )
        where = str(files.own[0])
        shape = shape_of(name, columns[0], catalogue, options, where)
        of_children = dict(zip(files.children, columns[1:], strict=True))
        shape = with_children(shape, of_children, catalogue, options, where)
        before = earlier.get(name)
        olds = [()] * len(parts) if before is None else [before.own, *before.children.values()]
        tables = tuple(
            _file_table(part, file_reading, paths, old, context.wanted)
            for part, file_reading, (_, paths), old in zip(
                (shape, *shape.children), readings, parts, olds, strict=True
            )
        )
        inputs.append(
            TableInput(
                tables,
                sum(_text_bytes(paths) for _, paths in parts),
                files=tuple(identity_of(files.own)),
                child_files={part: identity_of(paths) for part, paths in parts[1:]},
            )
        )
    return inputs


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


def _earlier_files(
    classes: Iterable[str], catalogue: Catalogue, options: TriggerlessOptions
) -> dict[str, ClassFiles]:
    """Finds the files of an earlier snapshot.  Raises ``FatalError`` if files of child tables are missing."""
    files = input_files.files_by_table(options.before, options) if options.before else {}
    return {
        name: _class_files(name, files, catalogue, options) for name in classes if files.get(name)
    }


def _classes_of(
    table: str,
    files: Mapping[str, Sequence[Path]],
    catalogue: Catalogue,
    options: TriggerlessOptions,
) -> list[str]:
    """Names the tables to compare for the files of a table: itself, or the parent of a child table."""
    parent = parent_of(table, catalogue, options)
    if parent is None:
        return [table]
    names = [name for name in files if is_name_of(name, None, parent.name)]
    if not names:
        raise FatalError(
            f"{table} is a child table of {parent.name}, but there is no file of {parent.name}: export it"
        )
    return names[:1]


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
        found += [path for path in own if is_name_of(input_files.table_of(path), None, child)]
        if not found:
            raise FatalError(
                f"there is no file of {child}, a child table of {name}: export it, because its values would"
                " count as removed"
            )
        children[child] = found
    of_children = {path for paths in children.values() for path in paths}
    return ClassFiles([path for path in own if path not in of_children], children)
