"""Rows in temporary files, partitioned by a hash, so that each partition fits into memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import pyarrow as pa

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class PartitionFiles:
    """Collects rows by partition, then reads each partition; a context manager that removes its files."""

    def __init__(self, schema: pa.Schema, count: int) -> None:
        self._schema = schema
        self.count = count
        self._writers: dict[int, Any] = {}
        self._stack = ExitStack()
        self._folder = Path()

    def __enter__(self) -> Self:
        folder = TemporaryDirectory(prefix="xds-publisher-diff-")
        self._folder = Path(self._stack.enter_context(folder))
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()
        self._stack.close()

    def add(self, rows: pa.Table, partitions: np.ndarray) -> None:
        """Adds rows, each to its partition."""
        if not rows.num_rows:
            return
        order = np.argsort(partitions, kind="stable")
        ordered = rows.take(pa.array(order)) if self.count > 1 else rows
        numbers, starts = np.unique(partitions[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
            self._writer(number).write_table(ordered.slice(start, end - start))

    def read(self) -> Iterator[pa.Table]:
        """Yields the rows of each partition that has any, in the order in which they were added."""
        numbers = sorted(self._writers)
        self._close()
        for number in numbers:
            path = self._folder / str(number)
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
                table = reader.read_all()
            path.unlink()
            yield table

    def _writer(self, number: int) -> Any:
        if number not in self._writers:
            path = str(self._folder / str(number))
            self._writers[number] = pa.ipc.new_stream(path, self._schema, options=_OPTIONS)
        return self._writers[number]

    def _close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers = {}


def text_partitions(texts: pa.ChunkedArray, count: int) -> np.ndarray:
    """The partition of each text: the lane of an object, if ``count`` is the number of lanes."""
    encoded = texts.combine_chunks().dictionary_encode()
    numbers = [zlib.crc32(text.encode()) % count for text in encoded.dictionary.to_pylist()]
    partitions: np.ndarray = np.array(numbers, np.int64)[encoded.indices.to_numpy()]
    return partitions
