"""The pictures in the documentation show what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from publisher.model.change import Change, Object, Position, Reason
from publisher.planning.polls import ObjectPoll, PollOptions, Polls
from publisher.planning.precedence import apply_precedence

IMAGES = Path(__file__).parents[2] / "docs" / "images"
USER = Object(None, "usr", "idu=1")


def draw_events() -> list[Change]:
    """Returns the events of the picture of polls, in its order."""
    picture = (IMAGES / "polls.svg").read_text("utf-8")
    drawn = re.findall(r'"end">([\d,]+)</text>\s.*\s.*>(\d) \w+ (\w+)</text>', picture)
    return [
        Change(
            row=row,
            object=USER,
            position=Position("", int(rank.replace(",", "")), 0, 0),
            rank=int(rank.replace(",", "")),
            event_type=int(event_type),
            columns=() if column == "row" else (column,),
            old=None,
            new=None,
        )
        for row, (rank, event_type, column) in enumerate(drawn)
    ]


def cut(changes: list[Change]) -> list[ObjectPoll]:
    polls = Polls(PollOptions())
    return [*(poll for change in changes for poll in polls.add(change)), *polls.close_all()]


def test_the_events_are_in_the_polls_that_the_picture_shows() -> None:
    ranks = [[change.rank for change in poll.changes] for poll in cut(draw_events())]
    assert ranks == [[1, 2, 40, 41, 55, 9_980, 10_050], [10_400]]


def test_the_row_query_back_supersedes_the_events_with_dashed_arrows() -> None:
    changes = draw_events()
    first, second = (
        apply_precedence(poll.changes, lambda change: bool(change.columns)) for poll in cut(changes)
    )
    superseded = {changes[d.row].rank: changes[d.by].rank for d in first.decisions}
    assert superseded == {41: 55, 9_980: 55, 10_050: 55}
    assert {decision.reason for decision in first.decisions} == {Reason.ROW_QUERY_BACK}
    assert [change.rank for change in (*first.remaining, *second.remaining)] == [
        1,
        2,
        40,
        55,
        10_400,
    ]
