"""One run in the ledger: its plan, its rows, its small texts, and its files if it is large.

The row of a run is the commit point.  The tasks keep a small lane in memory, and write the files of a large
one into the run's folder; the commit packs the lanes of a small run into the row, and syncs the files of a
large one.  A start after a crash removes folders without a row.
"""

# ruff: noqa: PLC0415 - a start that finds nothing to publish reads no rows

from __future__ import annotations

import json
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from publisher.errors import FatalError
from publisher.ledger import storage
from publisher.ledger.durable import decode_versioned_text, sync
from publisher.ledger.manifest import Manifest, RunEnd, SourceReading
from publisher.ledger.source_state import STATE, folder_of, secure
from publisher.model.change import Outcome
from publisher.model.plain import restore

if TYPE_CHECKING:
    from publisher.ledger.lane_rows import LaneRows
    from publisher.ledger.tables import RunTables

T = TypeVar("T")

STAGING = "staging"
DOCUMENT_STAGING = ".staging"
"""Folder of uncommitted documents, inside the folder of the documents."""
RECORDS_OF_SMALL_RUN, BYTES_OF_SMALL_RUN = 20_000, 1 << 23
"""Maximum size of a run whose rows are in the ledger."""


@dataclass(frozen=True, slots=True)
class LedgerRun:
    """A run in the ledger of a job, or the only run in that of a replay."""

    root: Path
    """The folder of the run, as users name it.  It has files only while the run works, or if it is large."""
    ledger: Path | None = None
    """The folder of the ledger; ``None``: that of the run, as for a replay."""
    rows: Sequence[LaneRows] | None = field(default=None, repr=False, compare=False)
    """The rows of all lanes, if they are known: of a planned run, or of one that was read."""

    @property
    def folder(self) -> Path:
        """The folder of the ledger."""
        return self.ledger or self.root

    @property
    def number(self) -> int:
        """The number of the run in its job; 1 for a replay."""
        return 1 if self.ledger is None else int(self.root.name.rpartition("-")[2])

    @property
    def staging(self) -> Path:
        """Folder in which tasks stage the files of lanes."""
        return self.root / STAGING

    def state_folder(self, source: str) -> Path:
        """Folder of the new state of a source, which counts when the run is committed."""
        return self.folder / STATE / folder_of(source) / f"{self.number:06d}"

    def state(self, source: str) -> Path | None:
        """Folder of the new state of a source; ``None`` if the run did not change it or is not committed."""
        known = "SELECT 1 FROM state WHERE source = ? AND run = ?"
        if not storage.query(self.folder, known, (source, self.number)):
            return None
        return self.state_folder(source)

    @property
    def is_committed(self) -> bool:
        """True if the run is planned completely."""
        return bool(self._select("1"))

    def manifest(self) -> Manifest | None:
        """The plan; ``None`` if the run is not committed.

        Raises:
            FatalError: The ledger is damaged, or of another version of the program.
        """
        rows = self._select("manifest")
        return read_manifest(rows[0][0], self.root.name) if rows else None

    def load(self) -> StoredRun | None:
        """Reads the run with the rows of a small one; ``None`` if it is not in the ledger.

        Raises:
            FatalError: The ledger is damaged, or of another version of the program.
        """
        from publisher.ledger.tables import unpack_tables

        for ended, end, plan, *packed in self._select(
            "ended, outcome, manifest, records, documents, lookups"
        ):
            manifest = read_manifest(plan, self.root.name)
            tables = None if packed[0] is None else unpack_tables(packed, self.root.name)
            return StoredRun(self, manifest, self.texts(), read_end(end), ended or 0.0, tables)
        return None

    def _select(self, columns: str) -> list[Any]:
        statement = f"SELECT {columns} FROM run WHERE number = ?"  # noqa: S608 - names of columns
        return storage.query(self.folder, statement, (self.number,))

    def texts(self) -> Mapping[str, str]:
        """The small texts of the run by their names."""
        statement = "SELECT name, text FROM run_text WHERE run = ?"
        return dict(storage.query(self.folder, statement, (self.number,)))

    def decode(
        self, name: str, version: int, decode: Callable[[dict[str, Any]], T], remedy: str
    ) -> T | None:
        """Decodes a text like ``decode_versioned_text``; ``None`` if the run does not have it."""
        text = self.texts().get(name)
        if text is None:
            return None
        place = f"{name} of run {self.root.name}"
        return decode_versioned_text(text, place, version, decode, remedy)

    def write_text(self, name: str, text: str, *, refusals: int = 0) -> None:
        """Stores a small text durably; ``refusals`` of a sink are counted for the run."""
        with storage.transaction(self.folder) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO run_text VALUES (?, ?, ?)", (self.number, name, text)
            )
            connection.execute(
                "UPDATE run SET refusals = ? WHERE number = ?", (refusals, self.number)
            )

    def lanes(self, manifest: Manifest) -> Sequence[LaneRows]:
        """The rows of all lanes of a planned or committed run.

        Raises:
            FatalError: The ledger is damaged.
        """
        from publisher.ledger.lane_rows import LaneRows, rows_in_memory
        from publisher.ledger.tables import unpack_tables

        if self.rows is not None:
            return self.rows
        documents = self.documents(manifest)
        for packed in self._select("records, documents, lookups"):
            if packed[0] is not None:
                tables = unpack_tables(packed, self.root.name)
                return rows_in_memory(tables, manifest.lanes, self.root, documents)
        return [LaneRows(lane, self.root, documents) for lane in range(manifest.lanes)]

    def documents(self, manifest: Manifest) -> Path:
        """The folder of the part files."""
        folder = self.root / manifest.documents
        if folder.name == manifest.documents != "..":
            return folder.absolute()  # to resolve links takes longer
        return (self.root / manifest.documents).resolve()

    def owns(self, documents: Path) -> bool:
        """Returns whether a folder of part files belongs to the run, not to a sink."""
        return documents.resolve().is_relative_to(self.root.resolve())

    def forget(self) -> None:
        """Removes the plan, so that the run is planned again."""
        if not storage.exists(self.folder):
            return
        with storage.transaction(self.folder) as connection:
            delete_runs(self.folder, [self.number])
            connection.execute("DELETE FROM state WHERE run = ?", (self.number,))

    @property
    def acknowledgement(self) -> RunEnd | None:
        """How the run ended; ``None`` if it is not sent and acknowledged completely."""
        rows = self._select("outcome")
        return read_end(rows[0][0]) if rows else None

    @property
    def sent_at(self) -> float:
        """When the run was acknowledged, in seconds since 1970-01-01 UTC; 0 if it is not."""
        rows = self._select("ended")
        return float(rows[0][0] or 0) if rows else 0.0

    def begin(self, documents: Path) -> None:
        """Creates the folders of a run, and the ledger of a replay; removes remains of a run that never
        committed."""
        if self.ledger is None:
            storage.create(self.folder, {})
        for state in (self.folder / STATE).glob(f"*/{self.number:06d}"):
            shutil.rmtree(state)
        shutil.rmtree(self.staging, ignore_errors=True)
        for path in (documents / DOCUMENT_STAGING).glob("*/"):  # a file is the sink's mark
            shutil.rmtree(path, ignore_errors=True)

    def commit(self, manifest: Manifest) -> LedgerRun:
        """Writes the row of a planned run, the commit point, when its files are in their places and durable.

        Documents in the directory of a sink wait in its staging folder: nobody may see them before.
        Returns the committed run with its rows.

        Raises:
            FatalError: A file of a lane is missing.
        """
        for source in manifest.states:
            secure(self.state_folder(source))
        documents, lanes = self.documents(manifest), self.lanes(manifest)
        is_own = self.owns(documents)
        files = [] if is_own else [_move(r.part, documents / DOCUMENT_STAGING) for r in lanes]
        is_small = _is_small(manifest, lanes)
        if is_small:
            lanes = [lane.load(with_texts=is_own) for lane in lanes]
        else:
            lanes = [self._place_files(lane, documents, is_own=is_own) for lane in lanes]
            files += [path for lane in lanes for path in lane.files]
            files += [lane.part for lane in lanes if is_own]
        sync([*files, *(path.parent for path in files)])
        self._insert(manifest, lanes if is_small else None)
        self.remove_staging(manifest)
        return replace(self, rows=[replace(lane, documents=documents) for lane in lanes])

    def remove_staging(self, manifest: Manifest) -> None:
        """Removes what tasks have staged for a committed run; a start that was killed leaves it."""
        documents = self.documents(manifest)
        shutil.rmtree(self.staging, ignore_errors=True)
        if self.owns(documents):
            shutil.rmtree(documents / DOCUMENT_STAGING, ignore_errors=True)

    def check_files(self, manifest: Manifest) -> None:
        """Raises ``FatalError`` if a file of a lane is missing, so that nothing is sent of such a run.

        A directory that gets the documents has them in their places or, until they are sent, in its staging
        folder."""
        documents = self.documents(manifest)
        for lane in self.lanes(manifest):
            places = [(path, path) for path in lane.files]
            if lane.tables is None or not self.owns(documents):
                places.append((lane.part, documents / DOCUMENT_STAGING / lane.part.name))
            for path, staged in places:
                if not path.exists() and not staged.exists():
                    raise FatalError(
                        f"{path} of run {manifest.run} is missing: restore it from a copy, or publish again"
                    )

    def _place_files(self, lane: LaneRows, documents: Path, *, is_own: bool) -> LaneRows:
        """Moves the files of a lane to their places; writes those of a lane in memory."""
        if lane.tables is not None:
            return lane.write(self.root, documents if is_own else None)
        for path in lane.files:
            _move(path, self.root)
        if is_own:
            _move(lane.part, documents)
        return replace(lane, folder=self.root, documents=documents)

    def _insert(self, manifest: Manifest, lanes: Sequence[LaneRows] | None) -> None:
        """Writes the row of a run; ``lanes`` have the rows of a small one."""
        from publisher.ledger.key_hashes import hashes_of
        from publisher.ledger.tables import RECORDS, TABLES, pack

        number, records = self.number, list[Any]()
        packed: list[bytes | None] = [None] * len(TABLES)
        if lanes is not None:
            records = [lane.read(RECORDS) for lane in lanes]
            packed = [pack(table, [lane.read(table) for lane in lanes]) for table in TABLES]
            packed[0] = packed[0] or b""  # a run without records is small, too
        rejected = sum(
            count.records
            for result in manifest.results
            for count in result.counts
            if count.outcome is Outcome.REJECTED
        )
        spans = [result.span for result in manifest.results if result.span is not None]
        least = min((least for least, _ in spans), default=None)
        greatest = max((greatest for _, greatest in spans), default=None)
        row = (
            *(number, manifest.run, manifest.plan, time.time(), rejected, least, greatest),
            zlib.compress(manifest.to_json().encode(), 1),
            *packed,
        )
        keys = hashes_of(records)
        with storage.transaction(self.folder) as connection:
            connection.execute("DELETE FROM run WHERE number = ?", (number,))
            connection.execute(
                "INSERT INTO run (number, name, plan, planned, rejected, least, greatest, manifest, records, "
                "documents, lookups) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            connection.executemany(
                "INSERT OR IGNORE INTO key_run VALUES (?, ?)", ((number, key) for key in keys)
            )
            connection.executemany(
                "INSERT INTO source (name, origin) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET origin = excluded.origin "
                "WHERE origin IS NOT excluded.origin",
                (
                    (source.name, json.dumps(asdict(SourceReading.of(source))))
                    for source in manifest.sources
                ),
            )
            connection.executemany(
                "INSERT OR REPLACE INTO state VALUES (?, ?)",
                ((source, number) for source in manifest.states),
            )

    @property
    def is_packed(self) -> bool:
        """True if the ledger has the rows of the run."""
        rows = self._select("records IS NOT NULL")
        return bool(rows) and bool(rows[0][0])


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it was planned, or read from the ledger or the files of its hour."""

    handle: LedgerRun
    manifest: Manifest
    texts: Mapping[str, str] = field(default_factory=dict)
    """Small texts of the run by their names."""
    end: RunEnd | None = None
    """``None`` for a run that is not sent and acknowledged completely, and for a replay."""
    ended: float = 0.0
    """When it was acknowledged, in seconds since 1970-01-01 UTC; 0 if it is not."""
    tables: RunTables | None = field(default=None, repr=False, compare=False)
    """The rows of a small run; ``None`` if they are files."""

    @property
    def place(self) -> Path:
        """The folder of the run, as users name it."""
        return self.handle.root

    @property
    def documents(self) -> Path:
        """The folder of the part files."""
        return self.handle.documents(self.manifest)

    def with_rows(self) -> LedgerRun:
        """The run with the rows of its lanes."""
        from publisher.ledger.lane_rows import rows_in_memory

        if self.tables is None:
            return self.handle
        lanes = rows_in_memory(self.tables, self.manifest.lanes, self.place, self.documents)
        return replace(self.handle, rows=lanes)


def _move(path: Path, folder: Path) -> Path:
    """Moves a file into a folder.  Raises ``FatalError`` if it is missing."""
    if not path.exists():
        raise FatalError(f"{path} is missing: another program changed it; publish again")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path.replace(folder / path.name)


def delete_runs(root: Path, numbers: Sequence[int]) -> None:
    """Deletes the rows of runs."""
    marks = ", ".join("?" * len(numbers))
    with storage.transaction(root) as connection:
        for table, column in (("run", "number"), ("run_text", "run"), ("key_run", "run")):
            connection.execute(f"DELETE FROM {table} WHERE {column} IN ({marks})", numbers)  # noqa: S608


def read_manifest(stored: bytes, run: str) -> Manifest:
    """Restores the plan of a run.  Raises ``FatalError`` if it is damaged."""
    try:
        return restore(Manifest, dict(json.loads(zlib.decompress(stored))))
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FatalError(
            f"the plan of run {run} in the ledger is damaged ({error}): restore the ledger from a copy"
        ) from error


def read_end(stored: str | None) -> RunEnd | None:
    """Restores how a run ended."""
    return None if stored is None else restore(RunEnd, json.loads(stored))


def _is_small(manifest: Manifest, lanes: Iterable[LaneRows]) -> bool:
    size = sum(lane.size for lane in lanes)
    return manifest.records_read <= RECORDS_OF_SMALL_RUN and size <= BYTES_OF_SMALL_RUN
