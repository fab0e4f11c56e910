"""Journals in directories: those of a job, and the one that a replay keeps with its output."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from publisher.errors import UsageError
from publisher.journal.durable import read_number, write_durably
from publisher.journal.manifest import MANIFEST, Journal, Manifest
from publisher.journal.published_files import PublishedFiles
from publisher.journal.read_watermarks import read_greatest, write_greatest
from publisher.journal.source_state import KeptStates, number_of

JOURNAL = "_journal"
"""Folder of a replay's journal inside its output directory."""
DOCUMENTS = "documents"
"""Folder of a journal for the documents of sinks that are no directory."""
RUNS = "runs"
"""Folder of the runs in the directory of a sink of files."""
RUN = "run.json"
"""Report of a run among the documents that it published."""
_LAST = "last-run"
_LAST_REMEDY = (
    "write the number of the last run into it, the greatest in the names of the job's journals and "
    "in what the sink has (`run.json` files or progress tokens)"
)
_LANES = "lanes"
_LANES_REMEDY = "write the greatest number of lanes into it that [run] lanes ever had for this job"
_FILES = "published-files.json"
_GREATEST = "greatest-ids.json"
_SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Journals:
    """The journals of one job, one folder for each run."""

    root: Path
    job: str

    def journal(self, run: str) -> Journal:
        """The journal of a run."""
        return Journal(self.root / run)

    def next_run(self) -> str:
        """The id of the next run: the job and a number that is never given twice."""
        number = 1 + self.last_number()
        # a copy of the directory must not have the number without the folder
        (self.root / self._id(number)).mkdir(mode=0o700)
        write_durably(self.root / _LAST, f"{number}\n")
        return self._id(number)

    def last_number(self) -> int:
        """The number of the last run; it outlives the run's journal."""
        path = self.root / _LAST
        last = read_number(path, _LAST_REMEDY)
        numbers = self._numbers() if self.root.exists() else []
        return max(last, *numbers) if numbers else last

    def last_run(self) -> str:
        """The id of the last run."""
        return self._id(self.last_number())

    def skip_to(self, number: int) -> None:
        """Gives numbers up to this one to no run: another journal may have given them."""
        if number > self.last_number():
            write_durably(self.root / _LAST, f"{number}\n")

    def number_of(self, run: str) -> int | None:
        """The number of a run; ``None`` where its name is that of another job's."""
        found = self._pattern.fullmatch(run)
        return int(found[1]) if found else None

    def lanes(self, wanted: int) -> int:
        """The greatest number of lanes that the job ever used; notes it where ``wanted`` is more."""
        path = self.root / _LANES
        used = read_number(path, _LANES_REMEDY)
        if wanted > used:
            write_durably(path, f"{wanted}\n")
        return max(wanted, used)

    def discard_unplanned(self, check_lease: Callable[[], None] | None = None) -> list[str]:
        """Removes the runs that are not planned wholly: nothing was sent from them.

        ``check_lease`` raises where a newer instance of the job has begun.  It is called after they
        were found and before they are removed: so none of them is a run of a newer one.
        """
        unplanned = self.unplanned()
        if check_lease is not None:
            check_lease()
        for run in unplanned:
            shutil.rmtree(self.root / run)
        return unplanned

    def discard(self, run: str) -> None:
        """Removes a run that is not kept."""
        shutil.rmtree(self.root / run)

    def unplanned(self) -> list[str]:
        """The runs that are not planned wholly, oldest first."""
        if not self.root.exists():
            return []
        runs = [self._id(number) for number in self._numbers()]
        return [run for run in runs if not (self.root / run / MANIFEST).exists()]

    def unsent(self) -> list[tuple[Journal, Manifest]]:
        """The runs that are planned but not wholly sent, oldest first."""
        unsent = [journal for journal in self._journals() if not journal.is_sent]
        return [
            (journal, manifest)
            for journal in unsent
            if (manifest := journal.manifest()) is not None
        ]

    def planned(self) -> Iterator[tuple[Journal, Manifest]]:
        """The runs that are planned wholly, oldest first."""
        for journal in self._journals():
            manifest = journal.manifest()
            if manifest is not None:
                yield journal, manifest

    def published_files(self) -> PublishedFiles:
        """The files that runs have published, or planned to."""
        manifests = [manifest for _, manifest in self.planned()]
        return PublishedFiles.read(self.root / _FILES).with_runs(manifests)

    def state_of(self, source: str) -> Path | None:
        """The state that the last run has left of a source (``journal.state``), as a folder to read;
        ``None`` where no run has left one."""
        numbers = self._numbers() if self.root.exists() else []
        found = ((n, self.journal(self._id(n)).state(source)) for n in reversed(numbers))
        newest, state = next((one for one in found if one[1] is not None), (0, None))
        kept = KeptStates(self.root).of(source)
        return kept if kept is not None and number_of(kept) > newest else state

    def earlier_states(self, run: str, source: str) -> Iterator[Path]:
        """The states that the runs before a run have left of a source, newest first."""
        for number in reversed(self._numbers()):
            if number < int(run.rpartition("-")[2]):
                state = self.journal(self._id(number)).state(source)
                if state is not None:
                    yield state

    def states_of(self, sources: Iterable[str]) -> dict[str, Path]:
        """The states of those sources that have one."""
        found = {source: self.state_of(source) for source in sources}
        return {source: state for source, state in found.items() if state is not None}

    def greatest(self) -> dict[str, int]:
        """The greatest record id that was read of each live source, by its name."""
        return read_greatest(self.root / _GREATEST)

    def note_greatest(self, found: Mapping[str, int]) -> None:
        """Keeps ids that are greater than those before."""
        known = self.greatest()
        more = {name: number for name, number in found.items() if number > known.get(name, 0)}
        if more:
            write_greatest(self.root / _GREATEST, known | more)

    def expire(self, *, days: float, most: int) -> list[str]:
        """Removes finished runs that ended more than ``days`` ago, and the oldest beyond ``most``."""
        done = [journal for journal in self._journals() if journal.is_sent]
        oldest = time.time() - days * _SECONDS_A_DAY
        beyond = max(0, len(done) - most)
        gone = [
            (journal, manifest)
            for number, journal in enumerate(done)
            if (number < beyond or journal.sent_at < oldest)
            and (manifest := journal.manifest()) is not None
        ]
        return self._remove(gone)

    def idle(self) -> list[str]:
        """The finished runs that have found nothing changed, without the last run of the job."""
        earlier = [*self._journals()][:-1]
        ends = ((journal.root.name, journal.acknowledgement) for journal in earlier)
        return [run for run, end in ends if end is not None and end.idle]

    def remove(self, runs: Iterable[str]) -> None:
        """Removes the journals of finished runs; states and marks of files that they have stay."""
        found = ((journal, journal.manifest()) for journal in map(self.journal, runs))
        self._remove([(journal, manifest) for journal, manifest in found if manifest is not None])

    def _remove(self, gone: Sequence[tuple[Journal, Manifest]]) -> list[str]:
        if any(source.files for _, manifest in gone for source in manifest.sources):
            published = PublishedFiles.read(self.root / _FILES)
            published.with_runs([manifest for _, manifest in gone]).write(self.root / _FILES)
        self._keep_states(gone)
        for journal, _ in gone:
            journal.forget()  # first: without it, what a crash leaves is taken away at the next start
            shutil.rmtree(journal.root)
        return [manifest.run for _, manifest in gone]

    def _keep_states(self, gone: Sequence[tuple[Journal, Manifest]]) -> None:
        """Copies the states that are the newest of their sources out of journals that go."""
        for journal, manifest in gone:
            for source in manifest.states:
                state = journal.state(source)
                if state is not None and state == self.state_of(source):
                    KeptStates(self.root).keep(source, manifest.run, state)

    def _journals(self) -> Iterator[Journal]:
        """All journals, oldest first."""
        for number in self._numbers() if self.root.exists() else ():
            yield self.journal(self._id(number))

    def _id(self, number: int) -> str:
        return f"{self.job}-{number:06d}"

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.job) + r"-(\d{6,})")

    def _numbers(self) -> list[int]:
        matches = (self._pattern.fullmatch(path.name) for path in self.root.iterdir())
        return sorted(int(match[1]) for match in matches if match)


def found_journal(directory: Path) -> Journal:
    """The journal that a user means: the directory itself, the one that ``replay`` keeps in it, or
    the one that a directory with documents was published from.

    Raises:
        UsageError: There is none.
    """
    for root in (directory, directory / JOURNAL):
        if (root / MANIFEST).exists():
            return Journal(root)
    named = _named_in(directory / RUN)
    if named is None:
        raise UsageError(
            f"{directory} is no journal: name one, or a directory that this program wrote"
        )
    if not (named / MANIFEST).exists():
        raise UsageError(
            f"{directory} was published from the journal {named}, which is not there: name the place "
            "that it was moved to"
        )
    return Journal(named)


def _named_in(run: Path) -> Path | None:
    """The journal that a ``run.json`` names, ``None`` where it names none."""
    try:
        return Path(json.loads(run.read_text(encoding="utf-8"))["journal"])
    except (OSError, ValueError, KeyError, TypeError):  # then it is none of ours
        return None


def first_documents(directory: Path, count: int) -> Iterator[str]:
    """The first ``count`` documents, one of each part file in turn."""
    with ExitStack() as stack:
        parts = [
            stack.enter_context(path.open(encoding="utf-8", newline="\n"))
            for path in sorted(directory.glob("part-*.xds"))
            if path.stat().st_size
        ]
        lines = (line for turn in zip_longest(*parts[:count]) for line in turn if line is not None)
        yield from (line.rstrip("\n") for line in islice(lines, count))
