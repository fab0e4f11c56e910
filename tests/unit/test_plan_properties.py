"""Planning over random logs: conservation, order, independence of lanes and batches, an oracle.

Polls are small, so that they are crossed.  Twins are the same record_id once more for one object,
with the same content or with another.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.catalogue import JobCatalogue, Kind, Table
from publisher.change import Change, Object, Position, Reason
from publisher.filters import FilterOptions
from publisher.lanes import lane_of
from publisher.plan import Planned
from publisher.polls import PollOptions
from publisher.query_back import Answer, Refused, Row
from publisher.xds.document import DocumentOptions
from tests.unit import plan_oracle
from tests.unit.plan_oracle import Rules
from tests.unit.planning import DEPT, USR, USR_2, Event, Rows, Setup, log

SECRET = Object(None, "secret", "k=1")
OBJECTS = (USR, USR_2, DEPT, Object("indirect", "usr", "idu=3"))
KINDS = {"a": "string", "b": "string", "x": "string", "n": "int", "p": "octet"}
CATALOGUE = JobCatalogue(
    [
        Table(obj.schema, obj.table, (obj.key[:-2],), {c: Kind(k) for c, k in KINDS.items()})
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
}


@dataclass(frozen=True)
class Case:
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
            lookup=None if rules.current is None else Rows(_answers(rules)),
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
            answers[obj] = Refused(Reason(row), "mend it")
        else:
            answers[obj] = Row(tuple(row), tuple(row.values()))
    return answers


def _values(column: str) -> st.SearchStrategy[str | None]:
    return st.sampled_from(VALUES[column])


one_event = st.sampled_from([*VALUES, "a", "a", "b"]).flatmap(
    lambda column: st.tuples(
        st.integers(1, 8),
        st.just(column),
        _values(column),
        _values(column),
        st.sampled_from([*OBJECTS, USR, USR, SECRET]),
        st.integers(1, 4),  # gap to the record before
        st.sampled_from([0] * 7 + [100]),  # time
        st.sampled_from([None] * 7 + ["idm"]),
        st.sampled_from(["none"] * 8 + ["same", "other"]),
    )
)
one_row = st.one_of(
    st.none(),
    st.just("database-refused"),
    st.fixed_dictionaries({column: _values(column) for column in ("a", "b", "n", "p", "x")}),
    st.fixed_dictionaries({column: st.sampled_from(["u", None]) for column in ("a", "b", "x")}),
)
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
    current=st.one_of(st.none(), st.fixed_dictionaries(dict.fromkeys(OBJECTS, one_row))),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    events: list[Event] = []
    at = 0
    drawn_events = draw(st.lists(one_event, max_size=24))
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
    return Case(log(*events), drawn)


def fates(planned: Planned) -> dict[int, tuple[str, str, int]]:
    return {
        decision.row: (decision.outcome.name.lower(), str(decision.reason), decision.by)
        for decision in planned.decisions
    }


@settings(max_examples=200)
@given(cases())
def test_planning_gives_what_the_rules_give_by_hand(case: Case) -> None:
    planned = case.setup.plan(case.changes)
    found = fates(planned)
    twins = frozenset(row for row, fate in found.items() if fate[1] == Reason.DOUBLE_RECORD)
    expected = plan_oracle.plan(case.changes, case.rules, twins)
    documents = [(d.position.high, d.object, d.text, d.rows) for d in planned.documents]
    assert documents == expected.documents
    assert found == expected.fates


@settings(max_examples=60)
@given(cases())
def test_every_change_ends_in_exactly_one_outcome(case: Case) -> None:
    planned = case.setup.plan(case.changes)
    rows = [row for document in planned.documents for row in document.rows]
    rows += [decision.row for decision in planned.decisions]
    assert sorted(rows) == [change.row for change in case.changes]


@settings(max_examples=60)
@given(cases())
def test_documents_of_a_lane_and_so_of_an_object_are_in_position_order(case: Case) -> None:
    planned = case.setup.plan(case.changes)
    positions = [document.position for document in planned.documents]
    assert positions == sorted(positions)
    by_row = {change.row: change for change in case.changes}
    for document in planned.documents:
        changes = [by_row[row] for row in document.rows]
        assert {change.object for change in changes} == {document.object}
        assert [change.position for change in changes] == sorted({c.position for c in changes})
        assert document.position == changes[0].position
    last: dict[Object, Position] = {}
    for document in planned.documents:
        first = by_row[document.rows[0]].position
        assert document.object not in last or last[document.object] < first
        last[document.object] = by_row[document.rows[-1]].position


@settings(max_examples=60)
@given(cases(), st.integers(1, 9))
def test_batches_in_which_changes_come_change_nothing(case: Case, batch: int) -> None:
    at_once, in_batches = case.setup.plan(case.changes), case.setup.plan(case.changes, batch)
    assert in_batches.documents == at_once.documents
    assert fates(in_batches) == fates(at_once)


@settings(max_examples=60)
@given(cases(), st.integers(2, 5))
def test_lanes_change_nothing_for_an_object(case: Case, lanes: int) -> None:
    whole = case.setup.plan(case.changes)
    documents, found = [], {}
    for lane in range(lanes):
        mine = [change for change in case.changes if lane_of(*change.object, lanes) == lane]
        planned = case.setup.plan(
            [change._replace(row=row) for row, change in enumerate(mine)], batch=5
        )
        back = [change.row for change in mine]
        documents += [
            document._replace(rows=tuple(back[row] for row in document.rows))
            for document in planned.documents
        ]
        for row, (outcome, reason, by) in fates(planned).items():
            found[back[row]] = (outcome, reason, back[by] if by >= 0 else -1)
    assert sorted(documents) == sorted(whole.documents)
    assert found == fates(whole)


@settings(max_examples=60)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_in_which_twins_come_changes_nothing_but_which_of_equals_stays(
    case: Case, chance: random.Random
) -> None:
    """Equal positions come from the shuffle in any order."""
    shuffled = sorted(case.changes, key=lambda change: (change.position, chance.random()))
    shuffled = [change._replace(row=row) for row, change in enumerate(shuffled)]
    one, other = case.setup.plan(case.changes), case.setup.plan(shuffled)
    assert [d._replace(rows=()) for d in one.documents] == [
        d._replace(rows=()) for d in other.documents
    ]
    assert _tally(one, case.changes) == _tally(other, shuffled)


def _tally(planned: Planned, changes: Sequence[Change]) -> Counter[tuple[object, ...]]:
    by_row = {change.row: change for change in changes}
    return Counter(
        (by_row[d.row]._replace(row=0, rank=0), d.outcome, d.reason, d.detail, d.raw)
        for d in planned.decisions
    )
