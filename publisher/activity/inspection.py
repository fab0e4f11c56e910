"""Writes decoded samples of the table queue as JSON lines, for people and scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from publisher.activity.report import iso_time
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.formats.table_queue.reading import read_samples, sample_files, sample_splits
from publisher.masking.masker import HIDDEN_DETAIL


def call_lines(
    paths: Sequence[str | os.PathLike[str]],
    options: TableQueueOptions,
    *,
    masked: bool = False,
) -> Iterator[str]:
    """Yields each call as a JSON line without unknown fields, in the order of the files.

    With ``masked`` it leaves out the raw records of unusable calls, which quote values.

    Raises:
        UsageError: The paths name no samples.
        FatalError: A file does not have the form that its name indicates.
    """
    for split in sample_splits(sample_files(paths), options, 1):
        for batch in read_samples(split, options):
            for call in batch.to_pylist():
                if masked and call["detail"] is not None:
                    call |= {"detail": HIDDEN_DETAIL, "raw": None}
                yield json.dumps(_plain_call(call, options), ensure_ascii=False)


def _plain_call(call: dict[str, Any], options: TableQueueOptions) -> dict[str, Any]:
    plain = call | {"time": iso_time(call["time"]), "schema": options.owners.get(call["owner"])}
    return {name: value for name, value in plain.items() if value is not None}
