"""Planning over random logs: conservation, order, independence of lanes and batches, an oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.model.change import Change, Object, Position, Reason
from publisher.model.lanes import lane_of
from tests.support import plan_oracle
from tests.support.plan_cases import PlanCase, cases
from tests.support.planning import PlannedDocuments


def fates(planned: PlannedDocuments) -> dict[int, tuple[str, str, int]]:
    return {
        decision.row: (decision.outcome.label, str(decision.reason), decision.by)
        for decision in planned.decisions
    }


@settings(max_examples=200)
@given(cases())
def test_planning_gives_what_the_rules_give_by_hand(case: PlanCase) -> None:
    planned = case.setup.plan(case.changes)
    found = fates(planned)
    twins = frozenset(row for row, fate in found.items() if fate[1] == Reason.DOUBLE_RECORD)
    expected = plan_oracle.plan(case.changes, case.rules, twins)
    documents = [(d.position.high, d.object, d.text, d.rows) for d in planned.documents]
    assert documents == expected.documents
    assert found == expected.fates


@settings(max_examples=60)
@given(cases())
def test_every_change_ends_in_exactly_one_outcome(case: PlanCase) -> None:
    planned = case.setup.plan(case.changes)
    rows = [row for document in planned.documents for row in document.rows]
    rows += [decision.row for decision in planned.decisions]
    assert sorted(rows) == [change.row for change in case.changes]


@settings(max_examples=60)
@given(cases())
def test_documents_of_a_lane_and_so_of_an_object_are_in_position_order(case: PlanCase) -> None:
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
def test_batches_in_which_changes_come_change_nothing(case: PlanCase, batch: int) -> None:
    at_once, in_batches = case.setup.plan(case.changes), case.setup.plan(case.changes, batch)
    assert in_batches.documents == at_once.documents
    assert fates(in_batches) == fates(at_once)


@settings(max_examples=60)
@given(cases(), st.integers(2, 5))
def test_lanes_change_nothing_for_an_object(case: PlanCase, lanes: int) -> None:
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
    case: PlanCase, chance: random.Random
) -> None:
    """Equal positions come from the shuffle in any order."""
    shuffled = sorted(case.changes, key=lambda change: (change.position, chance.random()))
    shuffled = [change._replace(row=row) for row, change in enumerate(shuffled)]
    one, other = case.setup.plan(case.changes), case.setup.plan(shuffled)
    assert [d._replace(rows=()) for d in one.documents] == [
        d._replace(rows=()) for d in other.documents
    ]
    assert _tally(one, case.changes) == _tally(other, shuffled)


def _tally(planned: PlannedDocuments, changes: Sequence[Change]) -> Counter[tuple[object, ...]]:
    by_row = {change.row: change for change in changes}
    return Counter(
        (by_row[d.row]._replace(row=0, rank=0), d.outcome, d.reason, d.detail, d.raw)
        for d in planned.decisions
    )
