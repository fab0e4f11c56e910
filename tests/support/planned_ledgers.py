"""Committed runs for tests: of records written by hand, and of runs without the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.work import Work
from publisher.ledger import storage
from publisher.ledger.job import DOCUMENTS
from publisher.ledger.lane_rows import LaneRows
from publisher.ledger.manifest import Manifest, SourceEntry
from publisher.ledger.read import find_job
from publisher.ledger.runs import LedgerRun
from publisher.ledger.tables import RECORDS
from publisher.model.change import Outcome
from tests.support.event_ids import ORIGIN
from tests.support.task_runs import plan_all, read_all, results_of, work_of

Record = Mapping[str, object]


def record(record_id: int, outcome: Outcome, reason: str | None = None, **more: object) -> Record:
    """One row of a record file."""
    usual = {
        "source": 0,
        "part": "",
        "rank": record_id,
        "high": record_id,
        "low": 0,
        "ordinal": 0,
        "split": 0,
        "row": record_id,
        "records": 1,
        "outcome": int(outcome),
        "reason": reason,
        "by": -1,
        "document": 0 if outcome is Outcome.PUBLISHED else -1,
    }
    return usual | more


def write_records(root: Path, lanes: Sequence[Sequence[Record]], *, group: int = 3) -> LedgerRun:
    """A run with record files of all lanes, with few rows in a row group."""
    for lane, records in enumerate(lanes):
        table = pa.Table.from_pylist([dict(entry) for entry in records], RECORDS.schema)
        pq.write_table(table, root / RECORDS.file_of(lane), row_group_size=group)
    return LedgerRun(root, rows=[LaneRows(lane, root, root) for lane in range(len(lanes))])


def manifest_of(
    lanes: int,
    *,
    run: str = "hr-000001",
    table: str | None = "log",
    options: EventLogOptions | None = None,
) -> Manifest:
    """The manifest of a run with one source, a table."""
    plain = asdict(options or EventLogOptions())
    entry = SourceEntry("hr", "event-log", (), plain, {}, 0, table, origin=ORIGIN)
    return Manifest(run, "hr", lanes, "", {}, (entry,), (), "published", 0)


def commit_plan(work: Work, root: Path, manifest: Manifest) -> tuple[LedgerRun, Manifest]:
    """Plans all lanes of a run and commits it, to the ledger of a job if the folder around it has one."""
    lanes = plan_all(work, read_all(work), root)
    of_job = find_job(root.parent) is not None
    if not of_job:
        storage.create(root, {})
    rows = [lane.rows for lane in lanes]
    ledger_run = LedgerRun(root, root.parent if of_job else None, rows=rows)
    results = tuple(results_of(lanes))
    complete = Manifest(**{**_fields(manifest), "results": results, "lanes": work.lanes})
    return ledger_run.commit(complete), complete


def _fields(manifest: Manifest) -> dict:
    return {name: getattr(manifest, name) for name in Manifest.__dataclass_fields__}


RUN = "job-000001"

LANES = 3

HEAD = (
    "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,"
    "new_value\n"
)

WELL = [
    f'{number},idu={number % 7},N,1,2026-01-01 10:00:00,,usr,fname,,"Jack\n{number}"\n'
    for number in range(1, 51)
]

BROKEN = [
    "51,idu=1,N,9,2026-01-01 10:00:00,,usr,fname,,Jack\n",
    "52,idu,N,1,2026-01-01 10:00:00,,usr,fname,,Jack\n",
]

LOG = "".join([HEAD, *WELL, *BROKEN])


def plan_small_log(folder: Path, *, rows: int = 20_000) -> tuple[LedgerRun, Manifest]:
    """A planned run of a small log, and its manifest.  Lanes with more ``rows`` have files."""
    folder.mkdir()
    log = folder / "log.csv"
    log.write_text(LOG)
    work = work_of([log], lanes=LANES)
    lanes = plan_all(work, read_all(work), folder, rows=rows)
    source = SourceEntry("log", "event-log", ({"path": str(log)},), {}, {}, 0, origin=ORIGIN)
    manifest = Manifest(
        run=RUN,
        job="job",
        lanes=LANES,
        clock="2026-01-01T00:00:00+00:00",
        settings={},
        sources=(source,),
        results=tuple(results_of(lanes)),
        documents=DOCUMENTS,
        records_read=52,
    )
    storage.create(folder, {})
    return LedgerRun(folder, rows=[lane.rows for lane in lanes]), manifest
