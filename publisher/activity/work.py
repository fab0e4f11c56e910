"""What is to be counted, as it goes to the tasks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from publisher.activity.options import ActivityOptions
from publisher.sources.files.file_splits import Split
from publisher.sources.table_queue.options import TableQueueOptions
from publisher.sources.table_queue.reading import sample_files, sample_splits

_BYTES_OF_A_SPLIT = 8 << 20


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples in the parts that tasks read."""

    splits: tuple[Split, ...]
    reading: TableQueueOptions
    counting: ActivityOptions

    @property
    def size(self) -> int:
        """Bytes to be read, about."""
        return sum(split.size for split in self.splits)


def samples_of(
    paths: Sequence[str | os.PathLike[str]], reading: TableQueueOptions, counting: ActivityOptions
) -> Samples:
    """The samples that paths name; those of directories in name order.

    Raises:
        UsageError: There are none, or the form of a file is not known by its name.
        FatalError: A file as a whole is not of its form.
    """
    files = [path.absolute() for path in sample_files(paths)]
    wanted = 1 + sum(path.stat().st_size for path in files) // _BYTES_OF_A_SPLIT
    return Samples(tuple(sample_splits(files, reading, wanted)), reading, counting)
