"""Groups the keys that changes of keys connect, before the splits are read for their lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from publisher.engine.contract import Engine
from publisher.sources.connected_keys import ConnectedKeys, KeySurvey, survey_records
from publisher.sources.work import SourceWork, Work, read_records


def group_keys(work: Work, engine: Engine) -> Work:
    """Returns the work with one lane for all keys of an object, of sources that publish changes of keys.

    Their splits are read once more for it."""
    sources: list[SourceWork] = []
    first = 0
    for number, source in enumerate(work.sources):
        splits = range(first, first + len(source.splits))
        first = splits.stop
        if source.source.joins_keys and splits:
            surveys = engine.map(partial(_survey, work), splits, "find changes of keys")
            sources.append(_connect(work, number, surveys))
        else:
            sources.append(source)
    return replace(work, sources=tuple(sources))


def _survey(work: Work, split: int) -> KeySurvey:
    return survey_records(read_records(work, split))


def _connect(work: Work, number: int, surveys: Sequence[KeySurvey]) -> SourceWork:
    source = work.sources[number]
    keys = ConnectedKeys.write(
        work.shared / f"keys-{number}",
        [survey.changes for survey in surveys],
        work.lanes,
        source.place_of,
    )
    splits = [
        source.source.read_until(split, survey.last)
        for split, survey in zip(source.splits, surveys, strict=True)
    ]
    return replace(source, connected_keys=keys, splits=tuple(splits))
