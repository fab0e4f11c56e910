"""The descriptor of the triggerless mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from publisher.errors import OptionProblem
from publisher.formats.columns.object_names import split_name
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.format import Format
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.source import Triggerless
from publisher.formats.triggerless.splits import DifferenceSplit
from publisher.formats.triggerless.table_shape import is_name_of


def _with_absolute_paths(
    options: TriggerlessOptions, directory: Path, reading: SnapshotOptions
) -> TriggerlessOptions:
    del reading
    before, samples = (
        tuple(str(directory / Path(path).expanduser()) for path in paths)
        for paths in (options.before, options.samples)
    )
    return replace(options, before=before, samples=samples)


def _find_problems(options: TriggerlessOptions, *, is_table: bool) -> Iterator[OptionProblem]:
    """Finds names in ``key_change_by`` that no compared table has."""
    del is_table
    tables = [parts for name in options.tables if (parts := split_name(name)) is not None]
    for name in options.key_change_by if tables else ():
        if not any(is_name_of(name, *parts) for parts in tables):
            yield OptionProblem(
                "key_change_by", f"{name} is not in tables; add it, or fix the name"
            )


TRIGGERLESS = Format(
    name="triggerless",
    title="Triggerless",
    position_text="TABLE:COMPARISON:NUMBER",
    options=TriggerlessOptions,
    source=Triggerless,
    split=lambda: DifferenceSplit,
    complete_options=_with_absolute_paths,
    find_problems=_find_problems,
    reads_snapshots=True,
    compares=True,
)
