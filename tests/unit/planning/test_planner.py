"""Planning: documents and their order, look-ups, duplicates, what is refused, what goes where."""

from __future__ import annotations

import json

import pytest
from lxml import etree

from publisher.model.catalogue import ColumnKind, JobCatalogue, Table
from publisher.model.change import Object, Outcome, Position, Reason
from publisher.planning.filters import FilterOptions, PositionRange
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import CurrentRow
from publisher.xds.document import DocumentOptions
from publisher.xds.values import ValueOptions
from tests.support.event_ids import plain_ids
from tests.support.planning import (
    DEPT,
    TABLES,
    USR,
    USR_2,
    Event,
    Rows,
    Setup,
    log,
    operation_texts,
    outcomes,
    reason,
)

ROW = CurrentRow(("idu", "a", "b"), ("1", "A", None))
DATABASE = Rows({USR: ROW, USR_2: CurrentRow(("idu", "a", "b"), ("2", "A2", "B2"))})


def plan_texts(*events: Event, **settings: object) -> list[str]:
    """The documents that events give, in short, with the usual database."""
    return operation_texts(Setup(**{"lookup": DATABASE, **settings}).plan(log(*events)))  # type: ignore[arg-type]


# what the types give, NULL included


@pytest.mark.parametrize(
    ("event", "document"),
    [
        (Event(1, "a", "new"), "add a+new"),
        (Event(1, "a", None), "add"),
        (Event(2, "a", "new", "old"), "modify a-old+new"),
        (Event(2, "a", "new", None), "modify a+new"),
        (Event(2, "a", None, "old"), "modify a-old"),
        (Event(3, "a", "new"), "modify a!+new"),
        (Event(3, "a", None), "modify a!"),
        (Event(3, "a", ""), "modify a!+"),
        (Event(4), "delete"),
        (Event(5), "modify a!+A b!"),
        (Event(6), "modify a!+A b!"),
        (Event(7, "a"), "modify a!+A"),
        (Event(7, "b"), "modify b!"),
        (Event(8, "a"), "modify a!+A"),
        (Event(8, "b"), "modify b!"),
        (Event(8, "idu"), "modify idu!+1"),
    ],
)
def test_an_event_gives_its_document(event: Event, document: str) -> None:
    assert plan_texts(event) == [document]


@pytest.mark.parametrize(
    ("event", "document"),
    [
        (Event(5), "add a+A"),
        (Event(7, "a"), "add a+A"),
        (Event(7, "b"), "add"),
        (Event(6), "modify a!+A b!"),
        (Event(8, "a"), "modify a!+A"),
    ],
)
def test_inserts_with_query_back_may_give_adds(event: Event, document: str) -> None:
    assert plan_texts(event, documents=DocumentOptions(insert_query_back="add")) == [document]


def test_a_modify_without_any_part_is_ignored() -> None:
    changes = log(Event(2, "a", None, None))
    assert outcomes(Setup().plan(changes), changes) == ["ignored: nothing-to-publish"]


def test_an_update_from_null_to_null_adds_nothing_to_the_operation_around_it() -> None:
    changes = log(Event(2, "a", "1", "0"), Event(2, "b", None, None), Event(3, "a", "2"))
    planned = Setup().plan(changes)
    assert operation_texts(planned) == ["modify a-0+1!+2"]
    assert outcomes(planned, changes)[1] == "ignored: nothing-to-publish"


# grouping, order, batches


def test_per_field_events_of_one_kind_of_operation_are_one_operation() -> None:
    assert plan_texts(Event(2, "a", "1", "0"), Event(8, "b"), Event(3, "n", "5")) == [
        "modify a-0+1 b! n!+5"
    ]


def test_another_kind_of_operation_begins_a_new_one() -> None:
    assert plan_texts(Event(1, "a", "1"), Event(2, "b", "1", "0"), Event(1, "n", "5")) == [
        "add a+1",
        "modify b-0+1",
        "add n+5",
    ]


def test_two_updates_of_one_column_both_stay_in_order() -> None:
    assert plan_texts(Event(2, "a", "1", "0"), Event(2, "a", "2", "1")) == ["modify a-0+1-1+2"]


def test_a_row_query_back_is_an_operation_by_itself() -> None:
    """After a delete, so that precedence leaves both; one kind, yet two operations."""
    assert plan_texts(Event(3, "a", "x"), Event(4), Event(6)) == [
        "modify a!+x",
        "delete",
        "modify a!+A b!",
    ]


def test_events_of_another_object_between_do_not_break_an_operation() -> None:
    assert plan_texts(Event(3, "a", "1"), Event(4, obj=USR_2), Event(3, "b", "2")) == [
        "modify a!+1 b!+2",
        "delete",
    ]


def test_operations_do_not_cross_a_poll() -> None:
    events = [Event(3, "a", "1", at=10), Event(3, "b", "2", at=11)]
    assert plan_texts(*events, polls=PollOptions(10, 0)) == ["modify a!+1", "modify b!+2"]
    assert plan_texts(*events, polls=PollOptions(10, 1)) == ["modify a!+1 b!+2"]


def test_precedence_does_not_cross_a_poll() -> None:
    events = [Event(3, "a", "1", at=10), Event(8, "a", at=11)]
    assert plan_texts(*events, polls=PollOptions(10, 0)) == ["modify a!+1", "modify a!+A"]


def test_a_document_stands_at_its_first_change_and_names_all_of_them() -> None:
    changes = log(Event(3, "a", "1", at=5), Event(4, obj=USR_2, at=6), Event(3, "b", "2", at=9))
    first, second = Setup().plan(changes).documents
    assert (first.position, first.rows, first.records) == (Position("", 5, 0, 0), (0, 2), "5,9")
    assert (second.position, second.rows, second.records) == (Position("", 6, 0, 0), (1,), "6")
    assert plain_ids(first.event_id) == "log:5"
    assert first.association == "idu=1,table=usr,schema=indirect"
    assert (first.operation, second.operation) == ("modify", "delete")


def test_documents_leave_in_the_order_of_positions_though_polls_close_in_another() -> None:
    events = [
        Event(3, "a", "1", obj=USR, at=8),
        Event(3, "a", "2", obj=USR_2, at=9),
        *(Event(3, "b", str(at), obj=USR, at=at) for at in (11, 14, 17)),
        Event(4, obj=USR_2, at=30),
    ]
    positions = [
        document.position.high
        for document in Setup(polls=PollOptions(10, 3)).plan(log(*events), batch=1).documents
    ]
    assert positions == [8, 9, 30]


def test_a_document_holds_as_many_operations_as_the_batch_size_says() -> None:
    events = [Event(3, "a", "1"), Event(4), Event(1, "a", "2"), Event(4), Event(1, "a", "3")]
    assert plan_texts(*events, documents=DocumentOptions(batch_size=2)) == [
        "modify a!+1; delete",
        "add a+2; delete",
        "add a+3",
    ]


def test_a_document_may_hold_128_operations_and_names_each() -> None:
    events = [Event(4) for _ in range(130)]
    planned = Setup(documents=DocumentOptions(batch_size=128)).plan(log(*events))
    assert [document.operation.count("delete") for document in planned.documents] == [128, 2]


def test_a_document_holds_operations_of_one_object_and_one_poll_alone() -> None:
    events = [Event(4, at=1), Event(4, obj=USR_2, at=2), Event(4, at=3), Event(4, at=11)]
    documents = DocumentOptions(batch_size=128)
    assert plan_texts(*events, documents=documents, polls=PollOptions(10, 0)) == [
        "delete; delete",
        "delete",
        "delete",
    ]


def test_without_polls_every_change_is_an_operation_by_itself() -> None:
    events = [Event(3, "a", "1"), Event(3, "b", "2"), Event(8, "a")]
    assert plan_texts(*events, polls=None) == ["modify a!+1", "modify b!+2", "modify a!+A"]


def test_event_ids_are_written_on_request_and_are_those_of_first_changes() -> None:
    changes = log(Event(3, "a", "1"), Event(3, "b", "2"), Event(4))
    setup = Setup(documents=DocumentOptions(batch_size=2, event_id=True))
    (document,) = setup.plan(changes).documents
    found = [element.get("event-id") for element in etree.fromstring(document.text).iter()]
    assert [plain_ids(event_id) for event_id in found if event_id] == ["log:1", "log:3"]
    assert "event-id" not in Setup().plan(changes).documents[0].text


def test_operations_of_one_record_have_ids_of_their_own() -> None:
    (change,) = log(Event(4))
    second = change._replace(row=1, position=change.position._replace(ordinal=1))
    planned = Setup(polls=None).plan([change, second])
    assert [plain_ids(document.event_id) for document in planned.documents] == ["log:1", "log:1.1"]


# what is excluded


def test_excluded_columns_are_left_out_of_looked_up_rows() -> None:
    filters = FilterOptions(exclude_columns=("usr.b",))
    assert plan_texts(Event(6), Event(6, obj=USR_2), filters=filters) == [
        "modify a!+A",
        "modify a!+A2",
    ]


def test_a_row_of_which_every_column_is_excluded_gives_nothing() -> None:
    changes = log(Event(6))
    setup = Setup(lookup=DATABASE, filters=FilterOptions(exclude_columns=("*",)))
    assert outcomes(setup.plan(changes), changes) == ["ignored: nothing-to-publish"]


def test_a_bad_value_of_an_excluded_column_is_excluded_and_not_rejected() -> None:
    changes = log(Event(3, "n", "no number"))
    setup = Setup(filters=FilterOptions(exclude_columns=("n",)))
    assert outcomes(setup.plan(changes), changes) == ["ignored: excluded"]


def test_events_of_the_future_are_held_in_whatever_poll_they_are() -> None:
    changes = log(Event(3, "a", "1", time=10), Event(4, time=30), Event(3, "b", "2", time=20))
    planned = Setup(held_after=25).plan(changes)
    assert operation_texts(planned) == ["modify a!+1 b!+2"]
    assert outcomes(planned, changes)[1] == "held: future"


# duplicates


def test_the_same_record_again_is_a_duplicate_of_the_first() -> None:
    event = Event(3, "a", "1", at=5)
    changes = log(event, event, event)
    assert outcomes(Setup().plan(changes), changes) == [
        "document 0",
        "ignored: duplicate by 0",
        "ignored: duplicate by 0",
    ]


@pytest.mark.parametrize(
    "other",
    [
        Event(3, "a", "2", at=5),
        Event(3, "b", "1", at=5),
        Event(3, "a", None, at=5),
        Event(3, "a", "", at=5),
        Event(1, "a", "1", at=5),
        Event(4, at=5),
        Event(3, "a", "1", at=5, time=1),
        Event(3, "a", "1", at=5, perpetrator="scott"),
    ],
)
def test_another_record_of_the_same_number_is_rejected(other: Event) -> None:
    changes = log(Event(3, "a", "1", at=5), other)
    fates = sorted(text.split(" by")[0] for text in outcomes(Setup().plan(changes), changes))
    assert fates == ["document 0", "rejected: double-record"]


def test_which_of_two_different_records_is_rejected_does_not_hang_on_their_order() -> None:
    one, other = Event(3, "a", "1", at=5), Event(3, "a", "2", at=5)
    assert plan_texts(one, other) == plan_texts(other, one)


def test_nor_on_ranks_which_by_event_time_follow_the_cut_of_the_files() -> None:
    events = [Event(3, "a", "1", at=5), Event(3, "a", "2", at=5)]
    documents = []
    for order in (events, events[::-1]):
        changes = [change._replace(rank=rank) for rank, change in enumerate(log(*order), 7)]
        documents += operation_texts(Setup().plan(changes))
    assert documents[0] == documents[1]


def test_the_same_number_of_another_object_is_no_duplicate() -> None:
    assert len(plan_texts(Event(4, at=5), Event(4, obj=USR_2, at=5))) == 2


def test_a_reject_keeps_the_change_as_its_raw_record() -> None:
    (decision,) = Setup().plan(log(Event(3, "n", "x1", at=7))).decisions
    assert decision.outcome is Outcome.REJECTED
    assert decision.raw is not None
    assert '"x1"' in decision.raw
    assert '"idu=1"' in decision.raw


# windows


@pytest.mark.parametrize(
    ("first", "last", "documents"),
    [
        (2, None, ["modify b!+2 n!+3"]),
        (None, 2, ["modify a!+1 b!+2"]),
        (2, 2, ["modify b!+2"]),
        (4, None, []),
    ],
)
def test_a_window_leaves_out_what_is_outside(
    first: int | None, last: int | None, documents: list[str]
) -> None:
    window = PositionRange(
        *(None if at is None else Position("", at, 0, 0) for at in (first, last))
    )
    events = [Event(3, "a", "1"), Event(3, "b", "2"), Event(3, "n", "3")]
    assert plan_texts(*events, window=window) == documents


def test_polls_are_cut_before_the_window_takes_events_out() -> None:
    """Record 6 is near enough to 5, and 5 to 4; without 5 the poll would be cut before 6."""
    events = [
        Event(3, "a", "1", at=8),
        Event(8, "a", at=11),
        Event(3, "b", "2", at=14),
        Event(3, "n", "3", at=17),
    ]
    polls = PollOptions(10, 3)
    window = PositionRange(Position("", 14, 0, 0), None)
    planned = Setup(polls=polls, window=window, lookup=DATABASE).plan(log(*events))
    assert [document.poll for document in planned.documents] == [0]
    assert reason(planned, 0) == (Outcome.IGNORED, Reason.OUT_OF_RANGE)


def test_what_is_outside_of_the_window_is_rejected_for_nothing() -> None:
    changes = log(Event(3, "n", "no number"), Event(4))
    setup = Setup(window=PositionRange(Position("", 2, 0, 0), None))
    assert outcomes(setup.plan(changes), changes) == ["ignored: out-of-range", "document 0"]


# characters that XML forbids


@pytest.mark.parametrize(
    "event",
    [
        Event(3, "a", "\x00"),
        Event(2, "a", "new", "\x0b"),
        Event(3, "a\x01", "1"),
        Event(8, "a\x01"),
        Event(4, obj=Object("indirect", "usr", "idu=\x02")),
        Event(6, obj=Object("indirect", "us\ufffer", "idu=1")),
        Event(3, "a", "1", obj=Object("in\uffffdirect", "usr", "idu=1")),
    ],
)
def test_a_character_that_xml_forbids_rejects_the_record(event: Event) -> None:
    changes = log(event, Event(4, obj=DEPT))
    planned = Setup(lookup=DATABASE).plan(changes)
    assert outcomes(planned, changes) == ["rejected: forbidden-character", "document 0"]


def test_forbidden_characters_of_values_may_be_replaced_but_never_those_of_names() -> None:
    values = ValueOptions(forbidden="replace")
    assert plan_texts(Event(3, "a", "x\x01y"), values=values) == ["modify a!+x\ufffdy"]
    assert plan_texts(Event(3, "a\x01", "x"), values=values) == []


@pytest.mark.parametrize("event", [Event(3, "n", "no number"), Event(2, "p", "qqo=", "?")])
def test_a_value_that_is_not_of_its_columns_kind_is_rejected_alone(event: Event) -> None:
    changes = log(Event(3, "a", "1"), event, Event(3, "b", "2"))
    planned = Setup().plan(changes)
    assert operation_texts(planned) == ["modify a!+1 b!+2"]
    assert outcomes(planned, changes)[1] == "rejected: value"


# compound keys


@pytest.mark.parametrize(
    ("order", "association"),
    [
        (("plant", "no"), "plant=2+no=1,table=part,schema=indirect"),
        (("no", "plant"), "no=1+plant=2,table=part,schema=indirect"),
        ((), "no=1+plant=2,table=part,schema=indirect"),
    ],
)
def test_a_compound_key_is_printed_in_the_order_of_the_primary_key(
    order: tuple[str, ...], association: str
) -> None:
    obj = Object("indirect", "part", "no=1+plant=2")
    columns = {"no": ColumnKind.INT, "plant": ColumnKind.INT}
    catalogue = JobCatalogue([*TABLES, Table("indirect", "part", order, columns)])
    (document,) = Setup(catalogue=catalogue).plan(log(Event(4, obj=obj))).documents
    assert document.association == association


# what is kept


@pytest.mark.parametrize("polls", [PollOptions(), None])
def test_rejects_name_the_record_as_users_of_the_source_do(polls: PollOptions | None) -> None:
    setup = Setup(polls=polls, position_text=lambda position: f"no {position.high}")
    twice = log(Event(3, "a", "x", at=4), Event(3, "a", "y", at=4), Event(3, "a", "\x01", at=5))
    found = {found.row: found for found in setup.plan(twice).decisions if found.raw is not None}
    (double,) = [found[row] for row in (0, 1) if row in found]
    assert (double.detail or "").startswith("record no 4 appears twice for this object")
    assert [json.loads(entry.raw or "")["position"] for entry in (double, found[2])] == [
        "no 4",
        "no 5",
    ]
