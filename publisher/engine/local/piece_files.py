"""Files with the pieces of a shuffle: tasks that read write them, tasks that process read them.

An index names the place of each piece, so that a lane's pieces are read in order, and one after the other,
without sorting their data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DATA = "data"
"""The column of a piece that goes to the file."""
_PLACE = [("file", pa.string()), ("offset", pa.int64()), ("size", pa.int64())]
"""Columns of the index in place of the data; ``size`` is null for pieces without data."""
_BYTES_TOGETHER = 1 << 20
"""Maximum bytes of pieces that are read together, unless one piece has more."""


def write_pieces(pieces: Iterable[pa.RecordBatch], schema: pa.Schema, file: Path) -> pa.Table:
    """Writes the data of pieces to a new file; returns their index."""
    index_schema = _index_schema(schema)
    batches: list[pa.RecordBatch] = []
    end = 0
    with file.open("xb") as target:
        for batch in pieces:
            data = batch.column(_DATA)
            target.writelines(piece.as_buffer() for piece in data if piece.is_valid)
            sizes = pc.binary_length(data).cast(pa.int64())
            ends = end + np.cumsum(sizes.fill_null(0).to_numpy())
            place = [pa.repeat(str(file), len(data)), pc.subtract(pa.array(ends), sizes), sizes]
            columns = [batch.column(name) for name in index_schema.names[: -len(place)]]
            batches.append(pa.RecordBatch.from_arrays([*columns, *place], schema=index_schema))
            end = int(ends[-1]) if len(ends) else end
    return pa.Table.from_batches(batches, index_schema)


def sort_index(parts: Sequence[pa.Table], schema: pa.Schema, keys: Sequence[str]) -> pa.Table:
    """Joins the indexes of several files, and sorts the pieces by ``keys``, nulls first."""
    index = pa.concat_tables([_index_schema(schema).empty_table(), *parts])
    order = [(key, "ascending", "at_start") for key in keys]
    return index.take(pc.sort_indices(index, sort_keys=order)).combine_chunks()


def read_pieces(index: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the pieces of an index in its order."""
    sizes = index["size"].fill_null(0).to_numpy()
    portions = (np.cumsum(sizes) // _BYTES_TOGETHER).tolist()
    start = 0
    for _, group in groupby(portions):
        count = len(list(group))
        part = index.slice(start, count).combine_chunks()
        data = pa.array(_read_data(part), schema.field(_DATA).type)
        columns = [data if name == _DATA else part[name] for name in schema.names]
        yield from pa.Table.from_arrays(columns, schema=schema).to_batches()
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
