"""Tasks that a source asks for while it prepares a run, carried out by an engine."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from publisher.database.resources import Resources, Rules
from publisher.engine.contract import Engine, Packing
from publisher.formats.contract import Source
from publisher.formats.task_runner import Findings, Item, ShuffleWork
from publisher.model.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class EngineTasks:
    """Implements ``TaskRunner``."""

    engine: Engine
    rules: Rules
    source: Source | None = None
    """The source whose tables the catalogue describes; ``None`` if no task needs a catalogue."""

    def survey(
        self, survey: Callable[[Item, Catalogue], Findings], items: Sequence[Item]
    ) -> list[Findings]:
        """See ``TaskRunner.survey``."""
        task = partial(_survey, survey, self.rules, self.source)
        return self.engine.map(task, items, f"survey {len(items)} parts of the input")

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``TaskRunner.shuffle``."""
        rows = self.engine.read(range(work.parts), work.read, f"compare {work.partitions} parts")
        moved = rows.exchange(Packing(work.schema, "partition"), work.partitions)
        return moved.gather(partial(_process, work))


def _survey(
    survey: Callable[[Any, Catalogue], Any], rules: Rules, source: Source | None, item: object
) -> Any:
    with Resources(rules) as resources:
        catalogue = resources.catalogue
        if source is not None:
            catalogue = resources.catalogue_of(source.format, source.tables())
        return survey(item, catalogue)


def _process(work: ShuffleWork, partition: int, pieces: Iterator[pa.RecordBatch]) -> str:
    return work.process(partition, pieces, secrets.token_hex(4))
