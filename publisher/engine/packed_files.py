"""Files with packed rows: tasks that read write them, tasks that process a partition read them.

An index names the place of each value, so that a partition is read in order without sorting its data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.engine.contract import Packing

_DATA = "data"
"""The column of packed rows that goes to the file."""
_PLACE = [("file", pa.string()), ("offset", pa.int64()), ("size", pa.int64())]
"""Columns of the index in place of the data; ``size`` is null for rows without data."""
_BYTES_TOGETHER = 1 << 20
"""Maximum bytes of values that are read together, unless one has more."""


def write_packed(packed: Iterable[pa.RecordBatch], packing: Packing, file: Path) -> pa.Table:
    """Writes the data of packed rows to a new file; returns their index."""
    index_schema = _index_schema(packing.schema)
    batches: list[pa.RecordBatch] = []
    end = 0
    with file.open("xb") as target:
        for batch in packed:
            data = batch.column(_DATA)
            target.writelines(value.as_buffer() for value in data if value.is_valid)
            sizes = pc.binary_length(data).cast(pa.int64())
            ends = end + np.cumsum(sizes.fill_null(0).to_numpy())
            place = [pa.repeat(str(file), len(data)), pc.subtract(pa.array(ends), sizes), sizes]
            columns = [batch.column(name) for name in index_schema.names[: -len(place)]]
            batches.append(pa.RecordBatch.from_arrays([*columns, *place], schema=index_schema))
            end = int(ends[-1]) if len(ends) else end
    return pa.Table.from_batches(batches, index_schema)


def divide_index(
    indexes: Sequence[pa.Table], packing: Packing, partitions: int
) -> Iterator[pa.Table]:
    """Yields the index of each partition in the order of ``packing``, from those of several files."""
    index = pa.concat_tables([_index_schema(packing.schema).empty_table(), *indexes])
    order = [(name, "ascending", "at_start") for name in packing.order]
    if order:
        index = index.take(pc.sort_indices(index, sort_keys=order)).combine_chunks()
    for number in range(partitions):
        yield index.filter(pc.equal(index[packing.column], number))


def read_packed(index: pa.Table, packing: Packing) -> Iterator[pa.RecordBatch]:
    """Yields the packed rows of an index in its order."""
    sizes = index["size"].fill_null(0).to_numpy()
    portions = (np.cumsum(sizes) // _BYTES_TOGETHER).tolist()
    start = 0
    for _, group in groupby(portions):
        count = len(list(group))
        part = index.slice(start, count).combine_chunks()
        data = pa.array(_read_data(part), packing.schema.field(_DATA).type)
        columns = [data if name == _DATA else part[name] for name in packing.schema.names]
        yield from pa.Table.from_arrays(columns, schema=packing.schema).to_batches()
        start += count


def _read_data(index: pa.Table) -> Iterator[bytes | None]:
    places = zip(*(index[name].to_pylist() for name, _ in _PLACE), strict=True)
    for path, of_file in groupby(places, key=lambda place: place[0]):
        with Path(path).open("rb") as file:
            for _, offset, size in of_file:
                if size is None:
                    yield None
                else:
                    file.seek(offset)
                    yield file.read(size)


def _index_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*(field for field in schema if field.name != _DATA), *_PLACE])
