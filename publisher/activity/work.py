"""Samples of the table queue, divided into splits for tasks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from publisher.activity.options import ActivityOptions
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.formats.table_queue.reading import SampleSplit, sample_files, sample_splits

_SPLIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Samples:
    """Splits of samples for tasks, and the settings."""

    splits: tuple[SampleSplit, ...]
    reading: TableQueueOptions
    counting: ActivityOptions

    @property
    def size(self) -> int:
        """Approximate bytes to read."""
        return sum(split.size for split in self.splits)


def samples_of(
    paths: Sequence[str | os.PathLike[str]], reading: TableQueueOptions, counting: ActivityOptions
) -> Samples:
    """Finds the samples at paths, in directories sorted by name, and divides them into splits.

    Raises:
        UsageError: The paths name no samples, or the form of a file is unknown by its name.
        FatalError: The content of a file does not fit its name.
    """
    files = [path.absolute() for path in sample_files(paths)]
    count = 1 + sum(path.stat().st_size for path in files) // _SPLIT_BYTES
    return Samples(tuple(sample_splits(files, reading, count)), reading, counting)
