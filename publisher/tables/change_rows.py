"""Records as rows of the table of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.work import Work, mask_shown_records
from publisher.model.change import TALLY, Outcome, Position
from publisher.model.change_batches import tuples
from publisher.tables.columns import CHANGES, TIME, schema_of

CHANGE_ROWS = schema_of(CHANGES)
_LABELS = pa.array([""] + [outcome.label for outcome in Outcome])
"""The names of outcomes by their numbers."""


def change_rows(
    work: Work, _partition: int, records: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields records of the only source of a work, masked if the job is, as batches of ``CHANGE_ROWS``."""
    reader = work.sources[0].source
    files = pa.array([reader.file_of(split) for _, split in work.splits()], pa.string())
    for batch in mask_shown_records(work, 0, records):
        shown = batch.filter(pc.not_equal(pc.fill_null(batch.column("outcome"), 0), TALLY))
        if not shown.num_rows:
            continue
        derived = {
            "position": position_texts(reader.position_text, shown),
            "file": files.take(shown.column("split")),
            "event_time": shown.column("event_time").cast(TIME),
            "outcome": labels_of(shown.column("outcome")),
        }
        columns = [
            derived[name] if name in derived else shown.column(name) for name in CHANGE_ROWS.names
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=CHANGE_ROWS)


def position_texts(text: Callable[[Position], str], rows: pa.RecordBatch) -> pa.Array:
    """Writes the positions of rows as users do."""
    positions = tuples(Position, rows, Position._fields)
    texts = [text(at if at.part else at._replace(part="")) for at in positions]
    return pa.array(texts, pa.string())


def labels_of(outcomes: pa.Array) -> pa.Array:
    """Replaces the numbers of outcomes by their names."""
    return _LABELS.take(outcomes)
