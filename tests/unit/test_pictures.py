"""The pictures in the documentation show what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from publisher.model.change import Change, Object, Position, Reason
from publisher.planning.query_back import CurrentRow
from tests.support.planning import Rows, Setup

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
            new=("new",),
        )
        for row, (rank, event_type, column) in enumerate(drawn)
    ]


def test_events_are_published_or_superseded_as_the_picture_shows() -> None:
    changes = draw_events()
    lookup = Rows({USER: CurrentRow(("idu", "fname", "lname"), ("1", "John", "Smith"))})
    planned = Setup(lookup=lookup).plan(changes)
    published: dict[int, list[int]] = {}
    for document in planned.documents:
        published.setdefault(document.poll, []).extend(changes[row].rank for row in document.rows)
    assert published == {0: [1, 2, 40, 55], 1: [10_400]}
    superseded = {changes[d.row].rank: (changes[d.by].rank, d.reason) for d in planned.decisions}
    assert superseded == dict.fromkeys((41, 9_980, 10_050), (55, Reason.ROW_QUERY_BACK))
