"""Finds and reads the runs of a ledger, wherever their rows are: in it, in the files of hours, in folders."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pyarrow.compute as pc

from publisher.errors import UsageError
from publisher.ledger import storage
from publisher.ledger.hours import RUNS, Hour, hour_of, hours_of
from publisher.ledger.job import RUN, Ledger
from publisher.ledger.key_hashes import hash_of
from publisher.ledger.parts import HourPart, LedgerPart, parts_of
from publisher.ledger.runs import LedgerRun, StoredRun
from publisher.ledger.storage import LEDGER
from publisher.ledger.tables import RECORDS, read_file

OF_REPLAY = "_ledger"
"""Folder of a replay's ledger inside its output directory."""
_RUNS_AT_ONCE = 500
"""Small runs whose rows are read together."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The runs that have certain records, or may have them; without conditions all runs."""

    records: pc.Expression | None = None
    """A condition on records."""
    keys: Collection[str] | None = None
    """Key texts of objects."""
    between: tuple[int, int] | None = None
    """The least and the greatest number of positions."""
    failed: bool = False
    """Only runs with rejected records, or documents that a sink refused."""


ALL_RUNS = Wanted()


def find_job(directory: Path) -> Ledger | None:
    """The ledger of a job, if this is its folder; otherwise ``None``."""
    if not (directory / LEDGER).exists():
        return None
    folder = directory.absolute()
    is_of_job = storage.query(folder, "SELECT 1 FROM job WHERE name = 'identity'")
    return Ledger(folder, folder.resolve().name) if is_of_job else None


def find_run(directory: Path) -> StoredRun:
    """Finds the run of a directory: of a job's ledger by its name, of a replay, or the run that its documents
    were published from.

    Raises:
        UsageError: The directory has no complete run.
        FatalError: The ledger is damaged, or of another version of the program.
    """
    for root in (directory, directory / OF_REPLAY):
        if (run := _run_at(root.absolute())) is not None:
            return run
    named = _named_in(directory / RUN)
    if named is not None:
        if (run := _run_at(named)) is not None:
            return run
        problem = f"was published from {named}, which does not exist: give the place to which it was moved"
    elif not directory.exists():
        problem = "has no ledger: it does not exist; publish first, or give another directory"
    elif directory.suffix == ".toml":
        problem = f"has no ledger: name a job file with -c {directory}, or give a directory"
    else:
        problem = (
            "has no ledger: give the directory of a job's ledger, or one that this program wrote"
        )
    raise UsageError(f"{directory} {problem}")


def _run_at(root: Path) -> StoredRun | None:
    """The run with this folder; ``None`` if there is none."""
    if (root / LEDGER).exists() and find_job(root) is None:
        run = LedgerRun(root).load()
        if run is None:
            raise UsageError(f"{root} has no complete run: start it again")
        return run
    job = find_job(root.parent)
    number = None if job is None else job.number_of(root.name)
    return None if job is None or number is None else find_number(job, number)


def _named_in(report: Path) -> Path | None:
    """The place of the run that a ``run.json`` names; ``None`` if it names none."""
    try:
        return Path(json.loads(report.read_text(encoding="utf-8"))["ledger"])
    except (OSError, ValueError, KeyError, TypeError):  # a file of another program
        return None


def read_runs(ledger: Ledger, wanted: Wanted = ALL_RUNS) -> Iterator[StoredRun]:
    """Reads committed runs of a job with their rows, oldest first; large ones have files.

    Raises:
        FatalError: The ledger is damaged.
    """
    for hour, each in groupby(
        sorted(_find(ledger, wanted).items(), key=itemgetter(0)), key=itemgetter(1)
    ):
        numbers = [number for number, _ in each]
        for start in range(0, len(numbers), _RUNS_AT_ONCE):
            some = numbers[start : start + _RUNS_AT_ONCE]
            yield from _load(ledger, some) if hour is None else hour.load(some)


def _find(ledger: Ledger, wanted: Wanted) -> dict[int, Hour | None]:
    """Finds runs by their numbers; the hour is ``None`` if the ledger has the run."""
    # the ledger first: a run that moves after this line is found in its hour
    found: dict[int, Hour | None] = dict.fromkeys(_find_in_ledger(ledger, wanted))
    for hour in hours_of(ledger.root, wanted.between):
        found |= dict.fromkeys(_find_in(hour, wanted), hour)
    return found


def _find_in(hour: Hour, wanted: Wanted) -> list[int]:
    if wanted.records is not None:
        rows = read_file(hour.file(RECORDS.name), ["run"], wanted.records)
    else:
        rows = read_file(hour.file(RUNS), ["run"], pc.field("failed") if wanted.failed else None)
    numbers: list[int] = sorted(pc.unique(rows["run"]).to_pylist())
    return numbers


def _find_in_ledger(ledger: Ledger, wanted: Wanted) -> list[int]:
    """The numbers of the runs in the ledger, also of large ones that may not have the records."""
    conditions, parameters = list[str](), list[object]()
    if wanted.keys is not None:
        hashes = sorted(set(map(hash_of, wanted.keys)))
        marks = ", ".join("?" * len(hashes))
        conditions.append(f"number IN (SELECT run FROM key_run WHERE hash IN ({marks}))")  # noqa: S608
        parameters += hashes
    if wanted.failed:
        conditions.append("(rejected > 0 OR refusals > 0)")
    fits = " AND ".join(conditions) or "1"
    least, greatest = wanted.between or (None, None)
    rows = storage.query(
        ledger.root,
        f"SELECT number FROM run WHERE (records IS NULL OR ({fits} AND {NOT_IN_HOUR})) "  # noqa: S608 - names and marks
        "AND (? IS NULL OR (least <= ? AND greatest >= ?)) ORDER BY number",
        [*parameters, least, greatest, least],
    )
    return [number for (number,) in rows if number not in ledger.hidden]


NOT_IN_HOUR = "NOT EXISTS (SELECT 1 FROM hour WHERE run.number BETWEEN hour.first AND hour.last)"


def _load(ledger: Ledger, numbers: Sequence[int]) -> Iterator[StoredRun]:
    """Reads runs with their rows, wherever they are; those that are deleted meanwhile are left out."""
    for number in numbers:
        run = find_number(ledger, number)
        if run is not None:
            yield run


def find_number(ledger: Ledger, number: int) -> StoredRun | None:
    """Finds a run of a job by its number; ``None`` if it is not kept, or not committed."""
    run = ledger.run(ledger.run_id(number)).load()
    if run is None and (hour := hour_of(ledger.root, number)) is not None:
        return next(hour.load([number]), None)
    return run


def scan_runs(directory: Path) -> Iterator[LedgerPart]:
    """Yields all parts of a run, of a directory of ``replay``, or of all runs of a job, oldest first.

    Raises:
        UsageError: There is no complete run.
        FatalError: The ledger is damaged, or another version of the program wrote it.
    """
    if find_job(directory) is None:
        yield from parts_of([find_run(directory)])
        return
    part = None
    for part in scan_kept_runs(directory):
        yield part
    if part is None:
        raise UsageError(
            f"{directory} has no complete run: publish first, or give another directory"
        )


def scan_kept_runs(directory: Path) -> Iterator[LedgerPart]:
    """Yields the parts of all runs of a job, oldest first; nothing if there is no job, or no complete run.

    Raises ``FatalError`` as ``scan_runs``.
    """
    ledger = find_job(directory)
    if ledger is None:
        return
    found = _find(ledger, ALL_RUNS).items()
    # an hour is read as a whole; the numbers of large runs may lie between those of its runs
    places = {
        hour.first if hour else number: hour for number, hour in sorted(found, key=itemgetter(0))
    }
    for hour, each in groupby(places.items(), key=itemgetter(1)):
        if hour is not None:
            yield HourPart(hour)
            continue
        numbers = [number for number, _ in each]
        for start in range(0, len(numbers), _RUNS_AT_ONCE):
            yield from parts_of(list(_load(ledger, numbers[start : start + _RUNS_AT_ONCE])))
