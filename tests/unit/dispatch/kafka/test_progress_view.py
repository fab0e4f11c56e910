"""The tokens of a sink, for people: those of lanes, of the whole run, of rejected records."""

from __future__ import annotations

from publisher.cli.status import status_text
from publisher.dispatch.kafka.progress_tokens import REJECTS_LANE, WHOLE, Token, TokenPlace
from publisher.dispatch.kafka.progress_view import by_lane
from publisher.reports.status import JobStatus, LaneToken, RejectsToken, SinkStatus

PLACE = TokenPlace("tokens", "people", "xds")


def token(sent: int) -> Token:
    return Token("identity", "people-000002", "plan", sent)


def test_lanes_stand_in_the_order_of_their_numbers_beside_what_is_no_lane() -> None:
    lanes: list[int | str] = [10, REJECTS_LANE, 2, WHOLE, 0]
    found = {PLACE.key(lane): token(sent) for sent, lane in enumerate(lanes)}
    progress = by_lane("tokens", found)
    assert list(progress.lanes) == [0, 2, 10]
    assert (progress.rejects, progress.whole) == (token(1), token(3))


def test_without_tokens_nothing_was_sent() -> None:
    progress = by_lane("tokens", {})
    assert (progress.lanes, progress.whole, progress.rejects) == ({}, None, None)


def test_rejected_records_are_told_beside_the_lanes() -> None:
    lanes = (LaneToken(0, "people-000002", 3), LaneToken(1, "people-000002", 3))
    rejects = RejectsToken("people-000002", 1_200)
    sink = SinkStatus("kafka://localhost:9092/xds", "people-000002", lanes, rejects)
    lines = list(status_text(JobStatus("people", "j", 1, (), (), None, (), sink, ())))
    assert lines[-2:] == [
        "  2 lanes from 0 to 1, each: 3 documents of people-000002",
        "  rejected records: 1,200 of people-000002",
    ]
