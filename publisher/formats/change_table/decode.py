"""Decodes the rows of a change table: text, position, operation; what cannot be used is rejected here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.change_table.rows import rows_of, write_rows
from publisher.formats.change_table.to_changes import ChangeTableChangeBuilder
from publisher.formats.change_table.waiting import do_wait
from publisher.formats.columns.record_batches import Place, broken, tally
from publisher.formats.files.frame import Frame


def decode(
    frames: Iterable[Frame],
    place: Place,
    layout: ChangeTableLayout,
    builder: ChangeTableChangeBuilder,
    file: int = 0,
    cut: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a split without faults; as records, the others and those that wait, then the tally.

    Rows wait from the change_seq ``cut`` on."""
    count = 0
    for frame in frames:
        count += frame.batch.num_rows + len(frame.broken)
        if frame.broken:
            yield broken(frame, place)
        rows = rows_of(frame, layout, builder.columns.text, file=file, split=place.split)
        if cut is not None and (waiting := do_wait(rows, cut)).any():
            yield builder.rejects.hold(rows.take(np.flatnonzero(waiting)), cut)
            rows = rows.without(waiting)
        if rows.faults:
            yield builder.rejects.reject_rows(rows)
            rows = rows.take(np.setdiff1d(np.arange(len(rows)), [*rows.faults]))
        if len(rows):
            yield write_rows(rows)
    yield tally(place, count)
