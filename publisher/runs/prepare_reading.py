"""Prepares the reading of files outside of runs: their changes are read, not planned."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from publisher.config.settings import Settings
from publisher.database.resources import Resources
from publisher.engine.contract import Engine, InputSize
from publisher.formats.work import Work
from publisher.model.clock import microseconds
from publisher.model.event_ids import IdOrigin
from publisher.runs.prepare import prepare_context, source_work
from publisher.runs.relate_groups import count_partitions

_PART_BYTES = 4 << 20
"""Minimum bytes of a part: a task that reads less costs more than the reading."""


def prepare_reading(
    settings: Settings,
    paths: Sequence[Path],
    engine: Engine,
    folder: Path,
    stack: ExitStack,
    most: int,
) -> Work:
    """Prepares the work of tasks that read the changes in files with the only source of settings.

    Tasks need ``folder``, which they all see, and the resources of ``stack``.  Large files are cut into
    at most about ``most`` parts.  Raises the errors of the source.
    """
    [source] = settings.sources
    reader, rules = source.reader, settings.rules
    files = tuple(path.absolute() for path in reader.files(paths))  # executors work elsewhere
    size = sum(path.stat().st_size for path in files)
    engine.expect(lambda: InputSize(bytes=size))
    wanted = min(most, 1 + size // _PART_BYTES)
    with Resources(rules) as resources:
        source = replace(source, snapshots=files)
        context = prepare_context(source, resources, engine, stack, folder / "state", wanted)
        prepared = reader.prepare(context)
    work = source_work(source, prepared, IdOrigin.of("", source.name))
    return Work(
        sources=(replace(work, polls=None),),
        rules=rules,
        lanes=settings.run.lane_count,
        clock=microseconds(None),
        shared=folder / "shared",
        partitions=count_partitions(InputSize(bytes=size)),
    )
