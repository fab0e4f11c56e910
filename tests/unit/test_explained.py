"""What ``explain`` says where little is known."""

from __future__ import annotations

import pytest

from publisher.explain import Story
from publisher.output import stories_text

KNOWN_AT = "2026-05-04 11:15:03+00:00"


def story(event_time: str | None, perpetrator: str | None) -> Story:
    return Story(
        source="crm",
        position="1",
        place="crm.csv, record 2",
        raw=None,
        object=None,
        event=None,
        columns=(),
        event_time=event_time,
        perpetrator=perpetrator,
        outcome="published",
        reason=None,
        meaning="",
        status="S",
        by=None,
        lookups=(),
        document=None,
        target="out",
    )


@pytest.mark.parametrize(
    ("event_time", "perpetrator", "made"),
    [
        (KNOWN_AT, "anna", [f"{KNOWN_AT} by anna"]),
        (KNOWN_AT, None, [KNOWN_AT]),
        (KNOWN_AT, "", [KNOWN_AT]),
        (None, "anna", ["at an unknown time by anna"]),
        (None, None, []),
        (None, "", []),
    ],
)
def test_what_made_a_change_is_told_as_far_as_it_is_known(
    event_time: str | None, perpetrator: str | None, made: list[str]
) -> None:
    lines = list(stories_text([story(event_time, perpetrator)]))
    assert [line[12:] for line in lines if line.startswith("made ")] == made
