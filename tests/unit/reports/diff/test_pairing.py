"""Pairs of items, and the number of items that moved."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from publisher.reports.diff.pairing import count_moved_items, pair_items

Item = tuple[int | None, str]

ITEMS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.sampled_from("abc")), max_size=12
)


def identity(item: Item) -> int | None:
    return item[0]


def content(item: Item) -> str:
    return item[1]


@given(ITEMS)
def test_items_are_paired_with_themselves(items: list[Item]) -> None:
    found = pair_items(items, items, identity, content)
    assert all(one == other for one, other in found.pairs if one[0] is None)
    assert all(one[0] == other[0] for one, other in found.pairs)
    assert (found.only_first, found.only_second) == ([], [])
    assert len(found.pairs) == len(items)


@given(ITEMS, ITEMS)
def test_the_result_is_symmetric(first: list[Item], second: list[Item]) -> None:
    found = pair_items(first, second, identity, content)
    swapped = pair_items(second, first, identity, content)
    assert sorted(map(repr, found.pairs)) == sorted(repr((b, a)) for a, b in swapped.pairs)
    assert found.only_first == swapped.only_second
    assert found.only_second == swapped.only_first
    assert len(first) == len(found.pairs) + len(found.only_first)
    assert len(second) == len(found.pairs) + len(found.only_second)


@given(st.permutations(range(7)))
def test_the_fewest_moves_are_counted(order: list[int]) -> None:
    longest = max(
        size
        for size in range(1, 8)
        if any(list(some) == sorted(some) for some in combinations(order, size))
    )
    places = [((at,), (place,)) for at, place in enumerate(order)]
    assert count_moved_items(places) == 7 - longest
    assert count_moved_items([(b, a) for a, b in places]) == 7 - longest
