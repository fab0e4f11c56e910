"""Ranks of the events of an event log that is published in the order of event times.

A place is an event time and a record id; events of one place have one rank, so that polls count a repeated
record once.  As for record ids (``event_ranks``), a task that reads a split writes its places to a file and
sends every lane a note with the name of the file; a lane ranks its events among the places of all splits.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.record_batches import Place
from publisher.formats.event_ranks import SplitNotes, notes_of, unknown_id
from publisher.model.arrays import Int64Array
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.model.sorted_ids import IdFile, sort_distinct

TIME_BASE = 1 << 60
"""Added to an event time in microseconds, so that it is positive and greater than all record ids."""
_RANK = RECORD_SCHEMA.get_field_index("rank")


def with_times(
    records: Iterable[pa.RecordBatch], place: Place, folder: Path
) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split with their times as ranks, then a note to each lane."""
    found = [np.zeros((2, 0), np.int64)]
    for batch in records:
        is_event = batch.column("outcome").is_null()
        events = batch.filter(is_event)
        found.append(_distinct(_places_of(events)))
        times = pc.add(batch.column("event_time"), TIME_BASE)
        rank = pc.if_else(is_event, times, batch.column("rank"))
        yield batch.set_column(_RANK, RECORD_SCHEMA.field(_RANK), rank)
    places = _distinct(np.concatenate(found, axis=1))
    name = f"{place.split:05d}-{secrets.token_hex(8)}.npy"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / name).touch(0o600)
    np.save(folder / name, places)
    yield notes_of(place, IdFile(name, places.shape[1], 0, 0))


class TimeRanks(SplitNotes):
    """Ranks the events of one source in one lane."""

    def rank(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Sets the ranks of changes.  Raises ``InternalError`` for an unknown place."""
        places = _places_of(changes)
        at = np.searchsorted(self._known, self._numbers(places))
        is_known = at < len(self._known)
        is_known[is_known] = np.all(self._places[:, at[is_known]] == places[:, is_known], axis=0)
        if not is_known.all():
            raise unknown_id(int(places[1][~is_known][0]))
        return changes.set_column(_RANK, RECORD_SCHEMA.field(_RANK), pa.array(at + 1))

    @cached_property
    def _places(self) -> Int64Array:
        """The places of all splits, in their order."""
        self.check()
        files = [np.load(self.folder / file.name) for file in self.files]
        return _distinct(np.concatenate([np.zeros((2, 0), np.int64), *files], axis=1))

    @cached_property
    def _times_and_ids(self) -> tuple[Int64Array, Int64Array]:
        times, ids = self._places
        return sort_distinct(times), sort_distinct(ids)

    @cached_property
    def _known(self) -> Int64Array:
        return self._numbers(self._places)

    def _numbers(self, places: Int64Array) -> Int64Array:
        """One number for each place, in the order of places."""
        times, ids = (
            np.searchsorted(known, each)
            for known, each in zip(self._times_and_ids, places, strict=True)
        )
        numbers: Int64Array = times * (len(self._times_and_ids[1]) + 1) + ids
        return numbers


def _places_of(events: pa.RecordBatch) -> Int64Array:
    columns = (events.column(name).to_numpy() for name in ("event_time", "high"))
    return np.stack([column.astype(np.int64) for column in columns])


def _distinct(places: Int64Array) -> Int64Array:
    """Sorts places and removes repetitions."""
    places = places[:, np.lexsort(places[::-1])]
    is_first = np.ones(places.shape[1], np.bool_)
    is_first[1:] = np.any(places[:, 1:] != places[:, :-1], axis=0)
    distinct: Int64Array = places[:, is_first]
    return distinct
