"""Ledger of live event logs, planned in this process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from publisher.acknowledge.places import LogPlace
from publisher.database.options import DatabaseOptions
from publisher.database.resources import Rules
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.event_log.source import event_log
from publisher.formats.live.table_split import DatabaseTable
from publisher.formats.work import SourceWork, Work
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.model.catalogue import ColumnKind, JobCatalogue, Table
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions, text_of
from tests.services.databases import Place
from tests.support.event_ids import ORIGIN
from tests.support.planned_ledgers import commit_plan, manifest_of
from tests.support.prepare import prepare_here

USR = Table(
    None,
    "usr",
    ("idu",),
    {
        "idu": ColumnKind.INT,
        "fname": ColumnKind.STRING,
        "lname": ColumnKind.STRING,
        "photo": ColumnKind.OCTET,
    },
    complete=True,
)
LANES = 3
CLOCK = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


def read_from(database: DatabaseOptions, table: str = "log") -> LogPlace:
    """The table that ``planned`` has read, known to be it."""
    return LogPlace("hr", database, table)


def plan_live_log(
    place: Place,
    root: Path,
    *,
    table: str = "log",
    run: str = "hr-000001",
    options: EventLogOptions | None = None,
    future_events: bool = False,
    tables: Sequence[Table] = (USR,),
    lookups: bool = True,
) -> tuple[LedgerRun, Manifest]:
    """The committed ledger of one reading of the table, by the rules of ``tests.support.whole_log``."""
    options = options or EventLogOptions()
    database = place.database().options
    rules = Rules(
        documents=DocumentOptions(),
        envelope=EnvelopeOptions(),
        values=ValueOptions(),
        tables=tuple(tables),
        database=database if lookups else None,
    )
    source = event_log(options, table=DatabaseTable(database, table, text_of))
    with prepare_here(source, (), 2, JobCatalogue(())) as prepared:
        live = SourceWork(
            name="hr",
            source=source,
            splits=prepared.splits,
            filters=FilterOptions(driver_user="idm", exclude=("*_history",)),
            polls=PollOptions(poll_size=7, poll_slack=2, future_events=future_events),
            identifier_case=options.identifier_case,
            origin=ORIGIN,
        )
        work = Work((live,), rules, lanes=LANES, clock=CLOCK, shared=root / "ids")
        root.mkdir(parents=True)
        return commit_plan(work, root, manifest_of(LANES, run=run, table=table, options=options))
