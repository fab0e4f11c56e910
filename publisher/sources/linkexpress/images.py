"""Items of records as the lists of columns and values in changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from publisher.sources.columns.byte_areas import Offsets
from publisher.sources.columns.byte_texts import TextColumn
from publisher.sources.linkexpress.layout import DELETE
from publisher.sources.linkexpress.object_names import ExtractedTableNames


def build_images(
    names: ExtractedTableNames, texts: list[pa.Array], live: Offsets, codes: Offsets
) -> tuple[pa.Array, pa.Array]:
    """Builds names and new values of the items outside the key; deletes have none."""
    columns = [names.columns[number] for number in names.others]
    deletes = codes == DELETE
    if not columns:  # an insert has one column at least, as in event logs
        columns = [names.columns[names.key[0]]]
        texts = [pa.nulls(int(live[-1]) + 1, pa.string())]
        deletes = codes != 1
        deletes &= codes != 0
    width, total = len(columns), len(texts[0])
    filled = np.flatnonzero(~deletes)
    offsets = np.zeros(len(live) + 1, np.int32)
    np.cumsum(np.where(deletes, 0, width), out=offsets[1:])
    places = live[filled][:, None] + np.arange(width, dtype=np.int64) * total
    values = pa.concat_arrays(texts).take(pa.array(places.ravel()))
    spelled = pa.array(columns, pa.string()).take(pa.array(np.tile(np.arange(width), len(filled))))
    named = pa.ListArray.from_arrays(pa.array(offsets), spelled)
    mask = codes == DELETE
    new = pa.ListArray.from_arrays(
        pa.array(offsets), values, mask=pa.array(mask) if mask.any() else None
    )
    return named, new


def spread_column(column: TextColumn, places: Offsets, count: int) -> TextColumn:
    """Spreads a column of some rows over all; the others are null."""
    where = np.full(count, -1, np.int64)
    where[places] = np.arange(len(places))
    wrong = np.zeros(count, bool)
    wrong[places] = column.wrong
    return TextColumn(column.texts.take(pa.array(where, mask=where < 0)), wrong)
