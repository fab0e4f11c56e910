"""The file sink: part files with one document on a line, ``rejects.jsonl`` and ``run.json``.

``run.json`` is written last: a directory that has it has the run wholly.  Until then a folder
``.staging`` says which run was begun there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from heapq import merge
from pathlib import Path

from publisher.errors import FatalError, UsageError
from publisher.journal.lane import LaneNames, make_private
from publisher.journal.manifest import (
    DOCUMENT_STAGING,
    Journal,
    Manifest,
    sync_folder,
    write_durably,
)
from publisher.journal.report import RunReport

RUN = "run.json"
REJECTS = "rejects.jsonl"
BEGUN = "begun.json"


@dataclass(frozen=True, slots=True)
class FileDispatcher:
    """Publishes to a directory.  ``own`` are names in it that belong to the program itself."""

    directory: Path
    own: frozenset[str] = frozenset({"_journal"})

    @property
    def target(self) -> str:
        """The directory."""
        return str(self.directory)

    def prepare(self, run: str) -> None:
        """Refuses a directory that is neither empty nor begun by the same run.

        Raises:
            UsageError: It holds something else, or is no directory.
        """
        if self.directory.exists() and not self.directory.is_dir():
            raise UsageError(f"{self.directory} is no directory: name a new one")
        self.directory.mkdir(parents=True, exist_ok=True)
        begun = self._begun()
        names = {path.name for path in self.directory.iterdir()} - self.own - {DOCUMENT_STAGING}
        if begun == run or (not names and begun is None):
            self._begin(run)
        elif begun is not None:
            raise UsageError(
                f"{self.directory} has documents of run {begun}, and this is run {run} (other input "
                "or settings): name a new directory"
            )
        else:
            raise UsageError(f"{self.directory} is not empty: name a new or an empty directory")

    def dispatched(self, run: str) -> bool:
        """Whether the directory has the run wholly."""
        path = self.directory / RUN
        return path.exists() and _run_of(path) == run

    def forget(self) -> None:
        """Takes the mark away that the run is here wholly, so that it is published again."""
        (self.directory / RUN).unlink(missing_ok=True)

    def dispatch(self, journal: Journal, manifest: Manifest, report: RunReport) -> None:
        """Part files to their places (copied where the journal keeps them elsewhere), then rejects,
        then ``run.json``.

        Raises:
            FatalError: A file of the journal is missing.
        """
        journal.complete(manifest)
        documents = journal.documents(manifest)
        if documents != self.directory.resolve():
            for lane in range(manifest.lanes):
                self._copy(documents / LaneNames(lane).part)
        self._write_rejects(journal, manifest)
        write_durably(self.directory / RUN, _run_json(manifest, report))
        shutil.rmtree(self.directory / DOCUMENT_STAGING, ignore_errors=True)

    def _begin(self, run: str) -> None:
        staging = self.directory / DOCUMENT_STAGING
        if not self.dispatched(run):
            staging.mkdir(exist_ok=True, mode=0o700)
            write_durably(staging / BEGUN, json.dumps({"run": run}) + "\n")

    def _begun(self) -> str | None:
        for path in (self.directory / RUN, self.directory / DOCUMENT_STAGING / BEGUN):
            if path.exists():
                return _run_of(path)
        return None

    def _copy(self, part: Path) -> None:
        staged = self.directory / DOCUMENT_STAGING / part.name
        try:
            shutil.copyfile(part, staged)
        except FileNotFoundError as error:
            raise FatalError(
                f"{part} of the journal is missing: restore it, or publish again"
            ) from error
        make_private(staged)
        staged.replace(self.directory / part.name)

    def _write_rejects(self, journal: Journal, manifest: Manifest) -> None:
        staged = self.directory / DOCUMENT_STAGING / REJECTS
        with staged.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in rejects(journal, manifest))
        make_private(staged)
        staged.replace(self.directory / REJECTS)
        sync_folder(self.directory)


def rejects(journal: Journal, manifest: Manifest) -> Iterator[dict[str, object]]:
    """The rejected records of a run, in the order of their positions."""
    lanes = [_lane_rejects(journal.root / LaneNames(n).rejects) for n in range(manifest.lanes)]
    for _, entry in merge(*lanes, key=lambda found: found[0]):
        name = manifest.sources[entry["source"]].name  # type: ignore[index]
        split = entry["split"] - manifest.sources[entry["source"]].first_split  # type: ignore
        yield {
            "source": name,
            "position": f"{entry['part']}:{entry['high']}" if entry["part"] else str(entry["high"]),
            "file": manifest.sources[entry["source"]].splits[split].get("path"),  # type: ignore
            "record": entry["row"],
            "reason": entry["reason"],
            "detail": entry["detail"],
            "raw": entry["raw"],
        }


def _lane_rejects(path: Path) -> Iterator[tuple[tuple[object, ...], dict[str, object]]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            entry = json.loads(line)
            order = ("source", "part", "rank", "high", "low", "ordinal", "row")
            yield tuple(entry[name] for name in order), entry


def _run_of(path: Path) -> str | None:
    try:
        run = json.loads(path.read_text(encoding="utf-8"))["run"]
    except (ValueError, KeyError, TypeError) as error:
        raise FatalError(f"{path} is damaged: remove the directory, or name a new one") from error
    return str(run)


def _run_json(manifest: Manifest, report: RunReport) -> str:
    shown = asdict(report) | {
        "program": manifest.program,
        "job": manifest.job,
        "clock": manifest.clock,
        "settings": manifest.settings,
        "parts": [
            {"file": LaneNames(r.lane).part, "documents": r.documents, "bytes": r.bytes}
            for r in manifest.results
        ],
    }
    return json.dumps(shown, indent=1, ensure_ascii=False) + "\n"


