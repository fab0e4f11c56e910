"""Rows whose identifying columns agree are one object with a changed key; other rows are not joined."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats.triggerless.changed_keys import build_changes, find_candidates, pair_rows
from publisher.formats.triggerless.differences import TableRows
from publisher.formats.triggerless.hashing import text_hashes
from publisher.formats.triggerless.relate import ComparisonRules, no_known_rows, relate
from publisher.model.change import EventType

Image = Mapping[str, tuple[str | None, ...]]
COLUMNS = ("guid", "fname")
RULES = ComparisonRules("values")


def rows_of(image: Image) -> TableRows:
    keys = pa.array([f"idu={key}" for key in image], pa.string())
    columns = [pa.array([row[n] for row in image.values()], pa.string()) for n in range(2)]
    return TableRows(text_hashes(keys), keys, columns)


def candidates_of(before: Image, now: Image, by: tuple[str, ...] = ("guid",)) -> pa.Table:
    known = relate(COLUMNS, rows_of(before), no_known_rows("values", 2), RULES).next
    return find_candidates(COLUMNS, by, relate(COLUMNS, rows_of(now), known, RULES))


def chains_of(before: Image, now: Image, by: tuple[str, ...] = ("guid",)) -> set[str]:
    """The chains of keys, as text."""
    candidates = candidates_of(before, now, by)
    keys = [key.partition("=")[2] for key in candidates.column("key").to_pylist()]
    chains = pair_rows(candidates)
    return {" ".join(keys[row] for row in chain) for chain in chains}


def changes_of(before: Image, now: Image) -> list[tuple[str, str, int]]:
    """Event type, key and number of records of each change."""
    candidates = candidates_of(before, now)
    chains = pair_rows(candidates)
    changes = build_changes(COLUMNS, (), candidates, chains).changes.to_pylist()
    return [
        (EventType(each["event_type"]).name, each["key"].partition("=")[2], each["records"])
        for each in changes
    ]


@pytest.mark.parametrize(
    ("before", "now", "chains"),
    [
        pytest.param({"1": ("g", "a")}, {"5": ("g", "b")}, {"1 5"}, id="changed"),
        pytest.param({"1": ("g", "a")}, {"5": ("h", "a")}, set(), id="other object"),
        pytest.param({"1": (None, "a")}, {"5": (None, "a")}, set(), id="NULL"),
        pytest.param({"1": ("", "a")}, {"5": ("", "a")}, {"1 5"}, id="empty text"),
        pytest.param(
            {"1": ("g", "a"), "2": ("g", "b")}, {"5": ("g", "a")}, set(), id="twice before"
        ),
        pytest.param({"1": ("g", "a")}, {"5": ("g", "a"), "6": ("g", "b")}, set(), id="twice now"),
        pytest.param(
            {"1": ("g", "a"), "2": ("h", "b")},
            {"2": ("g", "a"), "3": ("h", "b")},
            {"1 2 3"},
            id="chain",
        ),
        pytest.param(
            {"1": ("g", "a"), "2": ("h", "b")},
            {"2": ("g", "a")},
            {"1 2"},
            id="key of a deleted object",
        ),
        pytest.param(
            {"1": ("g", "a")},
            {"1": ("h", "b"), "2": ("g", "a")},
            {"1 2"},
            id="old key of a new object",
        ),
        pytest.param(
            {"1": ("g", "a"), "2": ("h", "b")},
            {"1": ("h", "b"), "2": ("g", "a")},
            set(),
            id="exchanged keys",
        ),
        pytest.param({"1": ("g", "a")}, {"1": ("h", "a")}, set(), id="same key"),
        pytest.param(
            {"1": ("g", "a"), "2": (None, "b")}, {"2": ("g", "b")}, set(), id="unknown before"
        ),
        pytest.param(
            {"2": ("g", "b")}, {"2": (None, "b"), "3": ("g", "c")}, set(), id="unknown now"
        ),
        pytest.param(
            {"1": ("g", "a"), "2": (None, "b")},
            {"2": ("g", "b"), "3": ("g", "a")},
            set(),
            id="twice now, once in a row of an unknown object",
        ),
    ],
)
def test_unique_values_join_keys(before: Image, now: Image, chains: set[str]) -> None:
    assert chains_of(before, now) == chains


def test_several_columns_agree_together() -> None:
    before = {"1": ("a", "bc"), "2": ("g+fname=x", "y")}
    now = {"5": ("ab", "c"), "6": ("g", "x+fname=y"), "7": ("a", "bc")}
    assert chains_of(before, now, COLUMNS) == {"1 7"}
    assert chains_of({"1": ("g", None)}, {"5": ("g", None)}, COLUMNS) == set()


def test_a_key_is_free_before_an_object_gets_it() -> None:
    before = {"1": ("g", "a"), "2": ("h", "b"), "3": ("i", "c")}
    now = {"1": ("new", "x"), "2": ("g", "a"), "3": ("h", "changed")}
    assert changes_of(before, now) == [
        ("DELETE_ROW", "3", 0),
        ("KEY_CHANGE", "2", 0),
        ("UPDATE_FIELD", "3", 1),
        ("KEY_CHANGE", "1", 1),
        ("INSERT_FIELD", "1", 1),
    ]


def test_the_gone_row_and_the_new_one_are_records() -> None:
    before = {"1": ("g", "a")}
    assert changes_of(before, {"5": ("g", "a")}) == [("KEY_CHANGE", "1", 2)]
    assert changes_of(before, {"5": ("g", None)}) == [
        ("KEY_CHANGE", "1", 1),
        ("UPDATE_FIELD", "5", 1),
    ]


rows = st.tuples(st.none() | st.sampled_from("ghijk"), st.none() | st.sampled_from("ab"))
images = st.dictionaries(st.sampled_from("123456"), rows)


@given(images, images)
def test_the_changes_of_chains_turn_their_old_rows_into_the_new_ones(
    before: Image, now: Image
) -> None:
    candidates = candidates_of(before, now)
    chains = pair_rows(candidates)
    if not chains:
        return
    built = build_changes(COLUMNS, (), candidates, chains)
    keys = candidates.column("key").to_pylist()
    moved = {keys[row].partition("=")[2] for chain in chains for row in chain}
    objects = {
        f"idu={key}": dict(zip(COLUMNS, before[key], strict=True)) for key in moved & before.keys()
    }
    for change in built.changes.to_pylist():
        match EventType(change["event_type"]):
            case EventType.DELETE_ROW:
                del objects[change["key"]]
            case EventType.KEY_CHANGE:
                (new,) = change["new"]
                assert change["key"] == f"idu={change['old'][0]}"
                assert f"idu={new}" not in objects
                objects[f"idu={new}"] = objects.pop(change["key"])
                guid = objects[f"idu={new}"]["guid"]
                assert guid is not None
                assert guid == now[new][0]
            case _:
                values = objects.setdefault(change["key"], dict.fromkeys(COLUMNS))
                values |= zip(change["columns"], change["new"], strict=True)
    assert objects == {
        f"idu={key}": dict(zip(COLUMNS, now[key], strict=True)) for key in moved & now.keys()
    }
    assert sum(built.changes.column("records").to_pylist()) == len(moved)
    types = built.changes.column("event_type").to_pylist()
    gone = len(moved & before.keys() - now.keys())
    assert built.deleted == types.count(EventType.DELETE_ROW) - gone
