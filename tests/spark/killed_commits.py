"""Kills a replay at each of its steps on disk, from the commit of its ledger to its end.

``python -m tests.spark.killed_commits STAGED MANIFEST WORK JOB SNAPSHOT [FINISHED]``: STAGED is an output
directory as it is before the commit, MANIFEST what was going to be committed.  For each step a copy
of STAGED in WORK (or one of FINISHED, which is published once more) is taken on by a process of its
own that kills itself before that step.  Planning, and so Spark, is left out: what it stages is taken
from STAGED.  All else is the program's own.  Prints how many steps there were.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from publisher.config.job_file import load
from publisher.ledger.lane_rows import LaneRows
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import DOCUMENT_STAGING
from publisher.runs import replay
from publisher.runs import run as spine
from publisher.runs.prepare import RunRequest

STEPS = frozenset({"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"})


def main(arguments: Sequence[str]) -> None:
    staged, manifest, work, job_file, snapshot, *finished = map(Path, arguments)
    for step in count(1):
        directory = work / f"{step:03d}"
        shutil.copytree(finished[0] if finished else staged, directory)
        child = os.fork()
        if not child:
            death = Death(step, directory)
            planned, rows = pickle.loads(manifest.read_bytes())
            plan = partial(death.plan, planned=planned, rows=rows, staged=staged)
            setattr(replay, "plan", plan)  # noqa: B010
            sys.addaudithook(death.hook)
            replay.replay(load(job_file), [snapshot], str(directory), again=bool(finished))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, status
    sys.stdout.write(f"{step - 1}\n")


@dataclass
class Death:
    """SIGKILL before the step that changes ``directory``, or reads from it, for the n-th time."""

    step: int
    directory: Path
    waiting: bool = False

    def hook(self, event: str, values: tuple[object, ...]) -> None:
        """Sees every step of the process."""
        if self.waiting or event not in STEPS or not str(values[0]).startswith(str(self.directory)):
            return
        self.step -= 1
        if not self.step:
            os.kill(os.getpid(), signal.SIGKILL)

    def plan(
        self,
        request: RunRequest,
        *_: object,
        planned: Manifest,
        rows: Sequence[LaneRows],
        staged: Path,
    ) -> spine.Plan:
        """Replaces planning: copies the staged files."""
        request.ledger_run.begin(self.directory)
        self.waiting = True
        for folder in ("_ledger/staging", DOCUMENT_STAGING):
            if (staged / folder).exists():
                shutil.copytree(staged / folder, self.directory / folder, dirs_exist_ok=True)
        self.waiting = False
        moved = [
            replace(
                lane,
                folder=request.ledger_run.staging / lane.folder.name,
                documents=self.directory / DOCUMENT_STAGING / lane.documents.name,
            )
            for lane in rows
        ]
        return spine.Plan(replace(request.ledger_run, rows=moved), planned, {}, None)


if __name__ == "__main__":
    main(sys.argv[1:])
