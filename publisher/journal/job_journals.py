"""The journals of a job, and the journal of a replay in its output directory."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path

from publisher.journal.durable import read_number, remove_folder, write_durably
from publisher.journal.manifest import MANIFEST, Journal, Manifest
from publisher.journal.published_files import PublishedFiles
from publisher.journal.read_watermarks import greatest_text, read_greatest
from publisher.journal.segments import Segments
from publisher.journal.source_state import StateArchive, number_of

JOURNAL = "_journal"
"""Folder of a replay's journal inside its output directory."""
DOCUMENTS = "documents"
"""Folder of a journal for the documents of sinks other than directories."""
RUNS = "runs"
"""Folder of the runs in the directory of a file sink."""
RUN = "run.json"
"""Report of a run among its published documents."""
_LAST = "last-run"
_LAST_REMEDY = (
    "write the number of the last run into it: the greatest number in the names of the job's journals "
    "and in the sink (`run.json` files or progress tokens)"
)
_LANES = "lanes"
_LANES_REMEDY = "write into it the greatest number of lanes that this job ever had ([run] lanes)"
_FILES = "published-files.json"
_GREATEST = "greatest-ids.json"
SECONDS_A_DAY = 86_400
_DIGITS = re.compile(r"\d{6,}")


@dataclass(frozen=True, slots=True)
class Journals:
    """The journals of one job: a folder for each run that is not in a segment.

    All methods except ``segments`` concern only runs with a folder."""

    root: Path
    job: str
    hidden: frozenset[int] = frozenset()
    """Numbers of runs that are treated as if they did not exist."""

    @property
    def segments(self) -> Segments:
        """The segments, into which ``publish`` moves finished small runs."""
        return Segments(self.root)

    def journal(self, run: str) -> Journal:
        """The journal of a run."""
        return Journal(self.root / run)

    def create_run(self) -> str:
        """Creates the next run; its id is the job's name and a number that no other run has, except a
        discarded one."""
        number = 1 + self.last_number()
        (self.root / self.run_id(number)).mkdir(mode=0o700)
        return self.run_id(number)

    def last_number(self) -> int:
        """The number of the last run, whose journal may be deleted."""
        path = self.root / _LAST
        last = read_number(path, _LAST_REMEDY)
        numbers = self.numbers()
        return max(last, *numbers) if numbers else last

    def last_run(self) -> str:
        """The id of the last run."""
        return self.run_id(self.last_number())

    def skip_to(self, number: int) -> None:
        """Skips the numbers up to this one, which another journal may have used."""
        if number > self.last_number():
            write_durably(self.root / _LAST, f"{number}\n")

    def _store_numbers(self, runs: Iterable[str]) -> None:
        """Stores the greatest number of runs before their folders, which show it, are removed."""
        number = max((self.number_of(run) or 0 for run in runs), default=0)
        if number > read_number(self.root / _LAST, _LAST_REMEDY):
            write_durably(self.root / _LAST, f"{number}\n")

    def number_of(self, run: str) -> int | None:
        """The number of a run; ``None`` for a run of another job."""
        job, _, digits = run.rpartition("-")
        is_run = job == self.job and _DIGITS.fullmatch(digits) is not None
        return int(digits) if is_run else None

    def raise_lanes(self, wanted: int) -> int:
        """Returns the greatest number of lanes that the job ever used; stores ``wanted`` if it is greater."""
        path = self.root / _LANES
        used = read_number(path, _LANES_REMEDY)
        if wanted > used:
            write_durably(path, f"{wanted}\n")
        return max(wanted, used)

    def discard_incomplete(self, check_lease: Callable[[], None] | None = None) -> list[str]:
        """Removes the runs that are not planned completely: no document of them was sent.

        ``check_lease`` raises if a newer instance of the job has begun.  It is called after the runs are
        listed and before they are removed, so that no run of a newer instance is among them.
        """
        runs = self.incomplete_runs()
        if check_lease is not None:
            check_lease()
        self._store_numbers(runs)
        for run in runs:
            remove_folder(self.root / run)
        return runs

    def discard(self, run: str) -> None:
        """Removes the last run; the next run gets its number."""
        shutil.rmtree(self.root / run)

    def incomplete_runs(self) -> list[str]:
        """The runs that are not planned completely, oldest first."""
        runs = [self.run_id(number) for number in self.numbers()]
        return [run for run in runs if not (self.root / run / MANIFEST).exists()]

    def unsent_runs(self) -> list[tuple[Journal, Manifest]]:
        """The committed runs that are not sent and acknowledged completely, oldest first."""
        unsent = [journal for journal in self._journals() if not journal.is_sent]
        return [
            (journal, manifest)
            for journal in unsent
            if (manifest := journal.manifest()) is not None
        ]

    def without_unsent_runs(self) -> Journals:
        """These journals without the runs that are not sent and acknowledged completely."""
        unsent = {
            number for number in self.numbers() if not self.journal(self.run_id(number)).is_sent
        }
        return replace(self, hidden=frozenset(unsent))

    def committed_runs(self) -> Iterator[tuple[Journal, Manifest]]:
        """The runs that are planned completely, oldest first."""
        for journal in self._journals():
            manifest = journal.manifest()
            if manifest is not None:
                yield journal, manifest

    def published_files(self) -> PublishedFiles:
        """The files that runs have published or will publish."""
        manifests = [manifest for _, manifest in self.committed_runs()]
        return PublishedFiles.read(self.root / _FILES).with_runs(manifests)

    def state_of(self, source: str) -> Path | None:
        """The folder with the newest state of a source; ``None`` if no run has written one."""
        numbers = self.numbers()
        states = ((n, self.journal(self.run_id(n)).state(source)) for n in reversed(numbers))
        newest, state = next((entry for entry in states if entry[1] is not None), (0, None))
        archived = StateArchive(self.root).newest(source)
        return archived if archived is not None and number_of(archived) > newest else state

    def earlier_states(self, run: str, source: str) -> Iterator[Path]:
        """The states of a source from earlier runs, newest first."""
        for number in reversed(self.numbers()):
            if number < int(run.rpartition("-")[2]):
                state = self.journal(self.run_id(number)).state(source)
                if state is not None:
                    yield state

    def state_before(self, run: str, source: str) -> Path | None:
        """The newest state of a source from the runs before one; ``None`` if there was none."""
        return next(self.earlier_states(run, source), StateArchive(self.root).newest(source))

    def states_of(self, sources: Iterable[str]) -> dict[str, Path]:
        """The newest states by source, omitting sources without a state."""
        states = {source: self.state_of(source) for source in sources}
        return {source: state for source, state in states.items() if state is not None}

    def greatest_ids(self) -> dict[str, int]:
        """The greatest record id that was read from each live source, by its name."""
        return read_greatest(self.root / _GREATEST)

    def forget_greatest(self, sources: Iterable[str]) -> None:
        """Forgets the greatest record ids of sources whose logs begin again."""
        stored = self.greatest_ids()
        remaining = {name: number for name, number in stored.items() if name not in set(sources)}
        if remaining != stored:
            write_durably(self.root / _GREATEST, greatest_text(remaining))

    def texts_after(self, run: str, ids: Mapping[str, int]) -> dict[Path, str]:
        """Files of the job that change with the end of a run, and their texts: the number of the last run,
        and the greatest record ids if some of ``ids`` are greater."""
        last = max(read_number(self.root / _LAST, _LAST_REMEDY), self.number_of(run) or 0)
        texts = {self.root / _LAST: f"{last}\n"}
        stored = self.greatest_ids()
        greater = {name: number for name, number in ids.items() if number > stored.get(name, 0)}
        if greater:
            texts[self.root / _GREATEST] = greatest_text(stored | greater)
        return texts

    def expire(self, *, days: float, runs: int | None) -> list[str]:
        """Removes finished runs older than ``days``, and the oldest ones if there are more than ``runs``."""
        finished = [journal for journal in self._journals() if journal.is_sent]
        oldest = time.time() - days * SECONDS_A_DAY
        excess = 0 if runs is None else max(0, len(finished) - runs)
        expired = [
            (journal, manifest)
            for number, journal in enumerate(finished)
            if (number < excess or journal.sent_at < oldest)
            and (manifest := journal.manifest()) is not None
        ]
        return self._remove(expired)

    def has_first_run(self) -> bool:
        """Returns whether the first run of the job is still there, so that none was deleted."""
        segments = self.segments.current()
        return 1 in self.numbers() or (bool(segments) and segments[0].first == 1)

    def count_finished_runs(self) -> int:
        """Counts the finished runs."""
        return sum(journal.is_sent for journal in self._journals())

    def idle_runs(self) -> list[str]:
        """The finished runs that found no change, except the last run of the job."""
        earlier = [*self._journals()][:-1]
        ends = ((journal.root.name, journal.acknowledgement) for journal in earlier)
        return [run for run, end in ends if end is not None and end.idle]

    def remove(self, runs: Iterable[str]) -> None:
        """Removes the journals of finished runs; keeps states and the list of published files."""
        journals = ((journal, journal.manifest()) for journal in map(self.journal, runs))
        self._remove(
            [(journal, manifest) for journal, manifest in journals if manifest is not None]
        )

    def _remove(self, runs: Sequence[tuple[Journal, Manifest]]) -> list[str]:
        if any(source.files for _, manifest in runs for source in manifest.sources):
            published = PublishedFiles.read(self.root / _FILES)
            published.with_runs([manifest for _, manifest in runs]).write(self.root / _FILES)
        self._archive_states(runs)
        self._store_numbers(manifest.run for _, manifest in runs)
        for journal, _ in runs:
            journal.forget()  # first: after a crash the next start removes the other files
            shutil.rmtree(journal.root)
        return [manifest.run for _, manifest in runs]

    def _archive_states(self, runs: Sequence[tuple[Journal, Manifest]]) -> None:
        """Archives the newest states of sources before their journals are removed."""
        for journal, manifest in runs:
            for source in manifest.states:
                state = journal.state(source)
                if state is not None and state == self.state_of(source):
                    StateArchive(self.root).add(source, manifest.run, state)

    def _journals(self) -> Iterator[Journal]:
        """All journals, oldest first."""
        for number in self.numbers():
            yield self.journal(self.run_id(number))

    def run_id(self, number: int) -> str:
        """The id of the run with this number."""
        return f"{self.job}-{number:06d}"

    def numbers(self) -> list[int]:
        """The numbers of the runs, ascending."""
        try:
            names = [path.name for path in self.root.iterdir()]
        except FileNotFoundError:
            return []
        numbers = {number for name in names if (number := self.number_of(name)) is not None}
        return sorted(numbers - self.hidden)


def first_documents(directory: Path, count: int) -> Iterator[str]:
    """Yields the first ``count`` documents, alternating between the part files."""
    with ExitStack() as stack:
        parts = [
            stack.enter_context(path.open(encoding="utf-8", newline="\n"))
            for path in sorted(directory.glob("part-*.xds"))
            if path.stat().st_size
        ]
        lines = (line for turn in zip_longest(*parts[:count]) for line in turn if line is not None)
        yield from (line.rstrip("\n") for line in islice(lines, count))
