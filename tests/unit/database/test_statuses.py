"""Statements for a portion of ids: each id gets its letter, no other id gets any."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.database.status_steps import IdRange, ListedIds, plan_steps


def arrays(letters: dict[int, str]) -> tuple[np.ndarray, np.ndarray]:
    ids = sorted(letters)
    return np.array(ids, np.int64), np.array([ord(letters[i]) for i in ids], np.uint8)


RUNS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 90), st.sampled_from(["S", "SSSSW", "SEF", "DE"])),
    max_size=6,
)


@given(RUNS, st.sampled_from([None, 1, 30]), st.randoms(use_true_random=False))
def test_steps_change_what_they_should(runs: list, run: int | None, chance: random.Random) -> None:
    wanted: dict[int, str] = {}
    at = 1
    for gap, length, letters in runs:
        at += gap
        wanted |= {i: chance.choice(letters) for i in range(at, at + length)}
        at += length
    rows = dict.fromkeys(range(at + 2), "N")
    for step in plan_steps(*arrays(wanted), run):
        assert run or isinstance(step, ListedIds)
        for i in rows:
            inside = (
                step.low <= i <= step.high if isinstance(step, IdRange) else i in step.ids.tolist()
            )
            if inside and rows[i] == "N":
                rows[i] = step.letter
    assert rows == dict.fromkeys(range(at + 2), "N") | wanted


def test_long_run_is_one_range_and_its_exceptions() -> None:
    letters = dict.fromkeys(range(1000, 3000), "S") | {1500: "W", 1700: "E", 2999: "W"}
    found = plan_steps(*arrays(letters), 50)
    assert [(step.letter, step.ids.tolist()) for step in found if isinstance(step, ListedIds)] == [
        ("E", [1700]),
        ("W", [1500, 2999]),
    ]
    assert found[-1] == IdRange("S", 1000, 2999)


def test_nothing_gives_no_steps() -> None:
    assert plan_steps(*arrays({}), 1) == []


def test_rows_are_not_deleted_where_the_table_is_left_alone() -> None:
    with pytest.raises(ValueError, match="keep one of the two"):
        AcknowledgeOptions(write_status=False, delete_processed_rows=True)
