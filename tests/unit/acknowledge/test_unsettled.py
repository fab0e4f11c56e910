"""Ranges of record ids that the next run leaves out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from publisher.acknowledge.unsettled import id_ranges


@given(st.sets(st.integers(-(2**63), 2**63 - 2) | st.integers(1, 40), max_size=60))
def test_ranges_have_these_ids_and_no_others(ids: set[int]) -> None:
    ranges = id_ranges(np.array(sorted(ids), np.int64))
    covered = [number for first, last in ranges for number in range(first, last + 1)]
    assert covered == sorted(ids)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))
