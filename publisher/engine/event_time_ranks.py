"""Ranks by event time: the place of an event among all events of its source, in that order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

PLACE = ("event_time", "high")
"""Events that are equal in these columns, time and record id, have one rank: polls count a repeated
record once."""
TIME_ORDER = (*PLACE, "split", "row")
"""Order of the events of a source."""

Place = tuple[int, int] | None
"""Event time and record id of an event."""


def first_of_places(batch: pa.RecordBatch, last: Place) -> tuple[np.ndarray, Place]:
    """Marks the events of a sorted batch that differ from their predecessor; also returns the last place.

    ``last`` is the place of the event before the batch."""
    times, ids = (batch.column(name).to_numpy() for name in PLACE)
    is_first = np.ones(len(ids), np.bool_)
    is_first[1:] = (times[1:] != times[:-1]) | (ids[1:] != ids[:-1])
    is_first[0] = last != (times[0], ids[0])
    return is_first, (int(times[-1]), int(ids[-1]))


def set_ranks(events: Iterable[pa.RecordBatch], before: int) -> Iterator[pa.RecordBatch]:
    """Sets the ranks of sorted events, after the ``before`` ranks of earlier events."""
    last: Place = None
    for batch in events:
        if batch.num_rows:
            is_first, last = first_of_places(batch, last)
            ranks = before + np.cumsum(is_first, dtype=np.int64)
            yield batch.set_column(batch.schema.get_field_index("rank"), "rank", pa.array(ranks))
            before = int(ranks[-1])
