"""Polls: blocks of ranks, the slack that keeps a transaction together, the bound on one object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from publisher.model.change import Change, Object, Reason
from publisher.planning.polls import PollOptions
from tests.support.plan_results import Document
from tests.support.planning import USR, USR_2, Event, Setup, log


def cut(changes: Iterable[Change], size: int, slack: int = 0) -> list[Document]:
    """A document for each poll of an object: changes are of one kind."""
    return Setup(polls=PollOptions(poll_size=size, poll_slack=slack)).plan(changes).documents


def at(*ranks: int, obj: Object = USR) -> list[Change]:
    return log(*(Event(3, "a", "v", obj=obj, at=rank) for rank in ranks))


def ranks(polls: Sequence[Document]) -> list[list[int]]:
    return [[int(record) for record in poll.records.split(",")] for poll in polls]


def test_ranks_fall_into_blocks_that_begin_with_one() -> None:
    assert ranks(cut(at(1, 10, 11, 20, 21), size=10)) == [[1, 10], [11, 20], [21]]


def test_polls_are_numbered_by_their_blocks() -> None:
    assert [poll.poll for poll in cut(at(10, 11, 95), size=10)] == [0, 1, 9]


def test_an_event_within_the_slack_stays_in_the_poll_of_the_one_before_it() -> None:
    assert ranks(cut(at(9, 12), size=10, slack=3)) == [[9, 12]]
    assert ranks(cut(at(9, 12), size=10, slack=2)) == [[9], [12]]


def test_the_slack_counts_from_the_event_before_and_not_from_the_first() -> None:
    assert ranks(cut(at(8, 11, 14, 17, 21), size=10, slack=3)) == [[8, 11, 14, 17], [21]]


def test_after_a_poll_that_went_on_the_next_has_the_number_of_its_own_block() -> None:
    polls = cut(at(9, 12, 17, 20), size=10, slack=3)
    assert ranks(polls) == [[9, 12], [17, 20]]
    assert [poll.poll for poll in polls] == [0, 1]


def test_the_slack_is_looked_at_for_each_object_by_itself() -> None:
    changes = log(
        Event(3, "a", "v", obj=USR, at=9),
        Event(3, "a", "v", obj=USR_2, at=10),
        Event(3, "b", "v", obj=USR, at=11),
        Event(3, "b", "v", obj=USR_2, at=13),
    )
    polls = cut(changes, size=10, slack=2)
    assert sorted((poll.object, ranks([poll])[0]) for poll in polls) == [
        (USR, [9, 11]),
        (USR_2, [10]),
        (USR_2, [13]),
    ]


def test_a_poll_holds_no_more_than_its_size_of_one_object() -> None:
    assert ranks(cut(at(*range(8, 20)), size=5, slack=9)) == [
        [8, 9, 10, 11, 12],
        [13, 14, 15, 16, 17],
        [18, 19],
    ]


def test_the_same_record_twice_is_never_cut_in_two() -> None:
    planned = Setup(polls=PollOptions(2, 0)).plan(at(1, 2, 2, 2, 3))
    assert ranks(planned.documents) == [[1, 2], [3]]
    assert [(decision.row, decision.reason) for decision in planned.decisions] == [
        (2, Reason.DUPLICATE),
        (3, Reason.DUPLICATE),
    ]


def test_a_record_that_stands_twice_takes_one_place_in_its_poll() -> None:
    once, twice = at(1, 2, 3, 4, 5), at(1, 1, 2, 2, 3, 3, 3, 4, 5)
    for size in range(1, 6):
        assert ranks(cut(twice, size, slack=1)) == ranks(cut(once, size, slack=1))


gaps = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=30)


@given(gaps, st.integers(1, 7), st.integers(0, 3))
def test_polls_follow_from_the_changes_of_their_object_alone(
    steps: list[tuple[int, int]], size: int, slack: int
) -> None:
    """A lane may hold any objects: none of them changes the polls of another."""
    rank, events = 0, []
    for number, gap in steps:
        rank += gap
        events.append(Event(3, "a", "v", obj=Object(None, "t", f"id={number}"), at=rank))
    together: dict[Object, list[list[int]]] = {}
    for poll in cut(log(*events), size, slack):
        together.setdefault(poll.object, []).append(ranks([poll])[0])
    for obj, polls in together.items():
        alone = [event for event in events if event.obj == obj]
        assert ranks(cut(log(*alone), size, slack)) == polls
