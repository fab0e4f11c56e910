"""Rows are joined to objects; values are grouped to texts and split again, against plain functions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats.triggerless.differences import TableRows
from publisher.formats.triggerless.hashing import text_hashes
from publisher.formats.triggerless.multi_values import group_values, only_values, split_values
from publisher.formats.triggerless.objects import join_objects
from publisher.formats.triggerless.options import Keeps
from publisher.formats.triggerless.relate import ComparisonRules, no_known_rows
from publisher.formats.triggerless.table_shape import ComparedKeyColumn, TableShape
from publisher.model.catalogue import ColumnKind
from publisher.model.change import Reason
from tests.support.compared_rows import compare

texts = st.none() | st.text("a\\\nné", max_size=3)
members = st.lists(st.tuples(st.integers(-1, 4), texts))


def sets_of(rows: list[tuple[int, str | None]], count: int) -> list[set[str]]:
    return [{text for owner, text in rows if owner == n and text is not None} for n in range(count)]


@given(members)
def test_values_are_grouped_and_split(rows: list[tuple[int, str | None]]) -> None:
    objects = np.array([owner for owner, _ in rows], np.int64)
    values = pa.array([text for _, text in rows], pa.string())
    sets = sets_of(rows, 5)
    grouped = group_values(objects, 5, values)
    assert split_values(grouped).to_pylist() == [sorted(v) if v else None for v in sets]
    assert only_values(objects, 5, values).to_pylist() == [
        next(iter(v)) if len(v) == 1 else None for v in sets
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
    multiple=frozenset({"phoneno"}),
    is_view=True,
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
    rules = ComparisonRules(multiple=VIEW.multiple, is_view=True)
    result = compare(VIEW.columns, objects.rows, no_known_rows("columns", 2), rules)
    reasons = {change["reason"] for change in result.differences.to_pylist()}
    assert reasons == {None, Reason.SEVERAL_VALUES}
    assert (result.counts.rejected, result.counts.added) == (2, 1)


USER = TableShape(
    source_name="usr",
    schema=None,
    table="usr",
    read=("idu", "fname"),
    key=(ComparedKeyColumn("idu", "idu", ColumnKind.INT, padded=False),),
    columns=("fname", "fax.no", "phone.no"),
    others=("fname",),
    octets=frozenset(),
    children=tuple(
        TableShape(
            source_name=name,
            schema=None,
            table="usr",
            read=("idu", "no"),
            key=(ComparedKeyColumn("idu", "idu", ColumnKind.INT, padded=False),),
            columns=(f"{name}.no",),
            others=("no",),
            octets=frozenset(),
        )
        for name in ("phone", "fax")
    ),
    multiple=frozenset({"fax.no", "phone.no"}),
)
Pairs = list[tuple[int, str | None]]
Snapshot = tuple[dict[int, str | None], Pairs, Pairs]
pairs = st.lists(st.tuples(st.integers(0, 4), texts), max_size=8)
snapshots = st.tuples(st.dictionaries(st.integers(0, 4), texts, max_size=4), pairs, pairs)


def rows_of(values: Pairs) -> TableRows:
    keys = pa.array([f"idu={key}" for key, _ in values], pa.string())
    return TableRows(text_hashes(keys), keys, [pa.array([v for _, v in values], pa.string())])


def expected(snapshot: Snapshot) -> dict[str, dict[str, set[str]]]:
    """The oracle: the set of values of each attribute of each parent."""
    users, phones, faxes = snapshot
    tables = {"fname": list(users.items()), "phone.no": phones, "fax.no": faxes}
    return {
        f"idu={user}": {
            name: {value for owner, value in rows if owner == user and value is not None}
            for name, rows in tables.items()
        }
        for user in users
    }


def fold(objects: dict[str, dict[str, set[str]]], differences: pa.RecordBatch) -> None:
    """Applies changes as a consumer does, and checks that they fit."""
    for change in differences.to_pylist():
        if change["event_type"] == 4:
            del objects[change["key"]]
            continue
        if change["event_type"] == 1:
            assert change["key"] not in objects
        known = objects.setdefault(change["key"], {name: set() for name in USER.columns})
        if change["event_type"] == 3:
            known |= {name: set() for name in change["columns"]}
        olds = change["old"] or [None] * len(change["new"])
        for name, old, new in zip(change["columns"], olds, change["new"], strict=True):
            if old is not None:
                known[name].remove(old)
            if new is not None:
                assert new not in known[name]
                known[name].add(new)


@given(snapshots, snapshots, st.sampled_from(["columns", "values"]))
def test_folded_changes_are_the_second_snapshot(
    first: Snapshot, second: Snapshot, keeps: Keeps
) -> None:
    rules = ComparisonRules(keeps, multiple=USER.multiple)
    known = no_known_rows(keeps, 3)
    folded: dict[str, dict[str, set[str]]] = {}
    for users, phones, faxes in (first, second):
        tables = [rows_of(list(users.items())), rows_of(phones), rows_of(faxes)]
        objects = join_objects(USER, tables)
        lost = sum(owner not in users for owner, _ in (*phones, *faxes))
        assert sum(map(len, objects.orphans)) == lost
        assert objects.merged + lost == len(phones) + len(faxes)
        result = compare(USER.columns, objects.rows, known, rules)
        known = result.known
        fold(folded, result.differences)
        assert folded == expected((users, phones, faxes))
