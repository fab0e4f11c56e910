from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats.columns.key_lanes import key_lanes
from publisher.model.lanes import key_lane, table_hash

KEYS = st.lists(st.none() | st.text(max_size=12) | st.text("ab=Ж", min_size=50, max_size=90))


@given(KEYS, st.integers(1, 1000), st.integers(0, 3))
def test_lanes_of_many_keys_are_those_of_each(
    keys: list[str | None], lanes: int, start: int
) -> None:
    prefix = table_hash("hr", "usr")
    array = pa.array(keys, pa.string()).slice(start)
    expected = [0 if key is None else key_lane(prefix, key, lanes) for key in keys[start:]]
    assert key_lanes(prefix, array, lanes).tolist() == expected
