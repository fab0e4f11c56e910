"""Surveys the sources that publish changes of keys, before their splits are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from publisher.engine.connected_keys import ConnectedKeys, KeySurvey, survey_records
from publisher.engine.sealed_records import seal_records, unseal_records
from publisher.engine.tasks import SourceWork, Work, read_records
from publisher.model.catalogue import Catalogue
from publisher.sources.task_runner import TaskRunner


def connect_keys(work: Work, tasks: TaskRunner) -> Work:
    """Returns the work with the connected keys of its sources, which tasks find in all splits."""
    sources: list[SourceWork] = []
    first = 0
    for number, source in enumerate(work.sources):
        splits = range(first, first + len(source.splits))
        first = splits.stop
        if source.source.joins_keys and splits:
            surveys = tasks.survey(partial(_survey, work), splits)
            sources.append(_connect(work, number, surveys))
        else:
            sources.append(source)
    return replace(work, sources=tuple(sources))


def _survey(work: Work, split: int, _: Catalogue) -> KeySurvey:
    survey, masking = survey_records(read_records(work, split)), work.rules.masking
    if masking is None:
        return survey
    sealed = seal_records(survey.changes.to_batches(), masking.masker)
    return replace(survey, changes=pa.Table.from_batches(sealed, survey.changes.schema))


def _connect(work: Work, number: int, surveys: Sequence[KeySurvey]) -> SourceWork:
    source, masking = work.sources[number], work.rules.masking
    changes = [survey.changes for survey in surveys]
    if masking is not None:
        changes = [
            pa.Table.from_batches(unseal_records(table.to_batches(), masking.masker), table.schema)
            for table in changes
        ]
    keys = ConnectedKeys.write(
        work.shared / f"keys-{number}",
        changes,
        work.lanes,
        source.place_of,
        masking,
    )
    splits = [
        source.source.read_until(split, survey.last)
        for split, survey in zip(source.splits, surveys, strict=True)
    ]
    return replace(source, connected_keys=keys, splits=tuple(splits))
