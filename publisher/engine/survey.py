"""The survey of sources whose records depend on each other across the whole of their input.

Such a source is read twice: first for a few facts of each split that matter to the others, then for its
records.  The engine surveys splits in tasks; commands without an engine survey them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from publisher.engine.tasks import Resources, Work
from publisher.sources.contract import Context, Source, Surveyed
from publisher.sources.files.file_splits import Split

Facts = tuple[int, pa.RecordBatch]
"""Number of a split, and its facts."""


def survey_sources(work: Work, survey: Callable[[Work, Sequence[int]], Iterable[Facts]]) -> Work:
    """Surveys the sources that need it, with ``survey``, and gives them the facts of their splits."""
    splits = work.splits()
    wanted = [
        number
        for number, (source, _) in enumerate(splits)
        if isinstance(work.sources[source].source, Surveyed)
    ]
    found: dict[int, list[pa.RecordBatch]] = {
        number: [] for number, one in enumerate(work.sources) if isinstance(one.source, Surveyed)
    }
    if not found:
        return work
    for number, facts in survey(work, wanted) if wanted else ():
        found[splits[number][0]].append(facts)
    sources = list(work.sources)
    for number, facts_of_source in found.items():
        source = sources[number].source
        assert isinstance(source, Surveyed)
        sources[number] = replace(sources[number], source=source.with_survey(facts_of_source))
    return replace(work, sources=tuple(sources))


def survey_splits(work: Work, numbers: Iterable[int]) -> Iterator[Facts]:
    """The facts of some splits, one after the other."""
    splits = work.splits()
    with Resources(work.rules) as resources:
        for number in numbers:
            source, split = splits[number]
            reader = work.sources[source].source
            assert isinstance(reader, Surveyed)
            assert isinstance(split, Split)
            context = Context(source=source, lanes=work.lanes, catalogue=resources.catalogue)
            yield number, reader.survey(split, context)


def survey_source(source: Source, splits: Iterable[Split], context: Context) -> Source:
    """One source that knows what its survey found, in this process."""
    if not isinstance(source, Surveyed):
        return source
    return source.with_survey(source.survey(split, context) for split in splits)
