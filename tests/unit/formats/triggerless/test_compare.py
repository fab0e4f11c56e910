"""The differences that a comparison finds turn the old table into the new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats.triggerless.differences import DIFFERENCE_SCHEMA, TableRows
from publisher.formats.triggerless.hashing import text_hashes
from publisher.formats.triggerless.options import Keeps
from publisher.formats.triggerless.relate import ComparisonRules, KnownRows, no_known_rows
from publisher.model.change import Outcome, Reason
from tests.support.compared_rows import Compared, compare

Values = tuple[str | None, ...]
Image = Mapping[str, Values]

COLUMNS = ("fname", "lname", "mail")
KEEPS: tuple[Keeps, ...] = ("columns", "values")
values = st.none() | st.sampled_from(["", "a", "b", "Ünlü", "x" * 30])
images = st.dictionaries(
    st.integers(0, 12).map(lambda n: f"idu={n}"), st.tuples(values, values, values)
)


def rows_of(pairs: Sequence[tuple[str, Values]], apart: int = 64) -> TableRows:
    """Rows in this order; hashes of keys have only ``apart`` bits, so that some are equal."""
    keys = pa.array([key for key, _ in pairs], pa.string())
    columns = [pa.array([v[n] for _, v in pairs], pa.string()) for n in range(len(COLUMNS))]
    return TableRows(text_hashes(keys) >> np.uint64(64 - apart), keys, columns)


def compare_image(
    known: KnownRows, image: Image, rules: ComparisonRules, apart: int = 64
) -> Compared:
    rows = rows_of(list(image.items()), apart)
    return compare(COLUMNS, rows, known, rules)


def apply_differences(before: Image, result: Compared) -> dict[str, Values]:
    """The table after the changes, as a consumer sees it."""
    after = {key: list(row) for key, row in before.items()}
    for change in result.differences.to_pylist():
        assert change["outcome"] is None
        key = change["key"]
        if change["event_type"] == 4:
            del after[key]
            continue
        if change["event_type"] == 1:
            assert key not in after
        row = after.setdefault(key, [None] * len(COLUMNS))
        for place, (name, new) in enumerate(zip(change["columns"], change["new"], strict=True)):
            column = COLUMNS.index(name)
            if change["event_type"] == 2:
                assert change["old"][place] == row[column]
            row[column] = new
    return {key: tuple(row) for key, row in after.items()}


@given(images, images, st.sampled_from(KEEPS), st.sampled_from([0, 1, 64]))
def test_the_changes_turn_one_table_into_the_other(
    before: Image, after: Image, keeps: Keeps, apart: int
) -> None:
    rules = ComparisonRules(keeps)
    first = compare_image(no_known_rows(keeps, len(COLUMNS)), before, rules, apart)
    assert apply_differences({}, first) == before
    second = compare_image(first.known, after, rules, apart)
    assert apply_differences(before, second) == after
    assert second.counts.added + second.counts.changed + second.counts.unchanged == len(after)
    again = compare_image(second.known, after, rules, apart)
    assert again.differences.num_rows == 0
    assert again.counts.unchanged == len(after)


@given(images, images, st.sampled_from(KEEPS))
def test_only_differences_are_found(before: Image, after: Image, keeps: Keeps) -> None:
    rules = ComparisonRules(keeps)
    known = compare_image(no_known_rows(keeps, len(COLUMNS)), before, rules).known
    for change in compare_image(known, after, rules).differences.to_pylist():
        key = change["key"]
        assert before.get(key) != after.get(key)
        if change["event_type"] in (2, 3):
            pairs = zip(COLUMNS, before[key], after[key], strict=True)
            assert change["columns"] == [name for name, old, new in pairs if old != new]


@given(images, st.randoms(use_true_random=False), st.sampled_from(KEEPS))
def test_the_order_of_rows_does_not_matter(image: Image, random: object, keeps: Keeps) -> None:
    pairs = list(image.items())
    shuffled = sorted(pairs, key=lambda _: random.random())  # type: ignore[attr-defined]
    known = no_known_rows(keeps, len(COLUMNS))
    one, other = (
        compare(COLUMNS, rows_of(p, 1), known, ComparisonRules(keeps)) for p in (pairs, shuffled)
    )
    assert one.differences.equals(other.differences)
    assert one.known.rows.keys.equals(other.known.rows.keys)


@pytest.mark.parametrize("keeps", KEEPS)
def test_null_and_the_empty_text_are_two_values(keeps: Keeps) -> None:
    known = compare_image(
        no_known_rows(keeps, 3), {"idu=1": ("", None, "x")}, ComparisonRules(keeps)
    ).known
    result = compare_image(known, {"idu=1": (None, "", "x")}, ComparisonRules(keeps))
    assert result.counts.changed == 1
    assert result.differences["new"][0].as_py()[:2] == [None, ""]


@pytest.mark.parametrize(("first", "event", "columns"), [("add", 1, 2), ("replace", 3, 3)])
def test_the_first_comparison_follows_its_rules(first: str, event: int, columns: int) -> None:
    rules = ComparisonRules(first=first)  # type: ignore[arg-type]
    result = compare_image(no_known_rows("columns", 3), {"idu=1": ("a", None, "b")}, rules)
    (change,) = result.differences.to_pylist()
    assert change["event_type"] == event
    assert len(change["columns"]) == columns


def test_changes_from_now_on() -> None:
    image = {"idu=1": ("a", None, "b"), "idu=2": ("a", None, "b")}
    result = compare_image(no_known_rows("columns", 3), image, ComparisonRules(first="nothing"))
    assert result.differences.num_rows == 0
    assert result.counts.baseline == 2
    later = compare_image(result.known, {"idu=1": ("c", None, "b")}, ComparisonRules())
    assert [change["event_type"] for change in later.differences.to_pylist()] == [3, 4] or [
        change["event_type"] for change in later.differences.to_pylist()
    ] == [4, 3]


def test_unseen_rows_stay_if_they_may_exist() -> None:
    known = compare_image(
        no_known_rows("columns", 3), {"idu=1": ("a",) * 3, "idu=2": ("b",) * 3}, ComparisonRules()
    ).known
    result = compare_image(known, {"idu=2": ("b",) * 3}, ComparisonRules(deletes=False))
    assert result.differences.num_rows == 0
    assert result.counts.left == 1
    assert sorted(result.known.rows.keys.to_pylist()) == ["idu=1", "idu=2"]
    assert compare_image(result.known, {}, ComparisonRules()).counts.vanished == 2


def test_a_migration_publishes_known_rows_again() -> None:
    known = compare_image(
        no_known_rows("values", 3), {"idu=1": ("a",) * 3}, ComparisonRules("values")
    ).known
    rules = ComparisonRules("values", deletes=False, all_as_new=True)
    result = compare_image(known, {"idu=1": ("a",) * 3}, rules)
    assert [change["event_type"] for change in result.differences.to_pylist()] == [1]
    assert result.counts.added == 1


def test_the_same_row_twice_counts_once_and_rows_that_differ_not_at_all() -> None:
    known = compare_image(
        no_known_rows("columns", 3), {"idu=1": ("a",) * 3, "idu=2": ("b",) * 3}, ComparisonRules()
    ).known
    same, other = ("a", "a", "c"), ("x", None, None)
    rows = rows_of([("idu=1", same), ("idu=2", same), ("idu=1", same), ("idu=2", other)])
    result = compare(COLUMNS, rows, known, ComparisonRules())
    found = result.differences.to_pylist()
    assert [c["key"] for c in found if c["event_type"] == 3] == ["idu=1"]
    outcomes = [(c["outcome"], c["reason"]) for c in found if c["outcome"] is not None]
    assert sorted(outcomes) == [
        (Outcome.IGNORED, Reason.DUPLICATE),
        (Outcome.REJECTED, Reason.DOUBLE_RECORD),
        (Outcome.REJECTED, Reason.DOUBLE_RECORD),
    ]
    # the known values of the rejected row stay, so that the row is not reported as deleted
    assert (
        compare_image(
            result.known, {"idu=1": same, "idu=2": ("b",) * 3}, ComparisonRules()
        ).differences.num_rows
        == 0
    )


def test_differences_have_their_schema() -> None:
    result = compare_image(no_known_rows("columns", 3), {"idu=1": ("a",) * 3}, ComparisonRules())
    assert result.differences.schema.equals(DIFFERENCE_SCHEMA)
    result.differences.validate(full=True)


def plain_murmur(data: bytes) -> int:
    """MurmurHash64A as its author wrote it, with seed 0."""
    mask, m = (1 << 64) - 1, 0xC6A4A7935BD1E995
    h = len(data) * m & mask
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        k = int.from_bytes(data[at : at + 8], "little") * m & mask
        k = (k ^ k >> 47) * m & mask
        h = (h ^ k) * m & mask
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 47) * m & mask
    return h ^ h >> 47


@given(st.lists(st.none() | st.text(max_size=40)), st.integers(0, 3), st.sampled_from((1, 40)))
def test_hashes_are_those_of_the_plain_function(
    some: list[str | None], start: int, times: int
) -> None:
    """Few texts are hashed one by one, many by the column."""
    texts = some * times
    array = pa.array(texts, pa.string()).slice(start)
    expected = [0 if t is None else plain_murmur(t.encode()) or 1 for t in texts[start:]]
    assert text_hashes(array).tolist() == expected


def test_hashes_never_change() -> None:
    known = ["idu=4711", "", "hello"]
    assert [f"{h:016x}" for h in text_hashes(pa.array(known)).tolist()] == [
        f"{plain_murmur(text.encode()) or 1:016x}" for text in known
    ]
    assert f"{plain_murmur(b'hello'):016x}" == "1e68d17c457bf117"
