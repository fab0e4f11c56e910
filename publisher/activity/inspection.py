"""Samples of the table queue for people and scripts: each call with what it says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from publisher.activity.report import moment
from publisher.sources.table_queue.options import TableQueueOptions
from publisher.sources.table_queue.reading import read_samples, sample_files, sample_splits


def elements_of(
    paths: Sequence[str | os.PathLike[str]], options: TableQueueOptions
) -> Iterator[str]:
    """The calls of samples as JSON lines, in the order of the files; what is not known is left out.

    Raises:
        UsageError: There is nothing to read.
        FatalError: A file as a whole is not of its form.
    """
    for split in sample_splits(sample_files(paths), options, 1):
        for batch in read_samples(split, options):
            for call in batch.to_pylist():
                yield json.dumps(_shown(call, options), ensure_ascii=False)


def _shown(call: dict[str, Any], options: TableQueueOptions) -> dict[str, Any]:
    shown = call | {"time": moment(call["time"]), "schema": options.owners.get(call["owner"])}
    return {name: value for name, value in shown.items() if value is not None}
