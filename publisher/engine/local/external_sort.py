"""Sorts Arrow batches of any total size: beyond a limit of memory, writes sorted runs to files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

_CHUNK_BYTES = 1 << 20
"""Approximate bytes of a batch in a run; a merge holds one batch of each run in memory."""


class ExternalSort:
    """Collects batches, then yields their rows in order; a context manager that removes its files."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        folder: Path | None = None,
        *,
        memory: int,
    ) -> None:
        """Sorts by ``keys``, nulls first; holds ``memory`` bytes of batches.

        Runs are written below ``folder``; ``None``: the temporary directory of the system."""
        self._schema = schema
        self._keys = tuple(keys)
        self._folder = folder
        self._memory = memory
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0
        self._runs: list[Path] = []
        self._run_folder = Path()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._waiting = []
        self._stack.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows in any order."""
        self._waiting.append(batch)
        self._size += batch.nbytes
        if self._size > self._memory:
            self._write_run()

    def sorted_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows in order.  Call it once, after all rows are added."""
        waiting, self._waiting = self._sort(self._waiting), []
        runs = [_read_run(path) for path in self._runs]
        return _merge([*runs, iter(waiting.to_batches())], self._keys)

    def _sort(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        table = pa.Table.from_batches(batches, self._schema)
        return table.take(_order(table, self._keys))

    def _write_run(self) -> None:
        if not self._runs:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = TemporaryDirectory(prefix="xds-publisher-sort-", dir=self._folder)
            self._run_folder = Path(self._stack.enter_context(folder))
        run = self._sort(self._waiting)
        path = self._run_folder / str(len(self._runs))
        rows = max(1, run.num_rows * _CHUNK_BYTES // self._size)
        with pa.ipc.new_file(path, self._schema) as writer:
            writer.write_table(run, max_chunksize=rows)
        self._runs.append(path)
        self._waiting, self._size = [], 0


class _Head(NamedTuple):
    """The first batch of a run that is not merged yet, and the batches after it."""

    batch: pa.RecordBatch
    following: Iterator[pa.RecordBatch]


def _merge(
    runs: Sequence[Iterator[pa.RecordBatch]], keys: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Merges sorted runs: each step yields all rows up to the smallest last row of the runs' batches."""
    heads = [head for run in runs if (head := _next_head(run))]
    while len(heads) > 1:
        bound = min(_key(head.batch, head.batch.num_rows - 1, keys) for head in heads)
        below: list[pa.RecordBatch] = []
        remaining: list[_Head] = []
        for head in heads:
            batch = head.batch
            rows = _rows_up_to(bound, batch, keys)
            below.append(batch.slice(0, rows))
            remainder = _Head(batch.slice(rows), head.following)
            after = remainder if remainder.batch.num_rows else _next_head(head.following)
            remaining += [after] if after else []
        merged = pa.Table.from_batches(below)
        yield from merged.take(_order(merged, keys)).to_batches()
        heads = remaining
    for head in heads:
        yield head.batch
        yield from head.following


def _rows_up_to(
    bound: tuple[tuple[bool, Any], ...], batch: pa.RecordBatch, keys: Sequence[str]
) -> int:
    """Counts the rows of a sorted batch whose key is at most ``bound``."""
    return bisect_right(range(batch.num_rows), bound, key=lambda row: _key(batch, row, keys))


def _next_head(run: Iterator[pa.RecordBatch]) -> _Head | None:
    batch = next((batch for batch in run if batch.num_rows), None)
    return None if batch is None else _Head(batch, run)


def _read_run(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _order(rows: pa.Table, keys: Sequence[str]) -> pa.Array:
    """Sorts null before values.  The option for it differs between releases of Arrow: a column does it."""
    columns: dict[str, pa.ChunkedArray] = {}
    for key in keys:
        column = rows.column(key)
        if column.null_count:
            columns[f"{key} is valid"] = column.is_valid()
        columns[key] = column
    return pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns])


def _key(batch: pa.RecordBatch, row: int, keys: Sequence[str]) -> tuple[tuple[bool, Any], ...]:
    """The sort key of a row, which orders rows as ``_order`` does."""
    values = (batch.column(key)[row].as_py() for key in keys)
    return tuple((value is not None, value) for value in values)
