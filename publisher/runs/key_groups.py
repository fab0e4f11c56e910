"""Groups the keys that changes of keys connect, before the splits are read for their lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from publisher.engine.contract import Engine
from publisher.formats.connected_keys import ConnectedKeys, KeySurvey, survey_records
from publisher.formats.work import SourceWork, Work, read_records, read_split
from publisher.runs.relate_groups import relate_groups


def group_keys(work: Work, engine: Engine) -> Work:
    """Returns the work with one lane for all keys of an object, of sources that publish changes of keys.

    Their splits are read once more for it."""
    sources: list[SourceWork] = []
    first = 0
    for number, source in enumerate(work.sources):
        splits = range(first, first + len(source.splits))
        first = splits.stop
        if not (source.source.joins_keys and splits):
            sources.append(source)
            continue
        read = read_split if source.source.group_columns else read_records
        records = engine.read(splits, partial(read, work), "find changes of keys")
        if source.source.group_columns:
            records = relate_groups(records, work, work.shared)
        surveys = records.gather(_survey)
        keys = _connect(work, number, surveys)
        sources.append(replace(_read_until(source, surveys), connected_keys=keys))
    return replace(work, sources=tuple(sources))


def _survey(_: int, records: Iterator[pa.RecordBatch]) -> KeySurvey:
    return survey_records(records)


def _read_until(source: SourceWork, surveys: Sequence[KeySurvey]) -> SourceWork:
    """Returns the source without rows that were added after the survey of its splits."""
    if source.source.group_columns:
        return source
    splits = [
        source.source.read_until(split, survey.last)
        for split, survey in zip(source.splits, surveys, strict=True)
    ]
    return replace(source, splits=tuple(splits))


def _connect(work: Work, number: int, surveys: Sequence[KeySurvey]) -> ConnectedKeys:
    return ConnectedKeys.write(
        work.shared / f"keys-{number}",
        [survey.changes for survey in surveys],
        work.lanes,
        work.sources[number].place_of,
    )
