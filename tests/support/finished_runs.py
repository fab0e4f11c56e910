"""Finished runs of a job in its journal directory, planned from small logs without the engine."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow.parquet as pq

from publisher.dispatch.refusals import DispatchRecord, Refusal
from publisher.journal.find_journal import open_journal
from publisher.journal.job_journals import DOCUMENTS, Journals
from publisher.journal.manifest import DOCUMENT_STAGING, Journal, Manifest, RunEnd, SourceEntry
from publisher.sources.event_log.options import EventLogOptions
from tests.support.event_ids import ORIGIN
from tests.support.journals import write_identity
from tests.support.planned_journals import HEAD
from tests.support.task_runs import plan_all, read_all, work_of

DAY = 86_400
LANES = 2


def make_journals(base: Path) -> Journals:
    """An empty journal directory of a job, beside a database with a few objects."""
    with sqlite3.connect(base / "hr.db") as connection:
        connection.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
        connection.executemany("INSERT INTO usr VALUES (?, ?)", [(n, f"Ann {n}") for n in range(3)])
    connection.close()
    write_identity(base / "job")
    return Journals(base / "job", "job")


def plan_run(journals: Journals, ids: Sequence[int]) -> tuple[Journal, Manifest]:
    """A committed run of a table that read these records: changes, query-backs, and a reject."""
    journal = journals.journal(journals.create_run())
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        log.write_text(HEAD + "".join(_line(number) for number in ids), newline="\n")
        work = work_of([log], lanes=LANES, database=f"sqlite:///{journals.root.parent}/hr.db")
        results = plan_all(work, read_all(work), journal.root)
    (journal.root / DOCUMENTS).rename(journal.root / DOCUMENT_STAGING)
    (journal.root / DOCUMENTS).mkdir()
    (journal.root / DOCUMENT_STAGING).rename(journal.root / DOCUMENTS / DOCUMENT_STAGING)
    source = SourceEntry(
        "log", "event-log", (), asdict(EventLogOptions()), {}, 0, table="log", origin=ORIGIN
    )
    manifest = Manifest(
        run=journal.root.name,
        job=journals.job,
        lanes=LANES,
        clock="2026-01-01T00:00:00+00:00",
        settings={},
        sources=(source,),
        results=tuple(results),
        documents=DOCUMENTS,
        records_read=len(ids),
    )
    journal.commit(manifest)
    return journal, manifest


def _line(number: int) -> str:
    """A record of an event log: every fifth is broken, every seventh a query-back."""
    kind = 9 if number % 5 == 0 else 6 if number % 7 == 0 else 3
    return f'{number},idu={number % 4},N,{kind},2026-01-01 10:00:00,,usr,fname,,"Jack\n{number}"\n'


def finish_run(
    journals: Journals, ids: Sequence[int], *, days: float = 0, refused: bool = True
) -> str:
    """A finished run that ended so many days ago; the sink refused one document."""
    journal, manifest = plan_run(journals, ids)
    lane = next((result.lane for result in manifest.results if result.documents), 0)
    refusal = Refusal(lane, 0, "log", str(ids[0]), str(ids[0]), "too-large", "longer than 1 byte")
    refusals = (refusal,) if refused else ()
    record = DispatchRecord(manifest.run, manifest.plan, "kafka://", ("xds",), 9, 9, refusals)
    record.write(journal.root, "kafka://")
    journal.mark_sent(RunEnd(notes=("a note",)))
    moment = time.time() - days * DAY
    os.utime(journal.root / "sent", (moment, moment))
    return manifest.run


def finish_runs(journals: Journals, count: int, *, days: float = 0) -> list[str]:
    """Finished runs with three records each, whose ids go on."""
    first = 1 + 3 * journals.last_number()
    starts = range(first, first + 3 * count, 3)
    return [finish_run(journals, range(start, start + 3), days=days) for start in starts]


def copy_runs(journals: Journals, run: str, count: int) -> None:
    """Copies a finished run under new numbers, much faster than planning."""
    journal = journals.journal(run)
    manifest = journal.manifest()
    assert manifest is not None
    for _ in range(count):
        copy = journals.journal(journals.create_run())
        shutil.copytree(journal.root, copy.root, dirs_exist_ok=True)
        (copy.root / "manifest.json").write_text(replace(manifest, run=copy.root.name).to_json())


def contents_of(journals: Journals, run: str) -> dict[str, object]:
    """Everything in the journal of a run, wherever it is; rows of tables as plain values."""
    with open_journal(journals.root / run) as journal:
        manifest = journal.manifest()
        assert manifest is not None
        tables = [
            name
            for result in manifest.results
            for name in result.journal_files
            if name.endswith(".parquet")
        ]
        paths = [path for path in journal.root.rglob("*") if path.is_file()]
        texts = (path for path in paths if path.suffix != ".parquet" and path.name != "lock")
        return {str(path.relative_to(journal.root)): path.read_bytes() for path in texts} | {
            name: rows_of(journal.root / name) for name in tables
        }


def rows_of(path: Path) -> list[dict[str, object]]:
    """The rows of a small file, faster than by ``read_table``."""
    with pq.ParquetFile(path) as file:
        rows: list[dict[str, object]] = file.read(use_threads=False).to_pylist()
        return rows


def contents_of_all(journals: Journals, runs: Iterable[str]) -> dict[str, dict[str, object]]:
    """The journals of several runs, see ``contents_of``."""
    return {run: contents_of(journals, run) for run in runs}
