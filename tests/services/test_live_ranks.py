"""Polls of an event log in a database are counted in events, whatever the splits."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.database.options import DatabaseOptions
from publisher.database.resources import Rules
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.event_log.source import event_log
from publisher.formats.live.table_split import DatabaseTable
from publisher.formats.work import SourceWork, Work
from publisher.model.catalogue import JobCatalogue
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions, text_of
from tests.services.databases import Place
from tests.support.event_ids import ORIGIN
from tests.support.prepare import prepare_here
from tests.support.task_runs import lines, plan_all, read_all

pytestmark = pytest.mark.usefixtures("reuse_connections")

EVENTS = [
    (900_000, "N", 3, 1),
    (7, "N", 3, 2),
    (10_200, "N", 8, 1),
    (9_500, "S", 3, 1),
    (9_000, "N", 3, 1),
    (900_001, "N", 9, 3),
    (2_000_000, "N", 8, 1),
]
"""Record id, status, event type, key; in no order."""


def make_log(place: Place) -> None:
    values = ", ".join(
        f"({record_id}, 'idu={key}', '{status}', {kind}, '2024-01-01 00:00:00', NULL, 'usr',"
        f" 'fname', NULL, 'v{record_id}')"
        for record_id, status, kind, key in EVENTS
    )
    place.execute(
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(20))",
        "INSERT INTO usr VALUES (1, 'now'), (2, 'then')",
        "CREATE TABLE event_log (record_id BIGINT, table_key VARCHAR(20), status CHAR(1),"
        " event_type INTEGER, event_time TIMESTAMP, perpetrator VARCHAR(20), table_name VARCHAR(20),"
        " column_name VARCHAR(20), old_value VARCHAR(20), new_value VARCHAR(20))",
        f"INSERT INTO event_log VALUES {values}",
    )


def plan_documents(place: Place, folder: Path, polls: PollOptions, splits: int) -> list[str]:
    database: DatabaseOptions = place.database().options
    source = event_log(EventLogOptions(), table=DatabaseTable(database, "event_log", text_of))
    rules = Rules(DocumentOptions(), EnvelopeOptions(), ValueOptions(), (), database)
    with prepare_here(source, (), splits, JobCatalogue(())) as prepared:
        opened = prepared.splits
        live = SourceWork(
            "hr", source, opened, FilterOptions(), polls, IdentifierCase.DATABASE, origin=ORIGIN
        )
        work = Work((live,), rules, lanes=2, clock=0, shared=folder / "ids")
        documents = lines(plan_all(work, read_all(work), folder))
    return sorted(document for document in documents if "idu=1," in document)


def test_gaps_end_no_poll_and_splits_change_nothing(place: Place, tmp_path: Path) -> None:
    make_log(place)
    for number, (size, slack, count) in enumerate(
        [(6, 0, 1), (4, 0, 2), (4, 1, 2), (4, 2, 1), (1, 0, 4)]
    ):
        polls = PollOptions(poll_size=size, poll_slack=slack)
        found = [
            plan_documents(place, tmp_path / f"{number}-{splits}", polls, splits)
            for splits in (1, 2, 5)
        ]
        assert found[0] == found[1] == found[2]
        assert len(found[0]) == count
        assert ">now<" in "".join(found[0])
