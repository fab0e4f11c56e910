"""Committed runs with documents of a test's own, made without planning anything."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from publisher.ledger import storage
from publisher.ledger.conservation import RunReport, report_of
from publisher.ledger.job import Ledger
from publisher.ledger.lane_result import LaneResult
from publisher.ledger.lane_rows import LaneRows
from publisher.ledger.manifest import Manifest, SourceEntry
from publisher.ledger.read import find_job
from publisher.ledger.runs import LedgerRun
from publisher.ledger.tables import DOCUMENTS, TABLES
from tests.support.event_ids import ORIGIN

IDENTITY = "0123456789abcdef"


@dataclass(frozen=True)
class PlannedDocument:
    """A document; ``number`` is the record id of its one change."""

    number: int
    text: str
    key: str = "idu=1,table=usr,schema=indirect"
    table: str = "usr"
    schema: str | None = "indirect"
    operation: str = "modify"
    source: int = 0
    ordinal: int = 0
    records: str = ""
    new_key: str | None = None
    """The association after a change of the key."""


def documents(
    count: int, *, objects: int = 7, first: int = 1, size: int = 0
) -> list[PlannedDocument]:
    """Numbered documents of some objects."""
    return [
        PlannedDocument(
            n, f"<nds>{n}{'x' * size}</nds>", key=f"idu={n % objects},table=usr,schema=indirect"
        )
        for n in range(first, first + count)
    ]


def commit_run(
    folder: Path,
    lanes: Sequence[Sequence[PlannedDocument]],
    *,
    run: str = "job-000001",
    job: str = "job",
    sources: Sequence[str] = ("log",),
) -> tuple[LedgerRun, Manifest]:
    """A committed run, of a job if the folder around it has a ledger (``write_identity``), or of a replay."""
    folder.mkdir(parents=True, exist_ok=True)
    results, rows = [], []
    for number, planned in enumerate(lanes):
        result, of_lane = _lane(folder, number, planned, sources)
        results.append(result)
        rows.append(of_lane)
    entries = [SourceEntry(name, "event-log", (), {}, {}, 0, origin=ORIGIN) for name in sources]
    manifest = Manifest(
        run=run,
        job=job,
        lanes=len(lanes),
        clock="2026-01-01T00:00:00+00:00",
        settings={},
        sources=tuple(entries),
        results=tuple(results),
        documents=".",
        records_read=sum(map(len, lanes)),
        job_identity=IDENTITY,
    )
    of_job = find_job(folder.parent) is not None
    if not of_job:
        storage.create(folder, {})
    ledger_run = LedgerRun(folder, folder.parent if of_job else None, rows=rows)
    return ledger_run.commit(manifest), manifest


def write_identity(root: Path) -> None:
    """Makes a directory one of a job's ledger, with the identity of those made here."""
    Ledger(root, root.name).adopt_identity(IDENTITY)


def report(ledger_run: LedgerRun, manifest: Manifest) -> RunReport:
    """The run in numbers."""
    return report_of(
        manifest, state="published", ledger=str(ledger_run.root), target="", seconds={}
    )


def _lane(
    folder: Path, number: int, planned: Sequence[PlannedDocument], sources: Sequence[str]
) -> tuple[LaneResult, LaneRows]:
    rows, offset, digest = [], 0, hashlib.sha256()
    for place, document in enumerate(planned):
        text = document.text.encode()
        digest.update(text + b"\n")
        row = _row(document, offset, len(text), sources)
        rows.append(row | {"number": place, "text": document.text})
        offset += len(text) + 1
    tables = {table.name: table.schema.empty_table() for table in TABLES}
    tables[DOCUMENTS.name] = pa.Table.from_pylist(rows, DOCUMENTS.schema)
    result = LaneResult(number, len(planned), offset, (), (), (), digest.hexdigest())
    return result, LaneRows(number, folder, folder, tables)


def _row(
    planned: PlannedDocument, offset: int, length: int, sources: Sequence[str]
) -> dict[str, object]:
    event = f"{ORIGIN.prefix(sources[planned.source])}:{planned.number}"
    return {
        "source": planned.source,
        "offset": offset,
        "length": length,
        "part": "",
        "high": planned.number,
        "low": 0,
        "ordinal": planned.ordinal,
        "poll": 0,
        "operation": planned.operation,
        "schema": planned.schema,
        "table": planned.table,
        "association": planned.key,
        "new_association": planned.new_key,
        "event_id": f"{event}.{planned.ordinal}" if planned.ordinal else event,
        "records": planned.records or str(planned.number),
    }
