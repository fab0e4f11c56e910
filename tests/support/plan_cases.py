"""Random logs for tests of planning, with the settings and the database of a run.

Polls are small, so that they are crossed.  Twins are the same record_id once more for one object,
with the same content or with another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from publisher.model.catalogue import ColumnKind, JobCatalogue, Table
from publisher.model.change import Change, Object, Reason
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import NO_DATABASE, Answer, CurrentRow, RefusedLookup
from publisher.xds.document import DocumentOptions
from tests.support.event_log_files import Row, event
from tests.support.plan_oracle import Rules
from tests.support.planning import DEPT, USR, USR_2, Event, Rows, Setup, log

SECRET = Object(None, "secret", "k=1")
OBJECTS = (USR, USR_2, DEPT, Object("indirect", "usr", "idu=3"))
KINDS = {"a": "string", "b": "string", "x": "string", "n": "int", "p": "octet"}
CATALOGUE = JobCatalogue(
    [
        Table(obj.schema, obj.table, (obj.key[:-2],), {c: ColumnKind(k) for c, k in KINDS.items()})
        for obj in (USR, DEPT, SECRET)
    ]
)
VALUES: dict[str, list[str | None]] = {
    "a": [None, "", "u", "v", "<&>\n"],
    "b": [None, "u", "v", "\x01"],
    "n": [None, "1", "02", "bad"],
    "p": [None, "qqo=", "?"],
    "x": [None, "secret"],
    "gone": [None, "w"],
    "child.no": [None, "1", "2"],
}


@dataclass(frozen=True)
class PlanCase:
    changes: list[Change]
    rules: Rules

    @property
    def setup(self) -> Setup:
        rules = self.rules
        return Setup(
            polls=PollOptions(rules.poll_size, rules.poll_slack),
            filters=FilterOptions(
                driver_user=rules.driver_user,
                exclude=tuple(rules.excluded_tables),
                exclude_columns=tuple(rules.excluded_columns),
            ),
            documents=DocumentOptions(
                rules.batch_size,
                rules.event_id,
                "add" if rules.insert_query_back == "add" else "modify",
            ),
            lookup=NO_DATABASE if rules.current is None else Rows(_answers(rules)),
            held_after=rules.now,
            catalogue=CATALOGUE,
        )


def _answers(rules: Rules) -> dict[Object, Answer]:
    assert rules.current is not None
    answers: dict[Object, Answer] = {}
    for obj, row in rules.current.items():
        if row is None:
            answers[obj] = None
        elif isinstance(row, str):
            answers[obj] = RefusedLookup(Reason(row), "fix it")
        else:
            answers[obj] = CurrentRow(tuple(row), tuple(row.values()))
    return answers


def _values(column: str) -> st.SearchStrategy[str | None]:
    return st.sampled_from(VALUES[column])


def _event_of(column: str) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(
        st.integers(1, 8),
        st.just(column),
        _values(column),
        _values(column),
        st.sampled_from([*OBJECTS * 2, *[USR] * 9, SECRET]),
        st.sampled_from([1, 1, 1, 1, 2, 3, 4]),  # gap to the record before
        st.sampled_from([0] * 15 + [100]),  # time
        st.sampled_from([None] * 15 + ["idm"]),
        st.sampled_from(["none"] * 18 + ["same", "other"]),
    )


# building strategies while examples are drawn took half of the time of the tests
_EVENTS = {column: _event_of(column) for column in VALUES}
one_event = st.sampled_from([*VALUES, *"aaaaabbb", "child.no"]).flatmap(_EVENTS.__getitem__)
_COUNTS = st.integers(0, 24)
_EVENT_LISTS = [st.lists(one_event, min_size=count, max_size=count) for count in range(25)]
good_row = st.fixed_dictionaries(
    {column: st.sampled_from(["1", "02", None]) for column in ("a", "b", "n", "x")}
)
one_row = st.one_of(
    st.sampled_from([None, None, "database-refused"]),
    good_row,
    good_row,
    st.fixed_dictionaries({column: _values(column) for column in ("a", "b", "n", "p", "x")}),
)
_NO_ROWS = st.none()
_CURRENT_ROWS = st.fixed_dictionaries(dict.fromkeys(OBJECTS, one_row))
rules = st.builds(
    Rules,
    poll_size=st.integers(1, 7),
    poll_slack=st.integers(0, 3),
    batch_size=st.sampled_from([1, 1, 2, 3, 128]),
    insert_query_back=st.sampled_from(["modify", "add"]),
    event_id=st.booleans(),
    driver_user=st.sampled_from([None, "idm"]),
    excluded_tables=st.just(frozenset({"secret"})),
    excluded_columns=st.sampled_from([frozenset[str](), frozenset({"x"})]),
    now=st.sampled_from([None, 50]),
    kinds=st.just(KINDS),
    current=st.sampled_from([False, True, True, True]).flatmap(
        lambda there: _CURRENT_ROWS if there else _NO_ROWS
    ),
)


@st.composite
def cases(draw: st.DrawFn) -> PlanCase:
    events: list[Event] = []
    at = 0
    drawn_events = draw(_EVENT_LISTS[draw(_COUNTS)])
    for event_type, column, new, old, obj, gap, time, user, twin in drawn_events:
        at += gap
        event = Event(event_type, column, new, old, obj, at, time, user)
        events.append(event)
        if twin == "same":
            events.append(event)
        elif twin == "other":
            events.append(event._replace(event_type=event_type % 8 + 1))
    drawn = draw(rules)
    if drawn.current is not None:
        keyed = {
            obj: {obj.key.split("=")[0]: "1", **row} if isinstance(row, dict) else row
            for obj, row in drawn.current.items()
        }
        drawn = replace(drawn, current={**keyed, SECRET: None})
    return PlanCase(log(*events), drawn)


COLUMNS = ("a", "b", "n", "p", "x")

TABLES = [
    Table(
        None,
        table,
        (key,),
        {key: ColumnKind.INT} | {name: ColumnKind(KINDS[name]) for name in COLUMNS},
    )
    for table, key in (("usr", "idu"), ("dept", "no"), ("secret", "k"))
]


def rows_of(changes: Sequence[Change]) -> list[Row]:
    return [
        event(
            change.position.high,
            table_key=change.object.key,
            table_name=change.object.table,
            event_type=change.event_type,
            event_time=f"2024-01-01 00:00:{(change.event_time or 0) % 60:02d}",
            perpetrator=change.perpetrator,
            column_name=change.columns[0] if change.columns else None,
            old_value=change.old[0] if change.old else None,
            new_value=change.new[0] if change.new else None,
        )
        for change in changes
    ]
