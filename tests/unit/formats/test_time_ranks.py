"""Ranks by event time: places among the distinct pairs of time and record id, whatever the splits."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.errors import InternalError
from publisher.formats.columns.record_batches import Place, batch
from publisher.formats.time_ranks import TIME_BASE, TimeRanks, with_times
from publisher.model.change import Outcome

Event = tuple[int, int]
"""Event time and record id."""
events = st.tuples(st.integers(-(10**15), 10**15) | st.integers(0, 3), st.integers(1, 5))


def records(found: list[Event], outcome: Outcome | None = None) -> pa.RecordBatch:
    times, ids = np.array(found, np.int64).reshape(-1, 2).T
    decided = None if outcome is None else np.full(len(ids), int(outcome), np.int32)
    return batch(len(ids), part="", rank=ids, high=ids, event_time=times, outcome=decided)


def rank(splits: list[list[Event]], wanted: list[Event], folder: Path) -> list[int]:
    """Ranks events, given those of each split."""
    lane = TimeRanks(folder, range(len(splits)))
    for number, found in enumerate(splits):
        batches = [records(found[at : at + 2]) for at in range(0, len(found), 2)]
        *read, notes = with_times(batches, Place(0, number, "log", 1), folder)
        assert [time for each in read for time in each["rank"].to_pylist()] == [
            TIME_BASE + time for time, _ in found
        ]
        lane.add_notes(notes)
    ranks: list[int] = lane.rank(records(wanted))["rank"].to_pylist()
    return ranks


@given(st.lists(st.lists(events, max_size=6), min_size=1, max_size=3))
def test_equal_places_share_a_rank(splits: list[list[Event]]) -> None:
    wanted = sorted(event for split in splits for event in split)
    places = sorted(set(wanted))
    with tempfile.TemporaryDirectory() as folder:
        ranks = rank(splits, wanted, Path(folder)) if wanted else []
    assert ranks == [1 + places.index(event) for event in wanted]


def test_records_without_a_change_have_no_place(tmp_path: Path) -> None:
    held = records([(7, 3)], Outcome.REJECTED)
    (read, notes) = with_times([held], Place(0, 0, "log", 1), tmp_path)
    assert read["rank"].to_pylist() == [3]
    assert notes["row"].to_pylist() == [0]


def test_an_event_that_no_split_has_noted_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="record_id 9"):
        rank([[(5, 1)], [(5, 2)]], [(5, 9)], tmp_path)
