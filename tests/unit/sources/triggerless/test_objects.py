"""Rows are joined to objects; values are grouped to texts and split again, against plain functions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.catalogue import ColumnKind
from publisher.sources.triggerless.compare import ComparisonRules, compare, no_known_rows
from publisher.sources.triggerless.differences import TableRows
from publisher.sources.triggerless.hashing import text_hashes
from publisher.sources.triggerless.multi_values import group_values, only_values, split_values
from publisher.sources.triggerless.objects import join_objects
from publisher.sources.triggerless.table_shape import ComparedKeyColumn, TableShape

texts = st.none() | st.text("a\\\nné", max_size=3)
members = st.lists(st.tuples(st.integers(-1, 4), texts))


def sets_of(rows: list[tuple[int, str | None]], count: int) -> list[set[str]]:
    return [{text for owner, text in rows if owner == n and text is not None} for n in range(count)]


@given(members)
def test_values_are_grouped_and_split(rows: list[tuple[int, str | None]]) -> None:
    objects = np.array([owner for owner, _ in rows], np.int64)
    values = pa.array([text for _, text in rows], pa.string())
    expected = sets_of(rows, 5)
    grouped = group_values(objects, 5, values)
    assert split_values(grouped).to_pylist() == [sorted(v) if v else None for v in expected]
    assert only_values(objects, 5, values).to_pylist() == [
        next(iter(v)) if len(v) == 1 else None for v in expected
    ]


def test_the_text_of_values_never_changes() -> None:
    """Its hashes are stored."""
    values = pa.array(["b\\", "", "a\nb", "b\\"])
    assert group_values(np.zeros(4, np.int64), 1, values).to_pylist() == ["\na\\nb\nb\\\\"]


def view(*rows: tuple[int, str | None, str | None]) -> TableRows:
    """Rows of a view whose second column has several values."""
    keys = pa.array([f"pk_idu={key}" for key, _, _ in rows], pa.string())
    columns = [pa.array([row[n] for row in rows], pa.string()) for n in (1, 2)]
    return TableRows(text_hashes(keys), keys, columns)


VIEW = TableShape(
    source_name="view_usr",
    schema=None,
    table="view_usr",
    read=("pk_idu", "fname", "mv_phoneno"),
    key=(ComparedKeyColumn("pk_idu", "pk_idu", ColumnKind.INT, padded=False),),
    columns=("fname", "phoneno"),
    others=("fname", "mv_phoneno"),
    octets=frozenset(),
    known=True,
    multiple=frozenset({"phoneno"}),
)


def test_repeated_rows_of_a_view_are_one_object() -> None:
    objects = join_objects(
        VIEW,
        [view((1, "Ann", "222"), (2, None, None), (1, "Ann", "111"), (1, None, "222"))],
    )
    assert objects.merged == 2
    rules = ComparisonRules(multiple=VIEW.multiple)
    result = compare(VIEW.columns, objects.rows, no_known_rows("columns", 2), rules)
    found = sorted((c["key"], c["columns"], c["new"]) for c in result.differences.to_pylist())
    assert found == [
        ("pk_idu=1", ["fname", "phoneno", "phoneno"], ["Ann", "111", "222"]),
        ("pk_idu=2", [], []),
    ]
    assert result.counts.doubled == result.counts.rejected == 0


def test_two_values_of_a_single_valued_column_are_rejected() -> None:
    objects = join_objects(VIEW, [view((1, "Ann", "1"), (1, "Eve", "2"), (2, "Bob", "3"))])
    rules = ComparisonRules(multiple=VIEW.multiple)
    result = compare(VIEW.columns, objects.rows, no_known_rows("columns", 2), rules)
    assert (result.counts.rejected, result.counts.added) == (2, 1)
