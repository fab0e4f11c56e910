"""Writes decoded samples of the table queue as JSON lines, for people and scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from publisher.activity.report import iso_time
from publisher.masking.masker import Masker
from publisher.masking.sealed_rejects import SEALED_DETAIL, seal_reject
from publisher.sources.table_queue.options import TableQueueOptions
from publisher.sources.table_queue.reading import read_samples, sample_files, sample_splits


def call_lines(
    paths: Sequence[str | os.PathLike[str]],
    options: TableQueueOptions,
    masker: Masker | None = None,
) -> Iterator[str]:
    """Yields each call as a JSON line without unknown fields, in the order of the files.

    A masker seals the raw records of unusable calls.

    Raises:
        UsageError: The paths name no samples.
        FatalError: A file does not have the form that its name indicates.
    """
    for split in sample_splits(sample_files(paths), options, 1):
        for batch in read_samples(split, options):
            for call in batch.to_pylist():
                shown = call if masker is None else call | _sealed(call, masker)
                yield json.dumps(_plain_call(shown, options), ensure_ascii=False)


def _sealed(call: dict[str, Any], masker: Masker) -> dict[str, Any]:
    if call["raw"] is None and call["detail"] is None:
        return {}
    raw = seal_reject(call["detail"], call["raw"], masker, {})
    return {"detail": SEALED_DETAIL, "raw": raw}


def _plain_call(call: dict[str, Any], options: TableQueueOptions) -> dict[str, Any]:
    plain = call | {"time": iso_time(call["time"]), "schema": options.owners.get(call["owner"])}
    return {name: value for name, value in plain.items() if value is not None}
