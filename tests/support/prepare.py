"""Prepares a source in this process, with a catalogue of the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from publisher.database.options import DatabaseOptions
from publisher.formats.contract import (
    CarryOver,
    Context,
    PrepareContext,
    PreparedSource,
    Source,
)
from publisher.formats.task_runner import Findings, Item, ShuffleWork
from publisher.model.catalogue import Catalogue
from publisher.runs.relate_groups import read_here


@dataclass(frozen=True, slots=True)
class LocalTasks:
    """Implements ``TaskRunner``: one task after the other, with all pieces in memory."""

    catalogue: Catalogue

    def survey(
        self, survey: Callable[[Item, Catalogue], Findings], items: Sequence[Item]
    ) -> list[Findings]:
        """See ``TaskRunner.survey``."""
        return [survey(item, self.catalogue) for item in items]

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``TaskRunner.shuffle``."""
        pieces: dict[int, list[pa.RecordBatch]] = {}
        for part in range(work.parts):
            for batch in work.read(part):
                for row, partition in enumerate(batch.column("partition").to_pylist()):
                    pieces.setdefault(partition, []).append(batch.slice(row, 1))
        return [
            work.process(partition, pieces.pop(partition, []), "here")
            for partition in range(work.partitions)
        ]


def read_prepared(prepared: PreparedSource, context: Context) -> list[list[pa.RecordBatch]]:
    """The records of each split, after rows that depend on each other have met."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="xds-publisher-"))
        readers = read_here(prepared, context, Path(folder), stack)
        return [list(reader) for reader in readers]


@contextmanager
def prepare_here(
    source: Source,
    paths: Sequence[str | os.PathLike[str]],
    wanted: int,
    catalogue: Catalogue,
    *,
    carry_over: CarryOver | None = None,
    database: DatabaseOptions | None = None,
    sample: int | None = None,
) -> Iterator[PreparedSource]:
    """Prepares a source whose splits are read in this process, while the context is open."""
    with ExitStack() as stack:
        if carry_over is None:
            folder = stack.enter_context(TemporaryDirectory(prefix="xds-publisher-"))
            staged = Path(folder, "state")
        else:
            staged = carry_over.after
        yield source.prepare(
            PrepareContext(
                wanted=wanted,
                catalogue=catalogue,
                tasks=LocalTasks(catalogue),
                stack=stack,
                staged=staged,
                paths=tuple(map(Path, paths)),
                database=database,
                carry_over=carry_over,
                sample=sample,
            )
        )
