"""Commits runs to a ledger in children that are killed at random moments; prints what is left each time.

``python -m tests.services.killed_ledgers FOLDER KILLS SEED``: FOLDER is an empty directory of a job.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from publisher.ledger import storage
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest, RunEnd
from publisher.ledger.runs import LedgerRun
from tests.support.ledgers import commit_run, documents, write_identity


def main(folder: str, kills: str, seed: str) -> None:
    root, rng = Path(folder), random.Random(int(seed))
    write_identity(root)
    ledger = Ledger(root, root.name)
    for _ in range(int(kills)):
        name = ledger.create_run()
        storage.close(root)
        child = os.fork()
        if not child:
            commit_and_finish(ledger, name)
            os._exit(0)
        time.sleep(rng.uniform(0, 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        sys.stdout.write(f"{what_is_left(ledger)}\n")


def commit_and_finish(ledger: Ledger, name: str) -> None:
    """What a publisher does with a run, again and again until it is killed."""
    while True:
        run, manifest = commit_run(ledger.root / name, [documents(40)], run=name, job=ledger.job)
        ledger.finish(run, manifest, RunEnd(), greatest={"log": run.number}, leftovers={})
        name = ledger.create_run()


def what_is_left(ledger: Ledger) -> str:
    """``nothing``, ``planned`` or ``finished``: what became of the last run; checks all that is there."""
    ledger.check()
    if ledger.discard_incomplete():
        return "nothing"
    for run, manifest in ledger.unsent_runs():
        check_rows(run, manifest)
        ledger.finish(run, manifest, RunEnd(), greatest={"log": run.number}, leftovers={})
        return "planned"
    newest = ledger.newest_run()
    if newest is not None:
        assert ledger.greatest_ids()["log"] == newest.number
    return "finished"


def check_rows(run: LedgerRun, manifest: Manifest) -> None:
    stored = run.load()
    assert stored is not None
    assert stored.tables is not None
    assert stored.tables["documents"].num_rows == 40
    assert manifest.records_read == 40


if __name__ == "__main__":
    main(*sys.argv[1:])
