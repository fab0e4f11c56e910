"""Precedence among the events of one object in one poll, rule by rule.

Events are written ``2a`` (type 2 of column a) or ``5``.  The outcome says for each event: ``+`` it is
published, ``<3`` the third event superseded it, ``x3`` it was ignored since the third event, a
delete, ends its segment.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.catalogue import JobCatalogue
from publisher.model.change import Change, Outcome, Reason
from publisher.planning.filters import FilterOptions
from publisher.planning.query_back import CurrentRow
from publisher.xds.values import ValueOptions
from tests.support.planning import (
    USR,
    Event,
    PlannedDocuments,
    Rows,
    Setup,
    log,
    operation_texts,
    outcomes,
)

LOOPBACK = FilterOptions(driver_user="idm", exclude_columns=("x",))
DATABASE = Rows({USR: CurrentRow(("idu", "a", "b", "x"), ("1", "A", "B", "X"))})

CHILD = Rows({USR: CurrentRow(("idu", "a"), ("1", "A"))})


COLUMNS = ("a", "b", "c", "d", "e", "t.c", "t.d")
ALONE = Setup(
    lookup=Rows({USR: CurrentRow(("idu", *COLUMNS), ("1", *map(str.upper, COLUMNS)))}),
    catalogue=JobCatalogue(()),
)
"""Columns with a dot are not part of the row."""

EVENTS = ("1a", "1b", "2a", "2b", "3a", "3b", "4", "5", "6", "7a", "7b", "8a", "8b")


def plan_events(events: str) -> tuple[PlannedDocuments, list[Change]]:
    changes = log(*(Event(int(text[0]), text[1:] or None, "v") for text in events.split()))
    return ALONE.plan(changes), changes


def fates(events: str) -> str:
    planned, changes = plan_events(events)
    signs = {row: "+" for document in planned.documents for row in document.rows}
    for decision in planned.decisions:
        assert decision.row not in signs, "two outcomes"
        sign = "<" if decision.outcome is Outcome.SUPERSEDED else "x"
        signs[decision.row] = f"{sign}{decision.by + 1}"
    return " ".join(signs[change.row] for change in changes)


def reasons(events: str) -> set[Reason | None]:
    return {decision.reason for decision in plan_events(events)[0].decisions}


@pytest.mark.parametrize("events", ["", "4", "1a", "1a 1b 1c", "2a 2a 3a 1a", "5", "6", "7a", "8a"])
def test_events_without_a_rival_are_all_published(events: str) -> None:
    assert fates(events) == " ".join("+" for _ in events.split())


@pytest.mark.parametrize(
    ("other", "column", "text", "fate"),
    [
        (7, "a", "modify a!+A b!+B", "document 0"),
        (7, "c", "modify c!+C a!+A b!+B", "document 0"),
        (8, "a", "modify a!+A b!+B", "document 0"),
        (2, "b", "modify a!+A b!+B", "superseded: field-query-back by 1"),
    ],
)
def test_a_query_back_of_several_columns_is_limited_to_those_that_no_other_reads(
    other: int, column: str, text: str, fate: str
) -> None:
    first, second = log(Event(other, column, "v"), Event(8, "a"))
    changes = [first, second._replace(columns=("a", "b"))]
    planned = ALONE.plan(changes)
    assert operation_texts(planned) == [text]
    assert outcomes(planned, changes) == [fate, "document 0"]


def test_a_query_back_of_several_columns_is_superseded_where_others_read_all_of_them() -> None:
    first, second, third = log(Event(8, "b"), Event(7, "a"), Event(8, "a"))
    changes = [first, second, third._replace(columns=("a", "b"))]
    planned = ALONE.plan(changes)
    assert operation_texts(planned) == ["modify b!+B a!+A"]
    assert outcomes(planned, changes)[2].startswith("superseded: field-query-back")


@pytest.mark.parametrize("row", ["5", "6"])
@pytest.mark.parametrize("other", ["1a", "2a", "3a", "7a", "8a"])
def test_a_row_query_back_supersedes_every_per_field_event_before_and_after_it(
    row: str, other: str
) -> None:
    assert fates(f"{other} {row}") == "<2 +"
    assert fates(f"{row} {other}") == "+ <1"
    assert reasons(f"{row} {other}") == {Reason.ROW_QUERY_BACK}


@pytest.mark.parametrize("row", ["5", "6"])
@pytest.mark.parametrize("other", ["1t.c", "2t.c", "3t.c", "7t.c", "8t.c"])
def test_a_row_query_back_supersedes_no_event_that_it_does_not_publish(
    row: str, other: str
) -> None:
    assert fates(f"{other} {row}") == fates(f"{row} {other}") == "+ +"
    assert fates(f"{other} 1a {row}") == "+ <3 +"


def test_what_a_row_query_back_leaves_goes_by_the_rules_of_fields() -> None:
    assert fates("1t.c 6 8t.c 2t.d 7t.c") == "<5 + <5 + +"
    assert reasons("1t.c 6 8t.c 2t.d 7t.c") == {Reason.FIELD_QUERY_BACK}
    assert fates("1t.c 8t.d 6 4 1t.c") == "+ x4 x4 + +"


@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("query_back", [5, 6])
def test_the_value_of_a_child_table_is_published_beside_its_parents_row(
    first: int, query_back: int
) -> None:
    changes = log(
        Event(first, "usr_phone.phoneno", "111-1111"), Event(query_back), Event(3, "a", "old")
    )
    planned = Setup(lookup=CHILD).plan(changes)
    assert outcomes(planned, changes) == [
        "document 0",
        "document 1",
        "superseded: row-query-back by 1",
    ]
    assert "usr_phone.phoneno" in planned.documents[0].text
    assert "111-1111" in planned.documents[0].text


def test_a_field_query_back_of_a_child_table_is_rejected_beside_the_row() -> None:
    changes = log(Event(8, "usr_phone.phoneno"), Event(6))
    planned = Setup(lookup=CHILD).plan(changes)
    assert outcomes(planned, changes) == ["rejected: column-name", "document 0"]
    assert "make it a column of a child table" in str(planned.decisions[0].detail)


def test_the_value_of_a_key_column_is_published_beside_its_row() -> None:
    changes = log(Event(2, "IDU", "5", "1"), Event(6))
    planned = Setup(lookup=CHILD).plan(changes)
    assert outcomes(planned, changes) == ["document 0", "document 1"]


def test_insert_row_goes_before_update_row_whatever_their_order() -> None:
    assert fates("5 6") == "+ <1"
    assert fates("6 5") == "<2 +"


def test_insert_row_logged_last_supersedes_all_that_an_update_row_would() -> None:
    assert fates("1a 6 8b 5") == "<4 <4 <4 +"


@pytest.mark.parametrize("row", ["5", "6"])
def test_of_equal_row_query_backs_the_first_stays(row: str) -> None:
    assert fates(f"{row} {row} {row}") == "+ <1 <1"


@pytest.mark.parametrize("field", ["7a", "8a"])
@pytest.mark.parametrize("other", ["1a", "2a", "3a"])
def test_a_field_query_back_supersedes_logged_values_of_its_column_before_and_after_it(
    field: str, other: str
) -> None:
    assert fates(f"{other} {field}") == "<2 +"
    assert fates(f"{field} {other}") == "+ <1"
    assert reasons(f"{field} {other}") == {Reason.FIELD_QUERY_BACK}


def test_a_field_query_back_leaves_other_columns_alone() -> None:
    assert fates("2b 8a 3c 1d 7e") == "+ + + + +"


def test_insert_field_goes_before_update_field_of_its_column_whatever_their_order() -> None:
    assert fates("7a 8a") == "+ <1"
    assert fates("8a 7a") == "<2 +"
    assert fates("8a 7b") == "+ +"


@pytest.mark.parametrize("field", ["7a", "8a"])
def test_of_equal_field_query_backs_of_a_column_the_first_stays(field: str) -> None:
    assert fates(f"{field} {field} {field}") == "+ <1 <1"


def test_each_column_has_a_winner_of_its_own() -> None:
    assert fates("2a 8b 8a 2b 3c 7b") == "<3 <6 + <6 + +"


def test_a_row_query_back_supersedes_field_query_backs_before_they_supersede_anything() -> None:
    assert fates("2a 8a 6") == "<3 <3 +"


def test_a_delete_parts_what_is_before_it_from_what_is_after_it() -> None:
    assert fates("1a 4 8a") == "+ + +"
    assert fates("3a 4 5") == "+ + +"
    assert fates("2a 4 2a 8a") == "+ + <4 +"


def test_a_delete_is_superseded_by_nothing() -> None:
    assert fates("4 5") == "+ +"
    assert fates("4 4") == "+ +"


def test_update_delete_insert_leaves_the_delete_and_the_insert() -> None:
    assert fates("6 4 5") == "x2 + +"


@pytest.mark.parametrize("query_back", ["5", "6", "7a", "8a"])
def test_a_query_back_before_a_delete_is_ignored(query_back: str) -> None:
    assert fates(f"{query_back} 4") == "x2 +"
    assert reasons(f"{query_back} 4") == {Reason.ENDED_BY_DELETE}


def test_logged_values_before_a_delete_are_published() -> None:
    assert fates("1a 2b 3c 4") == "+ + + +"


def test_nothing_is_revived_when_the_winner_is_ended_by_a_delete() -> None:
    assert fates("2a 8a 4") == "<2 x3 +"
    assert fates("1a 7b 5 6 4") == "<3 <3 x5 <3 +"


def test_each_of_many_deletes_ends_its_own_segment() -> None:
    assert fates("5 4 6 4 8a 4 7a") == "x2 + x4 + x6 + +"


@given(st.lists(st.sampled_from(EVENTS), max_size=12))
def test_every_event_has_one_fate_and_a_second_pass_over_what_is_kept_changes_nothing(
    events: list[str],
) -> None:
    signs = fates(" ".join(events)).split()
    assert len(signs) == len(events)
    remaining = [event for event, sign in zip(events, signs, strict=True) if sign == "+"]
    assert fates(" ".join(remaining)).split() == ["+"] * len(remaining)


def test_what_a_look_up_says_later_revives_nothing() -> None:
    changes = log(Event(2, "a", "new", "old"), Event(8, "a"))
    planned = Setup(lookup=Rows()).plan(changes)  # the row is gone
    assert outcomes(planned, changes) == [
        "superseded: field-query-back by 1",
        "ignored: row-gone",
    ]


def test_a_query_back_that_no_database_can_answer_still_supersedes() -> None:
    changes = log(Event(2, "a", "new", "old"), Event(6))
    assert outcomes(Setup().plan(changes), changes) == [
        "superseded: row-query-back by 1",
        "rejected: no-database",
    ]


@pytest.mark.parametrize(
    ("taken_out", "why"),
    [
        (Event(5, perpetrator="idm"), "ignored: loopback"),
        (Event(8, "a", perpetrator="idm"), "ignored: loopback"),
        (Event(5, time=100), "held: future"),
        (Event(8, "x"), "ignored: excluded"),
    ],
)
def test_what_a_filter_takes_out_supersedes_nothing(taken_out: Event, why: str) -> None:
    changes = log(Event(2, "a", "new", "old"), taken_out)
    planned = Setup(filters=LOOPBACK, lookup=DATABASE, held_after=50).plan(changes)
    assert outcomes(planned, changes) == ["document 0", why]


@pytest.mark.parametrize("taken_out", [Event(4, perpetrator="idm"), Event(4, time=100)])
def test_a_delete_that_a_filter_takes_out_is_no_barrier(taken_out: Event) -> None:
    changes = log(Event(6), taken_out, Event(6))
    planned = Setup(filters=LOOPBACK, lookup=DATABASE, held_after=50).plan(changes)
    decided = outcomes(planned, changes)
    assert (decided[0], decided[2]) == ("document 0", "superseded: row-query-back by 0")


def test_a_rejected_query_back_supersedes_nothing() -> None:
    changes = log(Event(3, "a\x01", "one"), Event(8, "a\x01"), Event(2, "b", "2", "1"))
    decided = outcomes(Setup(lookup=DATABASE).plan(changes), changes)
    assert decided == ["rejected: forbidden-character"] * 2 + ["document 0"]


def test_a_rejected_delete_is_no_barrier() -> None:
    changes = log(Event(8, "a"), Event(6, at=2), Event(4, at=2), Event(8, "a"))
    decided = outcomes(Setup(lookup=DATABASE).plan(changes), changes)
    # one of the two records 2 is rejected; whichever it is supersedes nothing and bars nothing
    if decided[1].startswith("rejected"):
        assert decided == ["ignored: ended-by-delete by 2", decided[1], "document 0", "document 1"]
    else:
        assert decided[2].startswith("rejected: double-record")
        assert decided == ["superseded: row-query-back by 1", "document 0", decided[2],
                        "superseded: row-query-back by 1"]  # fmt: skip


def test_a_replaced_character_is_no_reject_and_so_supersedes() -> None:
    changes = log(Event(8, "a"), Event(3, "a", "\x01"))
    setup = Setup(lookup=DATABASE, values=ValueOptions(forbidden="replace"))
    assert outcomes(setup.plan(changes), changes) == [
        "document 0",
        "superseded: field-query-back by 0",
    ]
