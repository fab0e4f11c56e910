"""Compares the progress that a sink stores with the runs of a job's journal."""

from __future__ import annotations

from dataclasses import dataclass

from publisher.journal.identity import read_identity
from publisher.journal.job_journals import Journals


@dataclass(frozen=True, slots=True)
class Lineage:
    """The history of a journal directory: its identity, and all runs that were planned in it."""

    identity: str
    journals: Journals

    @classmethod
    def read(cls, journals: Journals) -> Lineage:
        """Reads the identity of a journal directory; creates nothing.

        Raises:
            FatalError: Another version of the program wrote the directory, or it is damaged.
        """
        return cls(read_identity(journals.root) or "", journals)

    def find_problem(self, identity: str, run: str, plan: str | None) -> str | None:
        """Explains why progress cannot come from this journal; ``None`` if it can.

        ``plan`` is ``None`` for a run that may not be planned yet.

        Read the progress before calling this: another instance may plan further runs at any time.
        """
        root = self.journals.root
        if identity != self.identity:
            return (
                f"run {run} came from another journal than {root}: that directory was lost and "
                "created again, or another job has the same name"
            )
        number = self.journals.number_of(run)
        last = self.journals.last_number()
        if number is None:
            return f"run {run} is not a run of job {self.journals.job}"
        if number > last:
            return (
                f"run {run} is newer than the last run that {root} knows (number {last}): the "
                "directory is an older copy"
            )
        return None if plan is None else self._find_difference(run, plan)

    def _find_difference(self, run: str, plan: str) -> str | None:
        journal = self.journals.journal(run)
        manifest = journal.manifest()
        known = self._plan_in_segment(run) if manifest is None else manifest.plan
        if known is not None:
            if known == plan:
                return None
            return (
                f"run {run} has other documents in {journal.root}; the directory is an older copy"
            )
        # retention removes the manifest of a run first
        if not journal.root.exists() or journal.is_sent:
            return None
        return (
            f"run {run} was sent, but {journal.root} lacks its plan; the directory is an older copy"
        )

    def _plan_in_segment(self, run: str) -> str | None:
        number = self.journals.number_of(run)
        return None if number is None else self.journals.segments.plan_of(number)
