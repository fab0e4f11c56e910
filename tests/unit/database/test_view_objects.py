"""Random views with repeated rows, read from SQLite, against an oracle that knows how they were written."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.lookup import DatabaseLookup
from publisher.database.options import DatabaseOptions
from publisher.model.change import Object, Reason
from publisher.model.class_catalogue import ClassCatalogue
from publisher.model.classes import ClassOptions
from publisher.planning.query_back import Answer, CurrentRow, RefusedLookup
from tests.support.planning import answers_of


class WrittenColumn(NamedTuple):
    """A column of a view as the test writes it."""

    written: str
    attribute: str
    multiple: bool


@st.composite
def columns(draw: st.DrawFn, effective: str) -> WrittenColumn:
    prefix, shown, multiple = draw(
        st.sampled_from(
            [
                ("", "", False),
                ("sv_", "", False),
                ("mv_", "", True),
                ("fk__id__", "fk_", False),
                ("fk_sv__id__", "fk_", False),
                ("fk_mv__ID__", "fk_", True),
            ]
        )
    )
    if draw(st.booleans()):
        prefix, shown = prefix.upper(), shown.upper()
    return WrittenColumn(prefix + effective, shown + effective, multiple)


values = st.none() | st.sampled_from(["", "a", "B", "é", "a\nb", "10", "9"])


class WrittenView(NamedTuple):
    """A view, its rows, and the key of each row first."""

    columns: Sequence[WrittenColumn]
    rows: Sequence[tuple[object, ...]]


@st.composite
def views(draw: st.DrawFn) -> WrittenView:
    names = draw(st.lists(st.sampled_from(["x", "y.z", 'q"', "a__b"]), unique=True, max_size=4))
    found = [draw(columns(name)) for name in names]
    rows = draw(st.lists(st.tuples(st.integers(1, 4), *(values for _ in found)), max_size=12))
    return WrittenView(found, rows)


def expected(view: WrittenView, key: int) -> Mapping[str, object] | str | None:
    """The object of a key; the name of an attribute with several values; ``None`` without rows."""
    rows = [row for row in view.rows if row[0] == key]
    if not rows:
        return None
    result: dict[str, object] = {"Pk_id": str(key)}
    for place, column in enumerate(view.columns, 1):
        distinct = sorted({str(row[place]) for row in rows if row[place] is not None})
        if column.multiple:
            result[column.attribute] = tuple(distinct)
        elif len(distinct) > 1:
            return column.attribute
        else:
            result[column.attribute] = distinct[0] if distinct else None
    return result


def read(view: WrittenView, keys: Sequence[str]) -> list[Answer]:
    names = [column.written.replace('"', '""') for column in view.columns]
    listed = ", ".join(f'"{name}"' for name in ["Pk_id", *names])
    places = ", ".join("?" * (len(names) + 1))
    kinds = ", ".join(["k INTEGER", *(f"c{place} TEXT" for place, _ in enumerate(names))])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "views.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"CREATE TABLE t ({kinds})")
            connection.execute(f"CREATE VIEW v ({listed}) AS SELECT * FROM t")
            connection.executemany(f"INSERT INTO t VALUES ({places})", view.rows)
        with Database(DatabaseOptions(url=f"sqlite:///{path}")) as database:
            tables = catalogue_of(database)
            classes = ClassCatalogue(
                tables, (), ClassOptions(), tables.keys_of, tables.key_columns_of
            )
            objects = [Object(None, "v", key) for key in keys]
            answers = answers_of(DatabaseLookup(database, classes), objects)
    return [answers[obj] for obj in objects]


@settings(max_examples=60, deadline=None)
@given(views(), st.sampled_from(["Pk_id", "id", "PK_SV_ID", "pk__id__id"]))
def test_the_rows_of_a_key_are_one_object(view: WrittenView, key: str) -> None:
    for number, answer in enumerate(read(view, [f"{key}={n}" for n in range(1, 6)]), 1):
        wanted = expected(view, number)
        if isinstance(wanted, str):
            assert isinstance(answer, RefusedLookup)
            assert answer.reason is Reason.SEVERAL_VALUES
            assert f"values of {wanted}, which is single-valued" in answer.detail
        elif wanted is None:
            assert answer is None
        else:
            assert isinstance(answer, CurrentRow)
            assert dict(zip(answer.columns, answer.values, strict=True)) == wanted
