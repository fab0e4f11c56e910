"""The descriptor of the triggerless mode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from publisher.sources.files.options import SnapshotOptions
from publisher.sources.format import Format
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.source import Triggerless
from publisher.sources.triggerless.splits import DifferenceSplit


def _with_absolute_paths(
    options: TriggerlessOptions, directory: Path, reading: SnapshotOptions
) -> TriggerlessOptions:
    del reading
    before, samples = (
        tuple(str(directory / Path(path).expanduser()) for path in paths)
        for paths in (options.before, options.samples)
    )
    return replace(options, before=before, samples=samples)


TRIGGERLESS = Format(
    name="triggerless",
    title="Triggerless",
    position_text="TABLE:COMPARISON:NUMBER",
    options=TriggerlessOptions,
    source=Triggerless,
    split=DifferenceSplit,
    complete_options=_with_absolute_paths,
    reads_snapshots=True,
    compares=True,
    retry_advice=("correct the rows in the table: the next comparison reads them again"),
)
