"""Groups of connected keys, against a search through the graph of changes."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from publisher.model.change import Change, EventType, Object, Position
from publisher.model.key_changes import KeyGroups, object_after

KEYS = st.integers(0, 12).map(lambda number: f"k={number}")
TABLES = st.sampled_from([(None, "a"), ("s", "a"), ("s", "b")])
CHANGES = st.lists(st.tuples(TABLES, KEYS, KEYS), max_size=20)


def reachable(edges: set[tuple[str, str]], key: str) -> set[str]:
    seen, ahead = set[str](), [key]
    while ahead:
        current = ahead.pop()
        if current not in seen:
            seen.add(current)
            ahead += [b for edge in edges for a, b in (edge, edge[::-1]) if a == current]
    return seen


@given(CHANGES)
def test_connected_keys_have_the_first_key_of_their_group(
    changes: list[tuple[tuple[str | None, str], str, str]],
) -> None:
    groups = KeyGroups.of((Object(*table, old), new) for table, old, new in changes)
    for table in {table for table, _, _ in changes}:
        edges = {(old, new) for of, old, new in changes if of == table}
        expected = {key: min(reachable(edges, key)) for edge in edges for key in edge}
        assert groups.of_table(*table) == expected
    assert groups.of_table("other", "a") == {}


@given(CHANGES, st.randoms())
def test_groups_do_not_depend_on_the_order_of_changes(
    changes: list[tuple[tuple[str | None, str], str, str]],
    random: Random,
) -> None:
    pairs = [(Object(*table, old), new) for table, old, new in changes]
    mixed = pairs.copy()
    random.shuffle(mixed)
    assert KeyGroups.of(pairs) == KeyGroups.of(mixed)


def test_a_change_replaces_values_of_its_key() -> None:
    change = Change(
        row=0,
        object=Object("s", "t", 'a=1+b="x+y"'),
        position=Position("", 1, 0, 0),
        rank=1,
        event_type=EventType.KEY_CHANGE,
        columns=("b",),
        old=("x+y",),
        new=("z, w",),
    )
    assert object_after(change) == Object("s", "t", 'a=1+b="z, w"')
