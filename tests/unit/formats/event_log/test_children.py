"""Events on child tables: the same documents and outcomes whatever names their events have."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.ledger.run_reader import DecidedRecord
from publisher.model.catalogue import ChildTable, ColumnKind, Reference, Table
from publisher.planning.polls import PollOptions
from tests.support.event_log_files import Row, event, write
from tests.support.task_runs import plan_all, planned_reader, read_all, work_of

USR = Table(
    "hr",
    "usr",
    ("idu",),
    {"idu": ColumnKind.INT, "v": ColumnKind.STRING, "boss": ColumnKind.INT},
    complete=True,
    children={
        "tag": ChildTable({"v": ColumnKind.STRING}),
        "in.grp": ChildTable({"no": ColumnKind.INT}),
    },
    references={"boss": Reference("usr"), "in.grp.no": Reference("grp", key="id")},
)
NAMES = {
    "v": [("usr", "v"), ("USR", "usr.v"), ("hr.usr", "hr.usr.V"), ("usr", "v ")],
    "boss": [("usr", "boss"), ("HR.usr", '"usr"."BOSS"')],
    "tag.v": [("tag", "v"), ("usr", "tag.v"), ("TAG", "Tag.v"), ("hr.usr", '"hr".tag."v"')],
    "in.grp.no": [('"in.grp"', "no"), ("usr", '"in.grp".no'), ("usr", "in.grp.no")],
}
"""Names of table and column, by attribute."""

events = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, 4, 7, 8, 2]),
        st.sampled_from([*NAMES, "tag.v"]),
        st.sampled_from(["idu=1", "idu=1", "idu=2"]),
        st.sampled_from([None, "1", "2", "bad"]),
        st.sampled_from([None, "1", "02", "3"]),
        st.integers(0, 11),
    ),
    max_size=25,
)
DrawnEvent = tuple[int, str, str, str | None, str | None, int]


def rows_of(drawn: Sequence[DrawnEvent], *, by_first_name: bool) -> list[Row]:
    rows = []
    for number, (event_type, attribute, key, old, new, name) in enumerate(drawn, 1):
        names = NAMES[attribute]
        table, column = names[0 if by_first_name else name % len(names)]
        if event_type == 4:
            table, column = "usr", ""
        texts = {"old_value": old, "new_value": new, "column_name": column or None}
        rows.append(event(number, event_type=event_type, table_name=table, table_key=key, **texts))
    return rows


def plan(rows: list[Row], lanes: int) -> tuple[list[str], list[object]]:
    """Documents and decisions of a log, in the order of its objects."""
    documents, records = documents_and_records(rows, lanes)
    decisions = [
        (record.position, record.object, record.outcome, record.reason, record.children)
        for record in records
    ]
    return documents, sorted(decisions, key=str)


def documents_and_records(rows: list[Row], lanes: int) -> tuple[list[str], list[DecidedRecord]]:
    """Documents and records of a log, lane by lane."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        polls = PollOptions(poll_size=6, poll_slack=2)
        work = work_of([write(folder / "log.jsonl", rows)], lanes=lanes, polls=polls, tables=[USR])
        reader = planned_reader(plan_all(work, read_all(work), folder), folder)
        return [document.text for document in reader.documents()], list(reader.records())


@settings(max_examples=60, deadline=None)
@given(events, st.sampled_from([1, 3]))
def test_the_names_of_an_event_change_nothing(drawn: list[DrawnEvent], lanes: int) -> None:
    given_names = plan(rows_of(drawn, by_first_name=False), lanes)
    assert given_names == plan(rows_of(drawn, by_first_name=True), lanes)


@pytest.mark.parametrize(
    ("table", "column", "logged", "child"),
    [
        ("usr", "v", (None, None), None),
        ("HR.usr", " V ", (None, None), None),
        ("usr", "usr.v", (None, "usr.v"), None),
        ("usr", "tag.v", (None, None), "tag"),
        ("tag", "v", ("tag", "v"), "tag"),
        ("hr.TAG", "Tag.v", ("hr.TAG", None), "tag"),
        ('"in.grp"', "no", ('"in.grp"', "no"), "in.grp"),
    ],
)
def test_the_ledger_has_the_child_table_and_the_names_in_the_log(
    table: str, column: str, logged: tuple[str | None, str | None], child: str | None
) -> None:
    rows = [event(1, event_type=2, table_name=table, table_key="idu=1", column_name=column)]
    _, (record,) = documents_and_records(rows, 1)
    assert (record.logged_table, record.logged_column) == logged
    assert record.children == (() if child is None else (child,))
    assert not record.is_view


@pytest.mark.parametrize("event_type", [4, 6])
def test_events_of_rows_name_no_child_table_for_columns(event_type: int) -> None:
    rows = [
        event(1, event_type=event_type, table_name="usr", table_key="idu=1", column_name="tag.v")
    ]
    _, (record,) = documents_and_records(rows, 1)
    assert (record.logged_table, record.logged_column, record.children) == (None, None, ())
    rows = [event(1, event_type=event_type, table_name="tag", table_key="idu=1", column_name="v")]
    _, (record,) = documents_and_records(rows, 1)
    assert (record.reason, record.logged_table) == ("child-row", "tag")
