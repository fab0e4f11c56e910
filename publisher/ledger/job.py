"""The ledger of a job: its identity, its runs, and what its sources remember."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.ledger import storage
from publisher.ledger.durable import digest_of, remove_folder
from publisher.ledger.event_ids import EpochsOfJob
from publisher.ledger.file_entries import FileEntry
from publisher.ledger.manifest import Manifest, RunEnd, SourceReading
from publisher.ledger.published_files import PublishedFiles
from publisher.ledger.runs import LedgerRun, delete_runs
from publisher.ledger.source_state import STATE
from publisher.model.plain import fields_of, restore

DOCUMENTS = "documents"
"""Folder of a run for the documents of sinks other than directories."""
RUNS = "runs"
"""Folder of the runs in the directory of a file sink."""
RUN = "run.json"
"""Report of a run among its published documents."""
SECONDS_A_DAY = 86_400
_DIGITS = re.compile(r"\d{6,}")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Rows of one live log that stay N after a run."""

    held: str = ""
    """Digest of the held rows in any order; empty if no row is held."""
    reported: frozenset[int] = frozenset()
    """Digests of the raw records of rejected rows without a usable record id."""


class RequestWatch:
    """Sees requests of other programs: cheap to ask many times a second."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._version = -1
        self._has_request = False

    def __call__(self) -> bool:
        """Returns whether a request waits; reads only if another program has changed the ledger."""
        version = storage.version_of_data(self._ledger.root)
        if version != self._version or self._has_request:
            self._version = version
            self._has_request = bool(self._ledger.open_requests())
        return self._has_request


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of one job.

    ``root`` is its folder; the file is created by ``open_identity``."""

    root: Path
    job: str
    hidden: frozenset[int] = frozenset()
    """Numbers of runs that are treated as if they did not exist."""

    def check(self) -> None:
        """Reads everything that later runs depend on.

        Raises:
            FatalError: The ledger, or a file of a state, is missing, damaged or of another version.
        """
        if not storage.exists(self.root):
            return
        storage.check(self.root)
        # published values have a way out of their own, see ``stored_states``
        newest = "SELECT source, max(run) FROM state WHERE source <> '' GROUP BY source"
        for source, run in storage.query(self.root, newest):
            self._check_state(self._state_folder(source, run))

    def _check_state(self, folder: Path) -> None:
        """Compares the files of a state with the sizes and digests that the ledger has."""
        owner = str(folder.relative_to(self.root))
        rows = storage.query(
            self.root, "SELECT path, size, digest FROM file WHERE owner = ?", (owner,)
        )
        for name, size, digest in rows:
            path = self.root / name
            if not path.exists() or path.stat().st_size != size or digest_of(path) != digest:
                raise FatalError(
                    f"{path} is missing or was changed: what source {folder.parent.name} remembers is "
                    "incomplete; restore the directory of the ledger from a copy, or move it away and run "
                    "`xds-publisher recover -c JOB.toml`"
                )

    def identity(self) -> str | None:
        """Random text that distinguishes the ledger from all others; ``None`` if there is none yet.

        Raises:
            FatalError: Another version of the program wrote the folder, or it is damaged.
        """
        storage.exists(self.root)
        value = self._value("identity")
        return None if value is None else str(value)

    def open_identity(self) -> str:
        """The identity; creates ledger and identity if they are missing.

        Raises:
            FatalError: Another version of the program wrote the folder, or it is damaged.
        """
        identity = self.identity()
        if identity is None:
            storage.create(self.root, {"identity": secrets.token_hex(16), "epoch": 0})
            identity = self.identity()
        assert identity is not None
        return identity

    def adopt_identity(self, identity: str) -> None:
        """Continues under the identity of a lost ledger."""
        self.open_identity()
        self._set("identity", identity)

    def _value(self, name: str) -> Any:
        rows = storage.query(self.root, "SELECT value FROM job WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def _set(self, name: str, value: object) -> None:
        with storage.transaction(self.root) as connection:
            connection.execute("INSERT OR REPLACE INTO job VALUES (?, ?)", (name, value))

    @property
    def epoch(self) -> int:
        """The epoch of the newest instance; 0 before the first."""
        return int(self._value("epoch") or 0)

    def begin_epoch(self, check: Callable[[], None] | None = None) -> int:
        """Begins the next epoch; ``check`` raises to leave it as it is."""
        with storage.transaction(self.root) as connection:
            if check is not None:
                check()
            epoch = self.epoch + 1
            connection.execute("INSERT OR REPLACE INTO job VALUES ('epoch', ?)", (epoch,))
            connection.execute("DELETE FROM request WHERE answer IS NOT NULL")  # of killed programs
        return epoch

    @property
    def is_recovering(self) -> bool:
        """True if a recovery has begun and not ended."""
        return bool(self._value("recovering"))

    def begin_recovery(self) -> None:
        """Marks the ledger, so that only a recovery may publish."""
        self._set("recovering", 1)

    def end_recovery(self) -> None:
        """Removes the mark of ``begin_recovery``."""
        self._set("recovering", 0)

    def refuse_interrupted_recovery(self) -> None:
        """Raises ``FatalError`` if a recovery has not ended."""
        if self.is_recovering:
            raise FatalError(
                f"a recovery in {self.root} was interrupted: run `xds-publisher recover -c JOB.toml` again"
            )

    def raise_lanes(self, wanted: int) -> int:
        """Returns the greatest number of lanes that the job ever used; stores ``wanted`` if it is greater."""
        used = int(self._value("lanes") or 0)
        if wanted > used:
            self._set("lanes", wanted)
        return max(wanted, used)

    @property
    def doubted(self) -> int:
        """Number of the last run after which all published values are unknown."""
        return int(self._value("doubted") or 0)

    def doubt(self) -> None:
        """Makes the values unknown that all runs until now have published."""
        self._set("doubted", self.last_number())

    def topics(self) -> dict[str, str]:
        """The ids of the topics that have documents of the job, by their names."""
        return dict(storage.query(self.root, "SELECT name, id FROM topic"))

    def remember_topics(self, ids: Mapping[str, str]) -> None:
        """Replaces the ids of the topics."""
        with storage.transaction(self.root) as connection:
            connection.execute("DELETE FROM topic")
            connection.executemany("INSERT INTO topic VALUES (?, ?)", ids.items())

    def add_request(self, content: str) -> int:
        """Adds a request to the instance that follows the job; returns its number."""
        with storage.transaction(self.root) as connection:
            added = connection.execute("INSERT INTO request (content) VALUES (?)", (content,))
        return int(added.lastrowid or 0)

    def open_requests(self) -> list[tuple[int, str]]:
        """The requests without an answer, oldest first."""
        statement = "SELECT id, content FROM request WHERE answer IS NULL ORDER BY id"
        return storage.query(self.root, statement)

    def answer_request(self, number: int, answer: str) -> None:
        """Answers a request, unless nobody waits for the answer any more."""
        with storage.transaction(self.root) as connection:
            connection.execute("UPDATE request SET answer = ? WHERE id = ?", (answer, number))

    def answer_to(self, number: int) -> str | None:
        """The answer to a request; ``None`` if there is none yet."""
        rows = storage.query(self.root, "SELECT answer FROM request WHERE id = ?", (number,))
        return rows[0][0] if rows else None

    def remove_request(self, number: int) -> None:
        """Removes a request with its answer."""
        with storage.transaction(self.root) as connection:
            connection.execute("DELETE FROM request WHERE id = ?", (number,))

    def run(self, name: str) -> LedgerRun:
        """A run by its name."""
        return LedgerRun(self.root / name, self.root)

    def create_run(self) -> str:
        """Creates the folder of the next run; its id is the job's name and a number that no other run has,
        except a discarded one."""
        number = 1 + self.last_number()
        (self.root / self.run_id(number)).mkdir(mode=0o700)
        return self.run_id(number)

    def _remove_files(self, number: int) -> None:
        """Removes the files of a run that is not committed."""
        folder = self.root / self.run_id(number)
        if folder.exists():
            remove_folder(folder)
        for state in (self.root / STATE).glob(f"*/{number:06d}"):
            shutil.rmtree(state)

    def last_number(self) -> int:
        """The number of the last run, which may not be committed yet, and whose rows may be deleted."""
        rows = storage.query(self.root, "SELECT max(number) FROM run")
        last = max(int(self._value("last-run") or 0), (rows and rows[0][0]) or 0)
        return max([last, *self._numbers_of_folders()])

    def _numbers_of_folders(self) -> list[int]:
        """The numbers of the runs with a folder, ascending."""
        if not self.root.is_dir():
            return []
        numbers = (self.number_of(path.name) for path in self.root.iterdir())
        return sorted(number for number in numbers if number is not None)

    def last_run(self) -> str:
        """The id of the last run."""
        return self.run_id(self.last_number())

    def skip_to(self, number: int) -> None:
        """Skips the numbers up to this one, which another ledger may have used."""
        if number > self.last_number():
            self._set("last-run", number)

    def run_id(self, number: int) -> str:
        """The id of the run with this number."""
        return f"{self.job}-{number:06d}"

    def number_of(self, run: str) -> int | None:
        """The number of a run; ``None`` for a run of another job."""
        job, _, digits = run.rpartition("-")
        is_run = job == self.job and _DIGITS.fullmatch(digits) is not None
        return int(digits) if is_run else None

    def discard_incomplete(self, check_lease: Callable[[], None] | None = None) -> list[str]:
        """Removes the files of runs that are not planned completely: no document of them was sent.

        ``check_lease`` raises if a newer instance of the job has begun.  It is called after the runs are
        listed and before they are removed, so that no run of a newer instance is among them."""
        runs = self.incomplete_runs()
        if check_lease is not None:
            check_lease()
        if runs:
            self._set("last-run", self.last_number())
        for run in runs:
            self._remove_files(int(run.rpartition("-")[2]))
        self._remove_other_states()
        return runs

    def _remove_other_states(self) -> None:
        """Removes the folders of states that no run has committed."""
        known = {
            self._state_folder(source, run)
            for source, run in storage.query(self.root, "SELECT source, run FROM state")
        }
        for folder in (self.root / STATE).glob("*/*"):
            if folder not in known:
                shutil.rmtree(folder)

    def discard(self, run: str) -> None:
        """Removes the files of the last run; the next run gets its number."""
        self._remove_files(int(run.rpartition("-")[2]))

    def incomplete_runs(self) -> list[str]:
        """The runs that are not planned completely, oldest first."""
        names = map(self.run_id, self._numbers_of_folders())
        return [name for name in names if not self.run(name).is_committed]

    def unsent_runs(self) -> list[tuple[LedgerRun, Manifest]]:
        """The committed runs that are not sent and acknowledged completely, oldest first."""
        names = storage.query(self.root, "SELECT name FROM run WHERE ended IS NULL ORDER BY number")
        runs = [self.run(name) for (name,) in names]
        return [
            (run, manifest)
            for run in runs
            if run.number not in self.hidden and (manifest := run.manifest()) is not None
        ]

    def without_unsent_runs(self) -> Ledger:
        """This ledger without the runs that are not sent and acknowledged completely."""
        return replace(self, hidden=frozenset(run.number for run, _ in self.unsent_runs()))

    def newest_run(self) -> LedgerRun | None:
        """The last committed run that is kept; ``None`` if there is none."""
        names = storage.query(self.root, "SELECT name FROM run ORDER BY number DESC LIMIT 1")
        return self.run(names[0][0]) if names else None

    def oldest_kept(self) -> int | None:
        """The number of the oldest run that is kept; ``None`` if none is."""
        rows = storage.query(
            self.root,
            "SELECT min(number) FROM (SELECT min(number) AS number FROM run UNION ALL "
            "SELECT min(first) FROM hour)",
        )
        oldest: int | None = rows[0][0] if rows else None
        return oldest

    @property
    def has_hours(self) -> bool:
        """True if some runs are in the files of hours, or their writing was killed."""
        return (self.root / storage.HOURS).is_dir()

    def has_first_run(self) -> bool:
        """Returns whether the first run of the job is still there, so that none was deleted."""
        return self.oldest_kept() == 1

    def plan_of(self, number: int) -> str | None:
        """The digest of the plan of a run; ``None`` if it is not kept, or was never planned."""
        rows = storage.query(self.root, "SELECT plan FROM run WHERE number = ?", (number,))
        if rows:
            return str(rows[0][0])
        from publisher.ledger.hours import hour_of  # noqa: PLC0415 - few starts ask for so old a run

        hour = hour_of(self.root, number)
        return None if hour is None else hour.plan_of(number)

    def find_problem(self, identity: str, run: str, plan: str | None) -> str | None:
        """Explains why progress in a sink cannot come from this ledger; ``None`` if it can.

        ``plan`` is ``None`` for a run that may not be planned yet.

        Read the progress before calling this: another instance may plan further runs at any time.
        """
        if identity != self.identity():
            return (
                f"run {run} came from another ledger than {self.root}: that directory was lost and "
                "created again, or another job has the same name"
            )
        number, last = self.number_of(run), self.last_number()
        if number is None:
            return f"run {run} is not a run of job {self.job}"
        if number > last:
            return (
                f"run {run} is newer than the last run that {self.root} knows (number {last}): the "
                "directory is an older copy"
            )
        known = None if plan is None else self.plan_of(number)
        if known not in (None, plan):
            return f"run {run} has other documents in {self.root}; the directory is an older copy"
        return None

    def published_files(self) -> PublishedFiles:
        """The files that runs have published or will publish."""
        rows = storage.query(self.root, "SELECT source, path, entry FROM published_file")
        entries = {(source, path): FileEntry(**json.loads(entry)) for source, path, entry in rows}
        return PublishedFiles(entries).with_runs([manifest for _, manifest in self.unsent_runs()])

    def state_of(self, source: str) -> Path | None:
        """The folder with the newest state of a source; ``None`` if no run has written one."""
        return next(self._states(source), None)

    def earlier_states(self, run: str, source: str) -> Iterator[Path]:
        """The states of a source from earlier runs, newest first."""
        return self._states(source, before=int(run.rpartition("-")[2]))

    def state_before(self, run: str, source: str) -> Path | None:
        """The newest state of a source from the runs before one; ``None`` if there was none."""
        return next(self.earlier_states(run, source), None)

    def states_of(self, sources: Iterable[str]) -> dict[str, Path]:
        """The newest states by source, omitting sources without a state."""
        states = {source: self.state_of(source) for source in sources}
        return {source: state for source, state in states.items() if state is not None}

    def _states(self, source: str, before: int = 1 << 62) -> Iterator[Path]:
        rows = storage.query(
            self.root,
            "SELECT run FROM state WHERE source = ? AND run < ? ORDER BY run DESC",
            (source, before),
        )
        return (self._state_folder(source, run) for (run,) in rows if run not in self.hidden)

    def _state_folder(self, source: str, run: int) -> Path:
        return self.run(self.run_id(run)).state_folder(source)

    def origins(self) -> list[SourceReading]:
        """The sources of all runs, also of those that are deleted, to read positions."""
        rows = storage.query(
            self.root, "SELECT origin FROM source WHERE origin IS NOT NULL ORDER BY name"
        )
        return [restore(SourceReading, json.loads(text)) for (text,) in rows]

    def greatest_ids(self) -> dict[str, int]:
        """The greatest record id that was read from each live source, by its name.

        A record with a smaller id that a later run reads is late."""
        rows = storage.query(
            self.root, "SELECT name, greatest FROM source WHERE greatest IS NOT NULL"
        )
        return dict(rows)

    def forget_greatest(self, sources: Iterable[str]) -> None:
        """Forgets the greatest record ids of sources whose logs begin again."""
        with storage.transaction(self.root) as connection:
            connection.executemany(
                "UPDATE source SET greatest = NULL WHERE name = ?", ((name,) for name in sources)
            )

    def leftovers(self) -> dict[str, Leftovers]:
        """The rows of live logs that stay N after the last run, by source."""
        rows = storage.query(self.root, "SELECT name, held, reported FROM source")
        return {
            name: Leftovers(held, frozenset(json.loads(reported))) for name, held, reported in rows
        }

    def epochs(self) -> EpochsOfJob:
        """The epochs of the sources in event ids."""
        return EpochsOfJob(self.root)

    def finish(
        self,
        run: LedgerRun,
        manifest: Manifest,
        end: RunEnd,
        *,
        greatest: Mapping[str, int],
        leftovers: Mapping[str, Leftovers],
    ) -> None:
        """Records in one transaction that a run is sent and acknowledged, and what its sources remember.

        ``greatest`` and ``leftovers`` are those of sources that the run has read."""
        states = [self._state_folder(source, run.number) for source in manifest.states]
        files = [entry for folder in states for entry in self._describe(folder)]
        with storage.transaction(self.root) as connection:
            connection.execute(
                "UPDATE run SET ended = ?, outcome = ?, idle = ? WHERE number = ?",
                (time.time(), json.dumps(fields_of(end)), end.idle, run.number),
            )
            for name, number in greatest.items():
                self.epochs().ensure(connection, name)
                connection.execute(
                    "UPDATE source SET greatest = max(coalesce(greatest, 0), ?) WHERE name = ?",
                    (number, name),
                )
            for name, rows in leftovers.items():
                self.epochs().ensure(connection, name)
                connection.execute(
                    "UPDATE source SET held = ?, reported = ? WHERE name = ?",
                    (rows.held, json.dumps(sorted(rows.reported)), name),
                )
            self.epochs().note_run(connection, manifest)
            connection.executemany(
                "INSERT OR REPLACE INTO published_file VALUES (?, ?, ?)",
                (
                    (source.name, entry.path, json.dumps(asdict(entry)))
                    for source in manifest.sources
                    for entry in source.files
                ),
            )
            connection.executemany("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?)", files)
        if run.is_packed:
            shutil.rmtree(run.root, ignore_errors=True)

    def _describe(self, folder: Path) -> Iterator[tuple[str, str, int, str]]:
        """The files of a state with their sizes and digests."""
        owner = str(folder.relative_to(self.root))
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = str(path.relative_to(self.root))
                yield name, owner, path.stat().st_size, digest_of(path)

    def forget_states(self, source: str, before: str) -> None:
        """Removes the states of a source that the state of a run has replaced."""
        self._delete_states(source, int(before.rpartition("-")[2]))

    def _delete_states(self, source: str, before: int) -> None:
        older = "FROM state WHERE source = ? AND run < ?"
        runs = storage.query(self.root, f"SELECT run {older}", (source, before))
        folders = [self._state_folder(source, run) for (run,) in runs]
        if not folders:
            return
        owners = ((str(folder.relative_to(self.root)),) for folder in folders)
        with storage.transaction(self.root) as connection:
            connection.execute(f"DELETE {older}", (source, before))
            connection.executemany("DELETE FROM file WHERE owner = ?", owners)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def expire(self, *, days: float) -> None:
        """Removes finished runs that ended more than ``days`` ago, except the last of the job, and the states
        that only they needed."""
        oldest = time.time() - days * SECONDS_A_DAY
        expired = storage.query(
            self.root,
            "SELECT name FROM run WHERE ended < ? AND number < (SELECT max(number) FROM run)",
            (oldest,),
        )
        self.remove(name for (name,) in expired)
        self._expire_states()

    def _expire_states(self) -> None:
        """Removes states before the newest one that no kept run can show any more."""
        kept = self.oldest_kept() or 0
        newest = storage.query(self.root, "SELECT source, max(run) FROM state GROUP BY source")
        for source, run in newest:
            self._delete_states(source, min(run, kept))

    def idle_runs(self) -> list[str]:
        """The finished runs that found no change, except the last run of the job."""
        rows = storage.query(
            self.root,
            "SELECT name FROM run WHERE idle AND ended IS NOT NULL "
            "AND number < (SELECT max(number) FROM run)",
        )
        return [name for (name,) in rows]

    def remove(self, runs: Iterable[str]) -> None:
        """Removes finished runs; what sources remember stays."""
        names = list(runs)
        for start in range(0, len(names), 50):
            some = names[start : start + 50]
            delete_runs(self.root, [int(name.rpartition("-")[2]) for name in some])
            for name in some:
                shutil.rmtree(self.root / name, ignore_errors=True)
