"""Closes hours: the rows of finished small runs move from the ledger into the Parquet files of one folder.

The files are durable before one transaction registers the hour; from then on they have the runs, and the
rows in the ledger are deleted in slices.  Each page of a file has a checksum, which readers compare: a file
that is missing, cut or changed is refused.  Only finished runs move, never the last one.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import sleep as pause
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from publisher.ledger import storage
from publisher.ledger.durable import make_private, sync_folder
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun, StoredRun, delete_runs, read_end
from publisher.ledger.table_writer import TableWriter
from publisher.ledger.tables import TABLES, RunTable, number_rows, read_file
from publisher.model.plain import fields_of, restore

SECONDS = 3_600.0
FEWEST_RUNS = 500
"""Fewer runs stay in the ledger."""
_SLICE = 50
"""Runs that one transaction deletes, and that are unpacked together."""
_PAUSE = 0.005
"""Seconds between two slices, in which a poll may commit."""
RUN_SCHEMA = pa.schema(
    [
        ("run", pa.int64()),
        ("name", pa.string()),
        ("plan", pa.string()),
        ("ended", pa.float64()),
        ("failed", pa.bool_()),
        ("outcome", pa.string()),
        ("manifest", pa.string()),
        ("texts", pa.map_(pa.string(), pa.string())),
    ]
)
"""One row for each run; ``failed``: it has rejected records, or documents that a sink refused."""
RUNS = "runs"
_TEXTS = "SELECT run, name, text FROM run_text WHERE run BETWEEN ? AND ?"


class Hour(NamedTuple):
    """Runs whose rows are in the files of one folder."""

    root: Path
    """The folder of the ledger."""
    first: int
    last: int

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self.root / storage.HOURS / f"{self.first:06d}-{self.last:06d}"

    def file(self, name: str) -> Path:
        """The file of a table."""
        return self.folder / f"{name}.parquet"

    def plan_of(self, number: int) -> str | None:
        """The digest of the plan of a run; ``None`` if it is not here."""
        rows = read_file(self.file(RUNS), ["plan"], pc.field("run") == number)["plan"].to_pylist()
        return rows[0] if rows else None

    def runs(self, condition: pc.Expression | None = None) -> list[StoredRun]:
        """Reads runs without their rows, oldest first."""
        later: dict[int, dict[str, str]] = {}
        for number, name, text in storage.query(self.root, _TEXTS, (self.first, self.last)):
            later.setdefault(number, {})[name] = text
        return [
            StoredRun(
                LedgerRun(self.root / row["name"], self.root),
                restore(Manifest, json.loads(row["manifest"])),
                dict(row["texts"]) | later.get(row["run"], {}),
                read_end(row["outcome"]),
                row["ended"],
            )
            for row in read_file(self.file(RUNS), None, condition).to_pylist()
        ]

    def load(self, numbers: Sequence[int]) -> Iterator[StoredRun]:
        """Reads runs with their rows, oldest first; those that are not here are left out."""
        if not numbers:
            return
        wanted = pc.field("run").isin(list(numbers))
        rows = {table.name: read_file(self.file(table.name), None, wanted) for table in TABLES}
        for run in self.runs(wanted):
            tables = {
                name: of_runs.filter(pc.equal(of_runs["run"], run.handle.number))
                .drop_columns(["run"])
                .combine_chunks()
                for name, of_runs in rows.items()
            }
            yield replace(run, tables=tables)


def hours_of(root: Path, between: tuple[int, int] | None = None) -> list[Hour]:
    """The hours of a ledger, oldest first, by default all, or those that have positions in a range."""
    least, greatest = between or (None, None)
    rows = storage.query(
        root,
        "SELECT first, last FROM hour WHERE ?1 IS NULL OR (least <= ?2 AND greatest >= ?1) ORDER BY first",
        (least, greatest),
    )
    return [Hour(root, first, last) for first, last in rows]


def hour_of(root: Path, number: int) -> Hour | None:
    """The hour that may have a run; ``None`` if there is none."""
    rows = storage.query(
        root, "SELECT first, last FROM hour WHERE ? BETWEEN first AND last", (number,)
    )
    return Hour(root, *rows[0]) if rows else None


class Closing:
    """Closes the hours of one job."""

    def __init__(
        self,
        root: Path,
        check_lease: Callable[[], None],
        *,
        seconds: float = SECONDS,
        fewest: int = FEWEST_RUNS,
    ) -> None:
        """``check_lease`` raises if a newer instance of the job has begun."""
        self._root = root
        self._check_lease = check_lease
        self._seconds = seconds
        self._fewest = fewest

    def step(self) -> bool:
        """Closes one hour; returns false if none is over."""
        self.remove_remains()
        numbers = self._next_runs()
        if not numbers:
            return False
        self._write(numbers)
        self._delete_copies()
        return True

    def remove_remains(self) -> None:
        """Removes what a crash has left: folders that no hour has, and rows that an hour has."""
        known = {hour.folder for hour in hours_of(self._root)}
        folder = self._root / storage.HOURS
        for path in folder.iterdir() if folder.is_dir() else ():
            if path not in known:
                shutil.rmtree(path)
        self._delete_copies()

    def expire(self, days: float) -> None:
        """Removes the hours whose runs all ended more than ``days`` ago."""
        oldest = time.time() - days * 86_400
        rows = storage.query(
            self._root, "SELECT first, last FROM hour WHERE youngest < ? ORDER BY first", (oldest,)
        )
        for hour in (Hour(self._root, *row) for row in rows):
            self._check_lease()
            with storage.transaction(self._root) as connection:
                connection.execute("DELETE FROM hour WHERE first = ?", (hour.first,))
                connection.execute(
                    "DELETE FROM run_text WHERE run BETWEEN ? AND ? "
                    "AND NOT EXISTS (SELECT 1 FROM run WHERE number = run_text.run)",
                    hour[1:],
                )
            shutil.rmtree(hour.folder, ignore_errors=True)

    def _next_runs(self) -> list[int]:
        """The numbers of the small runs of the next hour, once it is over."""
        ended = storage.query(
            self._root,
            "SELECT number, ended FROM run WHERE records IS NOT NULL AND number < "
            "(SELECT coalesce(min(number), (SELECT max(number) FROM run)) FROM run WHERE ended IS NULL) "
            "ORDER BY number",
        )
        if len(ended) < self._fewest or time.time() < ended[0][1] + self._seconds:
            return []
        of_hour = sum(moment <= ended[0][1] + self._seconds for _, moment in ended)
        return [number for number, _ in ended[: max(of_hour, self._fewest)]]

    def _write(self, numbers: Sequence[int]) -> None:
        hour = Hour(self._root, numbers[0], numbers[-1])
        hour.folder.mkdir(parents=True, mode=0o700)
        writers = {t.name: TableWriter(hour.file(t.name), t) for t in hour_tables()}
        for writer in writers.values():
            writer.spill()
        for start in range(0, len(numbers), _SLICE):
            for run, failed in self._read(numbers[start : start + _SLICE]):
                assert run.tables is not None
                for name, rows in run.tables.items():
                    writers[name].add(number_rows(rows, run.handle.number))
                writers[RUNS].add(_run_row(run, failed=failed))
            pause(_PAUSE)
        for writer in writers.values():
            writer.close()
            make_private(writer.path)
        for folder in (hour.folder, hour.folder.parent, self._root):
            sync_folder(folder)
        bounds = storage.query(
            self._root,
            "SELECT max(ended), min(least), max(greatest) FROM run WHERE number BETWEEN ? AND ? "
            "AND records IS NOT NULL",
            (hour.first, hour.last),
        )
        self._check_lease()
        with storage.transaction(self._root) as connection:
            connection.execute(
                "INSERT INTO hour VALUES (?, ?, ?, ?, ?)", (hour.first, hour.last, *bounds[0])
            )

    def _read(self, numbers: Sequence[int]) -> Iterator[tuple[StoredRun, bool]]:
        """Yields small runs with their rows; true: they have rejected records or refused documents."""
        rows = storage.query(
            self._root,
            "SELECT name, rejected OR refusals FROM run WHERE number BETWEEN ? AND ? "
            "AND records IS NOT NULL ORDER BY number",
            (numbers[0], numbers[-1]),
        )
        for name, failed in rows:
            run = LedgerRun(self._root / name, self._root).load()
            assert run is not None
            yield run, bool(failed)

    def _delete_copies(self) -> None:
        """Deletes the rows of runs that an hour has."""
        while True:
            rows = storage.query(
                self._root,
                "SELECT number FROM run WHERE records IS NOT NULL AND EXISTS (SELECT 1 FROM hour WHERE "
                "number BETWEEN first AND last) ORDER BY number LIMIT ?",
                (_SLICE,),
            )
            if not rows:
                return
            delete_runs(self._root, [number for (number,) in rows])
            pause(_PAUSE)


def hour_tables() -> list[RunTable]:
    """The tables of an hour, each a file."""
    return [RunTable(RUNS, RUN_SCHEMA), *(RunTable(t.name, t.numbered) for t in TABLES)]


def _run_row(run: StoredRun, *, failed: bool) -> pa.Table:
    assert run.end is not None
    entry = {
        "run": run.handle.number,
        "name": run.place.name,
        "plan": run.manifest.plan,
        "ended": run.ended,
        "failed": failed,
        "outcome": json.dumps(fields_of(run.end)),
        "manifest": run.manifest.to_json(),
        "texts": [*run.texts.items()],
    }
    return pa.Table.from_pylist([entry], RUN_SCHEMA)
