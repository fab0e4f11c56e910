"""Assigns the files of child tables to the tables whose attributes they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from publisher.errors import FatalError
from publisher.model.catalogue import Catalogue
from publisher.model.names import equal_in_any_case
from publisher.sources.columns.object_names import split_name
from publisher.sources.triggerless import input_files
from publisher.sources.triggerless.class_shape import child_tables, parent_of
from publisher.sources.triggerless.options import TriggerlessOptions


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


def earlier_files(
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
    names = [name for name in files if _is_named(name, parent.name)]
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
        found = [path for table in files if _is_named(table, child) for path in files[table]]
        # with a single name in the settings, all files are listed under this name
        found += [path for path in own if _is_named(input_files.table_of(path), child)]
        if not found:
            raise FatalError(
                f"there is no file of {child}, a child table of {name}: export it, because its values would"
                " count as removed"
            )
        children[child] = found
    of_children = {path for paths in children.values() for path in paths}
    return ClassFiles([path for path in own if path not in of_children], children)


def _is_named(name: str, table: str) -> bool:
    parts = split_name(name)
    return parts is not None and equal_in_any_case(parts[1], table)
