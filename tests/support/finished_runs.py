"""Finished runs of a job in its ledger directory, planned from small logs without the engine."""

from __future__ import annotations

import sqlite3
import tempfile
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from publisher.dispatch.refusals import DispatchRecord, Refusal
from publisher.formats.event_log.options import EventLogOptions
from publisher.ledger import storage
from publisher.ledger.hours import Closing, Hour, hours_of
from publisher.ledger.job import DOCUMENTS, Ledger
from publisher.ledger.manifest import Manifest, RunEnd, SourceEntry
from publisher.ledger.read import find_run
from publisher.ledger.runs import LedgerRun
from publisher.ledger.tables import TABLES
from tests.support.event_ids import ORIGIN
from tests.support.ledgers import write_identity
from tests.support.planned_ledgers import HEAD
from tests.support.task_runs import plan_all, read_all, results_of, work_of

DAY = 86_400
LANES = 2


def make_ledgers(base: Path) -> Ledger:
    """An empty ledger directory of a job, beside a database with a few objects."""
    with sqlite3.connect(base / "hr.db") as connection:
        connection.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
        connection.executemany("INSERT INTO usr VALUES (?, ?)", [(n, f"Ann {n}") for n in range(3)])
    connection.close()
    write_identity(base / "job")
    return Ledger(base / "job", "job")


def plan_run(ledger: Ledger, ids: Sequence[int]) -> tuple[LedgerRun, Manifest]:
    """A committed run of a table that read these records: changes, query-backs, and a reject."""
    ledger_run = ledger.run(ledger.create_run())
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        log.write_text(HEAD + "".join(_line(number) for number in ids), newline="\n")
        work = work_of([log], lanes=LANES, database=f"sqlite:///{ledger.root.parent}/hr.db")
        lanes = plan_all(work, read_all(work), ledger_run.root)
    source = SourceEntry(
        "log", "event-log", ({},), asdict(EventLogOptions()), {}, 0, table="log", origin=ORIGIN
    )
    manifest = Manifest(
        run=ledger_run.root.name,
        job=ledger.job,
        lanes=LANES,
        clock="2026-01-01T00:00:00+00:00",
        settings={},
        sources=(source,),
        results=tuple(results_of(lanes)),
        documents=DOCUMENTS,
        records_read=len(ids),
    )
    rows = [lane.rows for lane in lanes]
    return replace(ledger_run, rows=rows).commit(manifest), manifest


def _line(number: int) -> str:
    """A record of an event log: every fifth is broken, every seventh a query-back."""
    kind = 9 if number % 5 == 0 else 6 if number % 7 == 0 else 3
    return f'{number},idu={number % 4},N,{kind},2026-01-01 10:00:00,,usr,fname,,"Jack\n{number}"\n'


def finish_run(ledger: Ledger, ids: Sequence[int], *, days: float = 0, refused: bool = True) -> str:
    """A finished run that ended so many days ago; the sink refused one document."""
    ledger_run, manifest = plan_run(ledger, ids)
    lane = next((result.lane for result in manifest.results if result.documents), 0)
    refusal = Refusal(lane, 0, "log", str(ids[0]), str(ids[0]), "too-large", "longer than 1 byte")
    refusals = (refusal,) if refused else ()
    record = DispatchRecord(manifest.run, manifest.plan, "kafka://", ("xds",), 9, 9, refusals)
    record.write(ledger_run, "kafka://")
    finish(ledger, ledger_run, days=days)
    return manifest.run


def finish(ledger: Ledger, ledger_run: LedgerRun, *, days: float = 0) -> None:
    """Ends a committed run so many days ago."""
    manifest = ledger_run.manifest()
    assert manifest is not None
    ledger.finish(ledger_run, manifest, RunEnd(notes=("a note",)), greatest={}, leftovers={})
    with storage.transaction(ledger.root) as connection:
        ended = (time.time() - days * DAY, ledger_run.number)
        connection.execute("UPDATE run SET ended = ? WHERE number = ?", ended)


def wait_again(ledger: Ledger) -> None:
    """Makes finished runs wait for their sink and their statuses again."""
    with storage.transaction(ledger.root) as connection:
        connection.execute("UPDATE run SET ended = NULL, outcome = NULL")


def finish_runs(ledger: Ledger, count: int, *, days: float = 0) -> list[str]:
    """Finished runs with three records each, whose ids go on."""
    first = 1 + 3 * ledger.last_number()
    starts = range(first, first + 3 * count, 3)
    return [finish_run(ledger, range(start, start + 3), days=days) for start in starts]


def copy_runs(ledger: Ledger, run: str, count: int) -> None:
    """Copies a finished run under new numbers, much faster than planning."""
    ledger_run = ledger.run(run)
    manifest, first = ledger_run.manifest(), 1 + ledger.last_number()
    assert manifest is not None
    with storage.transaction(ledger.root) as connection:
        cursor = connection.execute("SELECT * FROM run WHERE number = ?", (ledger_run.number,))
        row = dict(zip((each[0] for each in cursor.description), cursor.fetchone(), strict=True))
        for number in range(first, first + count):
            name = ledger.run_id(number)
            text = replace(manifest, run=name).to_json()
            copy = row | {"number": number, "name": name, "manifest": zlib.compress(text.encode())}
            marks = ", ".join("?" * len(copy))
            connection.execute(f"INSERT INTO run VALUES ({marks})", [*copy.values()])
            for table, others in (("key_run", "hash"), ("run_text", "name, text")):
                connection.execute(
                    f"INSERT INTO {table} SELECT ?, {others} FROM {table} WHERE run = ?",
                    (number, ledger_run.number),
                )


def close_hours(ledger: Ledger, *, fewest: int = 1, seconds: float = -1) -> list[Hour]:
    """Closes all hours that are over; returns them."""
    closing = Closing(ledger.root, lambda: None, seconds=seconds, fewest=fewest)
    while closing.step():
        pass
    return hours_of(ledger.root)


def contents_of(ledger: Ledger, run: str) -> dict[str, object]:
    """Everything in the ledger of a run, wherever it is; rows of tables as plain values."""
    stored = find_run(ledger.root / run)
    lanes = stored.with_rows().lanes(stored.manifest)
    return {
        "manifest": stored.manifest,
        "texts": dict(stored.texts),
        "end": stored.end,
        "ended": stored.ended,
    } | {f"{t.name} of {lane.lane}": lane.read(t).to_pylist() for lane in lanes for t in TABLES}


def contents_of_all(ledger: Ledger, runs: Iterable[str]) -> dict[str, dict[str, object]]:
    """The ledger of several runs, see ``contents_of``."""
    return {run: contents_of(ledger, run) for run in runs}
