"""``bench write-back``: the statuses of a run's records into an event log in PostgreSQL."""

from __future__ import annotations

import time
from pathlib import Path

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.write_status import acknowledge
from publisher.config.job_file import load
from publisher.ledger.read import find_run
from publisher.ledger.runs import LedgerRun
from publisher.runs.publish import publish
from tests.bench.data import Log, event_log
from tests.bench.log_table import SOURCE, TABLE, fill_table, statuses
from tests.bench.program import TABLE as KNOWN
from tests.bench.program import workspace
from tests.bench.report import Report
from tests.services.live_ledgers import read_from
from tests.services.servers import Server, postgresql

EVENTS = 1_800_000
ROWS_A_SECOND = 100_000

JOB = """
[dispatch]
path = "out"

[acknowledge]
write_status = false
"""


def run(*, runs: int = 3, events: int | None = None, **_: int) -> Report:
    """One ledger; its statuses are written into the same log, filled again each time."""
    count = events or EVENTS
    log = event_log(Log(count))
    report = Report("write-back")
    taken: list[float] = []
    with postgresql(max_wal_size="16GB") as server, workspace() as work:
        job = work / "write-back.toml"
        job.write_text(SOURCE.format(table=TABLE, url=server.url) + KNOWN + JOB)
        fill_table(server, log)
        ledger_run = _plan(job)
        for turn in range(runs):
            if turn:
                fill_table(server, log)
            taken.append(_write_statuses(server, job, ledger_run, count))
    best = report.add_seconds(f"statuses of {count:,} rows", taken)
    report.add("rows a second", count / best, "", at_least=ROWS_A_SECOND)
    return report


def _plan(job: Path) -> LedgerRun:
    """The ledger of a run that left all rows as they are."""
    return find_run(Path(publish(load(job)).ledger)).handle


def _write_statuses(server: Server, job: Path, ledger_run: LedgerRun, events: int) -> float:
    manifest = ledger_run.manifest()
    database = load(job).sources[0].database
    assert manifest is not None
    assert database is not None
    start = time.perf_counter()
    done = acknowledge(ledger_run, manifest, 0, read_from(database, TABLE), AcknowledgeOptions())
    seconds = time.perf_counter() - start
    if done.changed != {"S": events} or statuses(server) != {"S": events}:
        raise RuntimeError(f"{events} rows were to be S: {done.changed}, {statuses(server)}")
    return seconds
