"""Planning with a database: what is asked and when, what becomes of the answers."""

from __future__ import annotations

import pytest

from publisher.model.change import Object, Reason
from publisher.model.keys import IdentifierCase
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import CurrentRow, RefusedLookup
from publisher.xds.values import ValueOptions
from tests.support.planning import (
    DEPT,
    USR,
    USR_2,
    Event,
    Rows,
    Setup,
    log,
    operation_texts,
    outcomes,
)

ROW = CurrentRow(("idu", "a", "b"), ("1", "A", None))
DATABASE = Rows({USR: ROW, USR_2: CurrentRow(("idu", "a", "b"), ("2", "A2", "B2"))})


def plan_texts(*events: Event, **settings: object) -> list[str]:
    """The documents that events give, in short, with the usual database."""
    return operation_texts(Setup(**{"lookup": DATABASE, **settings}).plan(log(*events)))  # type: ignore[arg-type]


def test_an_object_is_asked_for_once_in_a_lot() -> None:
    database = Rows({USR: ROW})
    changes = log(*(Event(6, at=at) for at in range(1, 40, 10)))
    planned = Setup(lookup=database, polls=PollOptions(10, 0)).plan(changes)
    assert database.asked == [[USR]]
    assert [(lookup.object, lookup.poll) for lookup in planned.lookups] == [
        (USR, poll) for poll in range(4)
    ]


def test_what_precedence_takes_away_is_not_asked_for() -> None:
    database = Rows()
    Setup(lookup=database).plan(log(Event(8, "a"), Event(4), Event(3, "a", "1")))
    assert database.asked == []


def test_a_row_that_is_gone_gives_no_document() -> None:
    changes = log(Event(5), Event(8, "a", obj=USR_2))
    planned = Setup(lookup=Rows()).plan(changes)
    assert outcomes(planned, changes) == ["ignored: row-gone"] * 2
    assert [lookup.answer for lookup in planned.lookups] == [None, None]


def test_logged_values_beside_a_row_that_is_gone_are_published() -> None:
    changes = log(Event(3, "a", "1"), Event(8, "b"), Event(3, "n", "2"))
    planned = Setup(lookup=Rows()).plan(changes)
    assert operation_texts(planned) == ["modify a!+1 n!+2"]
    assert outcomes(planned, changes)[1] == "ignored: row-gone"


def test_a_row_that_the_database_refuses_rejects_its_query_backs_and_says_why() -> None:
    changes = log(Event(8, "a"), Event(3, "b", "1"))
    refused = RefusedLookup(Reason.DATABASE_REFUSED, "overflow: fix the key")
    planned = Setup(lookup=Rows({USR: refused})).plan(changes)
    assert outcomes(planned, changes) == ["rejected: database-refused", "document 0"]
    assert planned.decisions[0].detail == "overflow: fix the key"


def test_a_query_back_without_a_database_is_rejected_and_says_what_to_do() -> None:
    changes = log(Event(6), Event(4), Event(3, "a", "1"), Event(7, "b"))
    planned = Setup().plan(changes)
    assert outcomes(planned, changes) == [
        "ignored: ended-by-delete by 1",
        "document 0",
        "document 1",
        "rejected: no-database",
    ]
    detail = planned.decisions[-1].detail
    assert detail is not None
    assert "--database" in detail


def test_a_query_back_of_a_column_that_the_row_lacks_is_rejected() -> None:
    changes = log(Event(8, "missing"))
    assert outcomes(Setup(lookup=DATABASE).plan(changes), changes) == ["rejected: column-name"]


def test_a_looked_up_value_that_cannot_be_written_is_rejected() -> None:
    database = Rows({USR: CurrentRow(("idu", "a"), ("1", "\x01"))})
    changes = log(Event(6))
    assert outcomes(Setup(lookup=database).plan(changes), changes) == [
        "rejected: forbidden-character"
    ]
    replaced = Setup(lookup=database, values=ValueOptions(forbidden="replace"))
    assert operation_texts(replaced.plan(changes)) == ["modify a!+\ufffd"]


def test_a_column_is_found_whatever_its_case_where_only_one_fits() -> None:
    database = Rows({USR: CurrentRow(("IDU", "FNAME"), ("1", "Jack"))})
    assert plan_texts(Event(8, "fname"), lookup=database) == ["modify FNAME!+Jack"]
    assert plan_texts(Event(6), lookup=database) == ["modify FNAME!+Jack"]


def test_a_column_is_found_by_its_exact_name_where_several_fit() -> None:
    database = Rows({USR: CurrentRow(("idu", "name", "NAME"), ("1", "small", "GREAT"))})
    assert plan_texts(Event(8, "name"), lookup=database) == ["modify name!+small"]
    assert plan_texts(Event(8, "NAME"), lookup=database) == ["modify NAME!+GREAT"]


@pytest.mark.parametrize(
    ("case", "name"),
    [
        (IdentifierCase.AS_WRITTEN, "Fname"),
        (IdentifierCase.LOWER, "fname"),
        (IdentifierCase.UPPER, "FNAME"),
        (IdentifierCase.DATABASE, "Fname"),
    ],
)
def test_columns_of_looked_up_rows_have_the_case_that_is_set(
    case: IdentifierCase, name: str
) -> None:
    database = Rows({USR: CurrentRow(("Idu", "Fname"), ("1", "Jack"))})
    assert plan_texts(Event(6), lookup=database, case=case) == [f"modify {name}!+Jack"]


def test_the_key_is_left_out_of_a_row_whatever_its_case_and_parts() -> None:
    obj = Object("indirect", "part", "no=1+plant=2")
    database = Rows({obj: CurrentRow(("PLANT", "x", "NO"), ("2", "y", "1"))})
    assert plan_texts(Event(6, obj=obj), lookup=database) == ["modify x!+y"]


def test_the_named_columns_suffice_unless_an_event_reads_the_whole_row() -> None:
    rows = Rows({USR: ROW})
    events = [Event(8, "a"), Event(7, "b"), Event(8, "a", obj=USR_2), Event(6, obj=USR_2)]
    Setup(lookup=rows).plan(log(*events, Event(3, "a", "v", obj=DEPT)))
    assert rows.named == [{USR: {"a", "b"}}]
