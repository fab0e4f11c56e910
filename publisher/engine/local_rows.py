"""Rows of the local engine: small input stays in memory, other rows travel between tasks in files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from publisher.console import Phase, Progress
from publisher.engine.contract import Apply, Batches, Item, Packing, Result, list_rows
from publisher.engine.packed_files import divide_index, read_packed, write_packed

if TYPE_CHECKING:
    from publisher.engine.local import LocalEngine

Part = Callable[[], Iterable[pa.RecordBatch]]
"""Reads one partition; a plain value, which other processes may call."""


def read_rows(
    engine: LocalEngine,
    splits: Sequence[Item],
    decode: Callable[[Item], Iterable[pa.RecordBatch]],
) -> LocalRows:
    """The rows of splits, each read in a task of its own."""
    parts = [partial(decode, split) for split in splits]
    return LocalRows(engine, lambda *_: parts)


class LocalRows:
    """Implements ``engine.contract.Rows``: reads when the results are asked for."""

    def __init__(
        self,
        engine: LocalEngine,
        open_parts: Callable[[ExitStack, Progress | None], Sequence[Part]],
    ) -> None:
        """``open_parts`` prepares the partitions; the stack removes their files."""
        self._engine = engine
        self._open_parts = open_parts

    def exchange(self, packing: Packing, partitions: int, folder: Path | None = None) -> LocalRows:
        """See ``Rows.exchange``."""
        return LocalRows(self._engine, partial(self._exchange, packing, partitions, folder))

    def apply(self, task: Apply) -> LocalRows:
        """See ``Rows.apply``."""

        def open_parts(stack: ExitStack, progress: Progress | None) -> Sequence[Part]:
            parts = self._open_parts(stack, progress)
            return [partial(_apply, task, number, part) for number, part in enumerate(parts)]

        return LocalRows(self._engine, open_parts)

    def gather(
        self, task: Callable[[int, Batches], Result], progress: Progress | None = None
    ) -> list[Result]:
        """See ``Rows.gather``."""
        with ExitStack() as stack:
            parts = list(enumerate(self._open_parts(stack, progress)))
            phase = Phase.PLANNING, len(parts)
            return self._engine.each(partial(_call, task), parts, phase, progress)

    def open(self, stack: ExitStack) -> Sequence[Part]:
        """Returns readers of the partitions, for this process; the stack removes their files."""
        return self._open_parts(stack, None)

    def collect(self) -> list[pa.RecordBatch]:
        """See ``Rows.collect``."""
        return list(chain.from_iterable(self.gather(list_rows)))

    def _exchange(
        self,
        packing: Packing,
        partitions: int,
        folder: Path | None,
        stack: ExitStack,
        progress: Progress | None,
    ) -> Sequence[Part]:
        parts = self._open_parts(stack, progress)
        if not self._engine.shares_cores():
            few, more = self._take_few(_read_all(parts, progress))
            if packing.divide is not None and more is None:
                of_partitions = dict(packing.divide(pa.concat_batches(few))) if few else {}
                return [
                    partial(iter, [of_partitions[number]] if number in of_partitions else [])
                    for number in range(partitions)
                ]
            parts = [partial(chain, few, more or ())]
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = TemporaryDirectory(prefix="xds-publisher-rows-", dir=folder)
        write = partial(_pack, packing, Path(stack.enter_context(place)))
        phase = Phase.READING, len(parts)
        indexes = self._engine.each(write, list(enumerate(parts)), phase, progress)
        return [
            partial(_unpack, packing, index) for index in divide_index(indexes, packing, partitions)
        ]

    def _take_few(
        self, rows: Iterable[pa.RecordBatch]
    ) -> tuple[list[pa.RecordBatch], Iterable[pa.RecordBatch] | None]:
        """Takes rows while they fit in memory; returns them, and the others, ``None`` if there are none."""
        few: list[pa.RecordBatch] = []
        size = 0
        rows = iter(rows)
        for batch in rows:
            few.append(batch)
            size += batch.nbytes
            if size > self._engine.memory:
                return few, rows
        return few, None


def _read_all(parts: Sequence[Part], progress: Progress | None) -> Iterable[pa.RecordBatch]:
    for number, part in enumerate(parts):
        if progress is not None:
            progress(Phase.READING, number, len(parts))
        yield from part()


def _pack(packing: Packing, folder: Path, numbered: tuple[int, Part]) -> pa.Table:
    number, part = numbered
    return write_packed(packing.pack(part()), packing, folder / str(number))


def _unpack(packing: Packing, index: pa.Table) -> Batches:
    return packing.unpack(read_packed(index, packing))


def _apply(task: Apply, number: int, part: Part) -> Iterable[pa.RecordBatch]:
    return task(number, iter(part()))


def _call(task: Callable[[int, Batches], Result], numbered: tuple[int, Part]) -> Result:
    number, part = numbered
    return task(number, iter(part()))
