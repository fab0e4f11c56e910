"""The file sink: part files with one document on each line, ``rejects.jsonl`` and ``run.json``.

``run.json`` is written last: a directory with it has the complete run.  Until then the folder
``.staging`` names the run that was begun there.
"""

# ruff: noqa: PLC0415 - a start that finds nothing to publish reads no rows

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from publisher.dispatch.refusals import Refusal
from publisher.errors import FatalError, UsageError
from publisher.ledger.conservation import RunReport
from publisher.ledger.durable import make_private, read_versioned_file, sync_folder, write_durably
from publisher.ledger.job import RUN, Ledger
from publisher.ledger.lane_result import part_name
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import DOCUMENT_STAGING, LedgerRun
from publisher.model.change import Outcome
from publisher.model.plain import fields_of, to_lines

if TYPE_CHECKING:
    from publisher.ledger.lane_rows import LaneRows

REJECTS = "rejects.jsonl"
BEGUN = "begun.json"
RUN_FORMAT = 3


@dataclass(frozen=True, slots=True)
class RunMark:
    """The run of a directory: published if it has a plan, otherwise begun."""

    identity: str
    """``Manifest.identity`` of the run."""
    run: str
    plan: str | None = None
    epochs: dict[str, int] = field(default_factory=dict, compare=False)
    """``Manifest.epochs`` of the run."""

    @classmethod
    def read(cls, path: Path) -> RunMark | None:
        """Reads ``begun.json`` or ``run.json``; ``None`` if there is no such file.

        Raises:
            FatalError: The file is damaged, or of another version of the program.
        """

        def decode(content: dict[str, Any]) -> RunMark:
            identity, run = content["identity"], content["run"]
            return cls(identity, run, content.get("plan"), content.get("epochs", {}))

        return read_versioned_file(path, RUN_FORMAT, decode, "name a new directory")


@dataclass(frozen=True, slots=True)
class FileDispatcher:
    """Publishes to a directory.

    ``ledger`` has the runs of the job; ``None`` for a replay, and for a ledger that is sent to a
    further directory.  ``identity`` is the identity of the manifest, if it differs from the name of the
    run.  ``ignored`` are names of the program's own entries in the
    directory.
    """

    directory: Path
    ledger: Ledger | None = None
    identity: str | None = None
    ignored: frozenset[str] = frozenset({"_ledger"})

    @property
    def target(self) -> str:
        """The directory."""
        return str(self.directory)

    def check(self, run: str) -> None:
        """Refuses a directory that is neither empty nor begun by the same run.  Writes nothing.

        A directory in which another run began but sent nothing counts as empty.

        Raises:
            UsageError: The directory holds other content, or is not a directory.
            FatalError: It has a run with the same name that the job's ledger does not know.
        """
        if not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise UsageError(f"{self.directory} is not a directory: name a new one")
        names = {path.name for path in self.directory.iterdir()} - self.ignored - {DOCUMENT_STAGING}
        mark = self._read_mark()
        self.refuse_unknown_run()
        if not names or (mark is not None and self._is_mark_of(mark, run)):
            return
        if mark is None:
            raise UsageError(f"{self.directory} is not empty: name a new or an empty directory")
        raise UsageError(
            f"{self.directory} has documents of run {mark.run}, and this is run {run} (other input "
            "or settings, or another job): name a new directory"
        )

    def refuse_unknown_run(self) -> None:
        """Refuses a directory with a run that the job's ledger does not know.  Writes nothing.

        Raises:
            FatalError: The run is of another ledger, is newer than the ledger, or has another plan.
        """
        mark = self._read_mark()
        if mark is None or self.ledger is None:
            return
        problem = self.ledger.find_problem(mark.identity, mark.run, mark.plan)
        if problem is not None:
            raise FatalError(
                f"{self.directory} does not fit the ledger: {problem}; nothing was written. Restore "
                "the latest ledger directory; or, if two jobs share the name, set another "
                "name in [job]; or, if the ledger is lost, run `xds-publisher recover -c JOB.toml`"
            )

    def prepare(self, run: str) -> None:
        """Creates the directory with the mark of the begun run, unless it has a complete run.

        Raises:
            UsageError: As ``check``.
        """
        self.check(run)
        self.directory.mkdir(parents=True, exist_ok=True)
        if (self.directory / RUN).exists():
            shutil.rmtree(self.directory / DOCUMENT_STAGING, ignore_errors=True)
        else:
            self._begin(run)

    def document_limit(self) -> int | None:
        """Returns no limit: a directory accepts every document."""
        return None

    def has_run(self, manifest: Manifest) -> bool:
        """Returns whether the directory has every document that the manifest's run planned."""
        planned = RunMark(manifest.identity, manifest.run, manifest.plan)
        return RunMark.read(self.directory / RUN) == planned

    def refuse_conflicts(self, manifest: Manifest) -> None:
        """Does nothing: ``check`` refuses a directory with other content."""

    def refusals(self, ledger_run: LedgerRun) -> Sequence[Refusal]:  # noqa: ARG002 - no ledger has any
        """Returns no refusals: a directory accepts every document."""
        return ()

    def forget(self) -> None:
        """Marks a complete run as begun, so that it is published again."""
        mark = self._read_mark()
        if mark is not None:
            self._begin(mark.run)
        (self.directory / RUN).unlink(missing_ok=True)

    def discard(self) -> None:
        """Removes the staged files of a run that was never planned completely."""
        shutil.rmtree(self.directory / DOCUMENT_STAGING, ignore_errors=True)
        if self.directory.is_dir() and not any(self.directory.iterdir()):
            self.directory.rmdir()

    def dispatch(
        self, ledger_run: LedgerRun, manifest: Manifest, report: RunReport
    ) -> Sequence[Refusal]:
        """Moves or copies the part files to their places, then writes rejects, then ``run.json``.

        Returns no refusals, see ``refusals``.

        Raises:
            FatalError: A file of the ledger is missing.
        """
        for lane in ledger_run.lanes(manifest):
            self._publish(lane)
        self._write_rejects(ledger_run, manifest)
        write_durably(self.directory / RUN, run_json(manifest, report))
        shutil.rmtree(self.directory / DOCUMENT_STAGING, ignore_errors=True)
        return ()

    def _begin(self, run: str) -> None:
        staging = self.directory / DOCUMENT_STAGING
        staging.mkdir(exist_ok=True, mode=0o700)
        content = {"format": RUN_FORMAT, "identity": self._identity_of(run), "run": run}
        write_durably(staging / BEGUN, json.dumps(content) + "\n")

    def _read_mark(self) -> RunMark | None:
        return RunMark.read(self.directory / RUN) or RunMark.read(
            self.directory / DOCUMENT_STAGING / BEGUN
        )

    def _identity_of(self, run: str) -> str:
        if self.ledger is not None:
            return self.ledger.identity() or ""
        return self.identity or run

    def _is_mark_of(self, mark: RunMark, run: str) -> bool:
        return (mark.identity, mark.run) == (self._identity_of(run), run)

    def _publish(self, lane: LaneRows) -> None:
        """Moves the part file of a lane to its place: the staged one, or a copy."""
        place = self.directory / lane.part.name
        staged = self.directory / DOCUMENT_STAGING / place.name
        if lane.documents != self.directory.resolve():
            make_private(lane.write_part(staged.parent))
        elif not staged.exists():
            if not place.exists():
                raise FatalError(f"{place} is missing: restore it, or publish again")
            return
        staged.replace(place)

    def _write_rejects(self, ledger_run: LedgerRun, manifest: Manifest) -> None:
        staged = self.directory / DOCUMENT_STAGING / REJECTS
        with staged.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(
                json.dumps(entry, ensure_ascii=False) + "\n"
                for entry in read_rejects(ledger_run, manifest)
            )
        make_private(staged)
        staged.replace(self.directory / REJECTS)
        sync_folder(self.directory)


def read_rejects(ledger_run: LedgerRun, manifest: Manifest) -> Iterator[dict[str, Any]]:
    """Reads the rejected records of a run in the order of their positions."""
    from publisher.ledger.retried_records import reject_id

    with_rejects = {result.lane for result in manifest.results if result.has_rejects}
    lanes = [lane for lane in ledger_run.lanes(manifest) if lane.lane in with_rejects]
    for _, entry in merge(*map(_lane_rejects, lanes), key=itemgetter(0)):
        source = manifest.sources[entry["source"]]
        yield {
            "id": reject_id(manifest.run, entry["split"], entry["row"]),
            "source": source.name,
            "position": entry["position"],
            "file": source.splits[entry["split"] - source.first_split].get("path"),
            "record": entry["row"],
            "reason": entry["reason"],
            "detail": entry["detail"],
            "raw": entry["raw"],
        }


_ORDER = ("source", "part", "rank", "high", "low", "ordinal", "split", "row")


def _lane_rejects(lane: LaneRows) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    import pyarrow.compute as pc

    from publisher.ledger.tables import RECORDS

    columns = [*_ORDER, "outcome", "position", "reason", "detail", "raw"]
    for batch in lane.batches(RECORDS, columns):
        rejected = batch.filter(pc.equal(batch["outcome"], int(Outcome.REJECTED)))
        for entry in rejected.to_pylist():
            yield tuple(entry[name] for name in _ORDER), entry


def refuse_foreign_runs(runs: Path, ledger: Ledger) -> None:
    """Refuses a directory of runs whose newest run the job's ledger does not know.

    Older runs are compared when their own directories are written.

    Raises:
        FatalError: It has a run of another ledger, or a run newer than the ledger.
    """
    of_job = _runs_of(runs, ledger)
    if of_job:
        FileDispatcher(max(of_job)[1], ledger).refuse_unknown_run()


def last_marks(runs: Path, ledger: Ledger) -> tuple[int, RunMark | None]:
    """The number of a job's last run in a directory of runs, and the mark of the last complete one.

    Raises ``FatalError`` if a mark is damaged."""
    of_job = sorted(_runs_of(runs, ledger), reverse=True)
    marks = (RunMark.read(path / RUN) for _, path in of_job)
    return max(of_job, default=(0, runs))[0], next(filter(None, marks), None)


def _runs_of(runs: Path, ledger: Ledger) -> list[tuple[int, Path]]:
    if not runs.is_dir():
        return []
    numbers = [(ledger.number_of(path.name), path) for path in runs.iterdir()]
    return [(number, path) for number, path in numbers if number is not None]


def run_json(manifest: Manifest, report: RunReport) -> str:
    """Composes ``run.json``, the run in numbers."""
    content = fields_of(report) | {
        "format": RUN_FORMAT,
        "identity": manifest.identity,
        "epochs": manifest.epochs,
        "plan": manifest.plan,
        "program": manifest.program,
        "job": manifest.job,
        "clock": manifest.clock,
        "settings": manifest.settings,
        "parts": [
            {"file": part_name(r.lane), "documents": r.documents, "bytes": r.bytes}
            for r in manifest.results
        ],
    }
    return to_lines(content)


def write_ledger_rejects(
    ledger_run: LedgerRun, manifest: Manifest, refused: Sequence[Refusal]
) -> None:
    """Writes rejected records, then the documents that the sink refuses, to the ledger's folder.

    Without rejected records and documents, it writes no file."""
    path = ledger_run.root / REJECTS
    rejected = any(result.has_rejects for result in manifest.results)
    if not (rejected or refused or path.exists()):
        return
    staged = path.with_name(f"{REJECTS}.new")
    with staged.open("w", encoding="utf-8", newline="\n") as file:
        for entry in chain(read_rejects(ledger_run, manifest), map(_reject, refused)):
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    make_private(staged)
    staged.replace(path)
    sync_folder(path.parent)


def _reject(refusal: Refusal) -> dict[str, Any]:
    return {
        "id": None,
        "source": refusal.source,
        "position": refusal.position,
        "file": None,
        "record": None,
        "reason": refusal.reason,
        "detail": refusal.detail,
        "raw": None,
        "records": refusal.records,
    }
