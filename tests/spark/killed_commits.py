"""Kills a replay at each of its steps on disk, from the commit of its journal to its end.

``python -m tests.spark.killed_commits STAGED MANIFEST WORK JOB SNAPSHOT [FINISHED]``: STAGED is an output
directory as it is before the commit, MANIFEST what was going to be committed.  For each step a copy
of STAGED in WORK (or one of FINISHED, which is published once more) is taken on by a process of its
own that kills itself before that step.  Planning, and so Spark, is left out: what it stages is taken
from STAGED.  All else is the program's own.  Prints how many steps there were.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from publisher import job
from publisher.job_file import load
from publisher.journal.manifest import DOCUMENT_STAGING, Manifest

STEPS = frozenset({"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"})


def main(arguments: Sequence[str]) -> None:
    staged, manifest, work, job_file, snapshot, *finished = map(Path, arguments)
    for step in count(1):
        directory = work / f"{step:03d}"
        shutil.copytree(finished[0] if finished else staged, directory)
        child = os.fork()
        if not child:
            die_at(step, directory)
            job._plan = plan_of(
                directory, Manifest.from_json(manifest.read_text(), manifest), staged
            )
            job.replay(load(job_file), [snapshot], str(directory), again=bool(finished))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, status
    sys.stdout.write(f"{step - 1}\n")


def die_at(step: int, directory: Path) -> None:
    """SIGKILL before the step that changes ``directory``, or reads from it, for the n-th time."""
    steps = count(1)
    own = str(directory)

    def hook(event: str, values: tuple[object, ...]) -> None:
        if event in STEPS and str(values[0]).startswith(own) and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def plan_of(directory: Path, planned: Manifest, staged: Path) -> Callable[..., Manifest]:
    """What stands in for planning: the staged files, and their commit."""

    def plan(order: job.Order, *_: object) -> Manifest:
        order.journal.begin(directory)
        for folder in ("_journal/staging", DOCUMENT_STAGING):
            shutil.copytree(staged / folder, directory / folder, dirs_exist_ok=True)
        order.journal.commit(planned)
        return planned

    return plan


if __name__ == "__main__":
    main(sys.argv[1:])
