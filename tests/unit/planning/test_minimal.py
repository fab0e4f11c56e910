"""Minimal modifies: consumers get the same objects from fewer and smaller documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.consumer import Objects
from publisher.model.change import Change, EventType, Object, Outcome, Position
from publisher.model.lanes import lane_of
from publisher.model.published_objects import UNKNOWN, PublishedObject
from publisher.planning.filters import FilterOptions
from publisher.planning.minimal import (
    ObjectOperation,
    minimize,
)
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import CurrentRow
from publisher.xds.association import association
from publisher.xds.document import DocumentOptions, Envelope, EnvelopeOptions, operation
from publisher.xds.operations import OperationKind, add_attr, replace_attr
from publisher.xds.value_edits import read_edits
from tests.support.event_meanings import update_attr
from tests.support.plan_cases import PlanCase, cases
from tests.support.planning import (
    DEPT,
    USR,
    Event,
    PlannedDocuments,
    Rows,
    Setup,
    log,
    operation_texts,
    outcomes,
)
from tests.support.published_objects import (
    ObjectValues,
    StatesInMemory,
    apply_texts,
    consumed,
    values_of,
)

ENVELOPE = Envelope(EnvelopeOptions())
ATTRIBUTES = ("a", "b")
_TEXTS = ("", "u", "v", "&lt;/value&gt;")
VALUES = (
    *(f'<value type="string">{text}</value>' for text in _TEXTS),
    '<value type="dn" association-ref="no=1,table=dept">no=1</value>',
)

value = st.sampled_from(VALUES)
values = st.lists(value, max_size=3, unique=True).map(lambda texts: "".join(texts) or None)
add_element = st.builds(add_attr, st.sampled_from(ATTRIBUTES), st.none(), values)
modify_element = st.one_of(
    st.builds(replace_attr, st.sampled_from(ATTRIBUTES), st.none(), values),
    st.builds(update_attr, st.sampled_from(ATTRIBUTES), values, values),
)


def elements(element: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(element.filter(bool), max_size=3).map(tuple)


class Step(NamedTuple):
    """An operation on one of a few objects."""

    name: str
    kind: OperationKind
    attributes: tuple[str, ...]
    inserts_row: bool = False
    new_name: str | None = None

    @property
    def operation(self) -> ObjectOperation:
        return ObjectOperation(self.kind, read_edits(self.attributes), self.inserts_row)

    def text(self, attributes: tuple[str, ...]) -> str:
        return ENVELOPE.document(
            [operation(self.kind, "usr", self.name, attributes, None, self.new_name)]
        )


def _modify(name: str, attributes: tuple[str, ...]) -> Step:
    return Step(name, "modify", attributes)


def _other(kind: OperationKind, name: str, other: str) -> Step:
    return Step(name, kind, (), new_name=other if kind == "modify-association" else None)


names = st.sampled_from(["1", "2"])
modify_step = st.builds(_modify, names, elements(modify_element).filter(bool))
add_step = st.builds(
    lambda name, attributes, row: Step(name, "add", attributes, row),
    names,
    elements(add_element),
    st.booleans(),
)
delete_step = st.builds(_other, st.just("delete"), names, names)
rename_step = st.builds(_other, st.just("modify-association"), names, names).filter(
    lambda step: step.name != step.new_name
)
any_step = st.one_of(modify_step, modify_step, modify_step, add_step, delete_step, rename_step)


def reduce_step(states: StatesInMemory, step: Step) -> list[str]:
    """The document of a reduced step, none if nothing has changed; updates the states."""
    attributes, after = minimize(states.state_of(step.name), step.operation)
    if step.new_name is not None:
        states.put(step.name, None)
    states.put(step.new_name or step.name, after)
    return [] if attributes is None else [step.text(attributes)]


def check_equal(steps: Sequence[Step], before: Sequence[Step], states: StatesInMemory) -> None:
    """Compares the objects of two consumers after each step."""
    loaded = [step.text(step.attributes) for step in before]
    full, minimal = apply_texts(Objects(), loaded), apply_texts(Objects(), loaded)
    for step in steps:
        apply_texts(full, [step.text(step.attributes)])
        apply_texts(minimal, reduce_step(states, step))
        assert values_of(minimal) == values_of(full), step


@settings(max_examples=200)
@given(st.lists(any_step, max_size=12), st.lists(any_step, max_size=6))
def test_any_consumer_has_the_same_objects_if_the_state_was_unknown(
    steps: list[Step], before: list[Step]
) -> None:
    check_equal(steps, before, StatesInMemory(is_complete=False))


@settings(max_examples=200)
@given(st.lists(any_step, max_size=14))
def test_a_consumer_from_the_first_document_on_has_the_same_objects(steps: list[Step]) -> None:
    check_equal(steps, [], StatesInMemory())


@settings(max_examples=200)
@given(st.lists(any_step, max_size=12), st.lists(any_step, max_size=4))
def test_a_loaded_consumer_has_the_same_objects_if_rows_are_inserted_only_once(
    steps: list[Step], before: list[Step]
) -> None:
    """A consumer that was loaded by other means does not have an object before its row is inserted."""
    consumer = apply_texts(Objects(), [step.text(step.attributes) for step in before])
    possible = []
    for step in steps:
        inserts_row = step.inserts_row and step.name not in consumer
        possible.append(step._replace(inserts_row=inserts_row))
        apply_texts(consumer, [step.text(step.attributes)])
    check_equal(possible, before, StatesInMemory())


@settings(max_examples=200)
@given(st.lists(any_step, max_size=12))
def test_a_reduced_modify_names_each_value_once_and_only_differences(steps: list[Step]) -> None:
    states, consumer = StatesInMemory(), Objects(strict=True)
    for step in steps:
        before = states.state_of(step.name)
        texts = reduce_step(states, step)
        if step.kind == "modify" and before is not None and before.exists:
            known = {name for name in ATTRIBUTES if before.values_of(name) is not None}
            if known.issuperset(ATTRIBUTES):
                apply_texts(_strict(step.name, before), texts)
    assert not consumer


def _strict(name: str, before: PublishedObject) -> Objects:
    """A consumer that refuses to remove absent and to add present values."""
    attributes = [
        add_attr(attribute, None, "".join(before.values_of(attribute) or ()) or None)
        for attribute in ATTRIBUTES
    ]
    text = ENVELOPE.document([operation("add", "usr", name, list(filter(None, attributes)))])
    return apply_texts(Objects(strict=True), [text])


@pytest.mark.parametrize(
    ("before", "reduced"),
    [
        (UNKNOWN, replace_attr("a", None, VALUES[1] + VALUES[2])),
        (PublishedObject.of({"a": ()}), update_attr("a", None, VALUES[1] + VALUES[2])),
        (PublishedObject.of({"a": (VALUES[2],)}), update_attr("a", None, VALUES[1])),
        (PublishedObject.of({"a": VALUES[:2]}), update_attr("a", VALUES[0], VALUES[2])),
        (PublishedObject.of({"a": VALUES[1:3]}), None),
    ],
)
def test_a_modify_names_the_differing_values_in_order(
    before: PublishedObject, reduced: str | None
) -> None:
    element = replace_attr("a", None, VALUES[2] + VALUES[1])
    result = minimize(before, ObjectOperation("modify", read_edits((element,))))
    assert result.attributes == (None if reduced is None else (reduced,))
    assert result.after is not None
    assert result.after.values == {"a": (VALUES[1], VALUES[2])}


# planner


def plan(
    setup: Setup,
    changes: Sequence[Change],
    states: StatesInMemory | None = None,
    batch: int = 0,
) -> PlannedDocuments:
    return replace(setup, published=states or StatesInMemory()).plan(changes, batch)


@settings(max_examples=150)
@given(cases())
def test_documents_of_a_planner_lead_to_the_same_objects(case: PlanCase) -> None:
    full, minimal = case.setup.plan(case.changes), plan(case.setup, case.changes)
    assert consumed(minimal.documents) == consumed(full.documents)
    assert len(minimal.documents) <= len(full.documents)


@settings(max_examples=100)
@given(cases(), st.integers(1, 9))
def test_each_change_has_one_outcome_and_only_no_ops_differ(case: PlanCase, batch: int) -> None:
    full, minimal = case.setup.plan(case.changes), plan(case.setup, case.changes, batch=batch)
    before, after = outcomes(full, case.changes), outcomes(minimal, case.changes)
    for one, other in zip(before, after, strict=True):
        published = one.startswith("document")
        assert other == "ignored: unchanged" if published and one[:8] != other[:8] else True
        assert published or one == other
    positions = [document.position for document in minimal.documents]
    assert positions == sorted(positions)
    assert minimal.documents == plan(case.setup, case.changes).documents


@settings(max_examples=60)
@given(cases(), st.integers(2, 4))
def test_lanes_change_no_minimal_document(case: PlanCase, lanes: int) -> None:
    whole = plan(case.setup, case.changes)
    texts = []
    for lane in range(lanes):
        mine = [change for change in case.changes if lane_of(*change.object, lanes) == lane]
        numbered = [change._replace(row=row) for row, change in enumerate(mine)]
        texts += [document.text for document in plan(case.setup, numbered).documents]
    assert sorted(texts) == sorted(document.text for document in whole.documents)


@settings(max_examples=60)
@given(cases(), cases())
def test_a_second_run_continues_with_the_states_of_the_first(
    first: PlanCase, second: PlanCase
) -> None:
    states = StatesInMemory()
    minimal = plan(first.setup, first.changes, states).documents
    minimal += plan(second.setup, second.changes, states).documents
    full = first.setup.plan(first.changes).documents + second.setup.plan(second.changes).documents
    assert consumed(minimal) == consumed(full)


def test_a_later_replacement_makes_up_for_a_refused_document() -> None:
    """Documents after the refused one were planned before the refusal."""
    states, setup = StatesInMemory(), Setup(polls=PollOptions(1, 0))
    changes = log(Event(3, "a", "u"), Event(3, "a", "v"), Event(1, "a", "w"))
    first, refused, last = plan(setup, changes, states).documents
    assert "text='u'" in str(consumed([first, last]))
    states.put(refused.association, UNKNOWN)
    later = plan(setup, log(Event(3, "a", "x")), states).documents
    ((_, values_),) = consumed([first, last, *later]).values()
    (value_,) = values_["a"]
    assert "text='x'" in value_


def _row(**values: str | None) -> Rows:
    return Rows({USR: CurrentRow(("idu", *values), ("1", *values.values()))})


def test_a_query_back_publishes_the_difference_of_the_row() -> None:
    states = StatesInMemory()
    setup = Setup(lookup=_row(a="u", b="v"), polls=PollOptions(1, 0))
    assert operation_texts(plan(setup, log(Event(6)), states)) == ["modify a!+u b!+v"]
    setup = replace(setup, lookup=_row(a="u", b="w"))
    assert operation_texts(plan(setup, log(Event(6)), states)) == ["modify b-v+w"]
    changes = log(Event(6), Event(8, "a"), Event(3, "b", "w"))
    planned = plan(setup, changes, states)
    assert not planned.documents
    assert outcomes(planned, changes) == ["ignored: unchanged"] * 3


def test_changes_without_a_difference_leave_their_document() -> None:
    changes = log(Event(1, "a", "u"), Event(3, "a", "u"), Event(3, "b", "v"), Event(3, "a", "u"))
    planned = plan(Setup(), changes)
    assert operation_texts(planned) == ["add a+u", "modify b+v"]
    assert outcomes(planned, changes) == [
        "document 0",
        "ignored: unchanged",
        "document 1",
        "ignored: unchanged",
    ]


def test_a_document_without_its_first_change_keeps_the_order_of_positions() -> None:
    changes = log(
        Event(1, "a", "u", at=1),
        Event(3, "a", "u", at=2),
        Event(1, "a", "x", obj=DEPT, at=3),
        Event(3, "b", "v", at=4),
    )
    planned = plan(Setup(), changes)
    assert [document.position.high for document in planned.documents] == [1, 3, 4]


def test_a_delete_ends_the_state() -> None:
    changes = log(Event(1, "a", "u"), Event(4), Event(3, "a", "u"), Event(3, "a", "u"))
    planned = plan(Setup(), changes)
    assert operation_texts(planned) == ["add a+u", "delete", "modify a!+u"]


def test_a_query_back_that_waits_is_reduced_before_later_changes() -> None:
    changes = log(Event(8, "a", at=1), Event(3, "a", "w", at=5))
    setup = Setup(lookup=_row(a="u", b=None), polls=PollOptions(1, 0))
    planned = plan(setup, changes)
    assert operation_texts(planned) == ["modify a!+u", "modify a-u+w"]


def _rename(obj: Object, new: str, at: int) -> Change:
    (old,) = [part.split("=") for part in obj.key.split("+")]
    return Change(
        at,
        obj,
        Position("", at, 0, 0),
        at,
        EventType.KEY_CHANGE,
        (old[0],),
        (old[1],),
        (new,),
    )


def test_a_change_of_the_key_moves_the_state() -> None:
    renamed = USR._replace(key="idu=7")
    changes = [
        *log(Event(1, "a", "u")),
        _rename(USR, "7", 2),
        *(change._replace(row=3) for change in log(Event(3, "a", "u", obj=renamed, at=3))),
        *(change._replace(row=4) for change in log(Event(3, "a", "v", obj=renamed, at=4))),
    ]
    changes = [change._replace(row=row) for row, change in enumerate(changes)]
    planned = plan(Setup(), changes)
    assert operation_texts(planned) == ["add a+u", "modify-association", "modify a-u+v"]
    assert outcomes(planned, changes)[2] == "ignored: unchanged"


@pytest.mark.parametrize("polls", [PollOptions(), PollOptions(1, 0), PollOptions(2, 1), None])
@pytest.mark.parametrize("batch", [0, 1])
def test_a_key_that_another_object_takes_over_has_the_state_of_that_object(
    polls: PollOptions | None, batch: int
) -> None:
    """The poll of the key is older than the poll of the object that takes it over."""
    other = USR._replace(key="idu=2")
    changes = [
        *log(Event(1, "a", "u", obj=other, at=1)),
        *log(Event(1, "a", "v", at=2)),
        *log(Event(4, obj=other, at=3)),
        _rename(USR, "2", 4),
        *log(Event(3, "a", "u", obj=other, at=5)),
        *log(Event(3, "a", "v", obj=other, at=6)),
    ]
    changes = [change._replace(row=row) for row, change in enumerate(changes)]
    setup = Setup(polls=polls)
    planned = plan(setup, changes, batch=batch)
    assert consumed(planned.documents) == consumed(setup.plan(changes).documents)
    texts = operation_texts(planned)
    assert texts[:4] == ["add a+u", "add a+v", "delete", "modify-association"]
    assert "a-v+u" in texts[4]


@settings(max_examples=150)
@given(cases(), st.integers(1, 9))
def test_consumers_may_change_objects_themselves(case: PlanCase, batch: int) -> None:
    """A loopback change was made by the consumer, before it received the later documents."""
    rules = replace(case.rules, driver_user="idm", poll_size=1, poll_slack=0, batch_size=1)
    setup = PlanCase(case.changes, rules).setup
    own = {c.position: c.object for c in case.changes if c.perpetrator == "idm"}
    full, minimal = setup.plan(case.changes), plan(setup, case.changes, batch=batch)
    assert minimal.documents == plan(setup, case.changes).documents
    assert _with_own_changes(minimal, own) == _with_own_changes(full, own)


def _with_own_changes(planned: PlannedDocuments, own: dict[Position, Object]) -> ObjectValues:
    events = [(position, _own_change(position, obj)) for position, obj in own.items()]
    events += [(document.position, document.text) for document in planned.documents]
    return values_of(apply_texts(Objects(), [text for _, text in sorted(events)]))


def _own_change(position: Position, obj: Object) -> str:
    value_ = f'<value type="string">own {position.high}</value>'
    elements_ = [replace_attr(name, None, value_) for name in ("a", "b", "n")]
    return ENVELOPE.document([operation("modify", obj.table, association(obj), elements_)])


def test_a_loopback_change_is_passed_in_its_order() -> None:
    changes = log(
        Event(3, "a", "u"),
        Event(3, "a", "u"),
        Event(3, "a", "w", perpetrator="idm"),
        Event(3, "a", "u"),
        Event(3, "a", "u"),
    )
    filters = FilterOptions(driver_user="idm")
    planned = plan(Setup(filters=filters, polls=PollOptions(1, 0)), changes)
    assert operation_texts(planned) == ["modify a!+u", "modify a!+u"]
    assert [outcome[:9] for outcome in outcomes(planned, changes)] == [
        *("document ", "ignored: ", "ignored: ", "document ", "ignored: ")
    ]
    grouped = plan(Setup(filters=filters), changes)
    assert operation_texts(grouped) == ["modify a!+u"]


@pytest.mark.parametrize("size", [1, 2, 128])
def test_batches_of_operations_are_reduced_one_by_one(size: int) -> None:
    changes = log(
        Event(1, "a", "u"), Event(3, "a", "u"), Event(4), Event(1, "a", "u"), Event(3, "b", "v")
    )
    setup = Setup(documents=DocumentOptions(size))
    planned = plan(setup, changes)
    operations = "; ".join(operation_texts(planned))
    assert operations == "add a+u; delete; add a+u; modify b+v"
    assert outcomes(planned, changes)[1] == "ignored: unchanged"
    assert all(decision.outcome is Outcome.IGNORED for decision in planned.decisions)
