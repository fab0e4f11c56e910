"""One run in the ledger: its plan, its rows, its small texts, and the files that it needs while it works.

The row of a run is the commit point.  Before it, the tasks write the files of lanes into the run's folder;
the commit packs a small run into the row, and syncs the files of a large one.  A start after a crash removes
folders without a row, and writes the files of a packed run that was not sent yet once more.
"""

# ruff: noqa: PLC0415 - a start that finds nothing to publish reads no rows

from __future__ import annotations

import json
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from publisher.errors import FatalError
from publisher.ledger import storage
from publisher.ledger.durable import decode_versioned_text, sync
from publisher.ledger.lane_result import LaneNames, LaneResult
from publisher.ledger.manifest import Manifest, RunEnd, SourceReading
from publisher.ledger.source_state import STATE, folder_of, secure
from publisher.model.change import Outcome
from publisher.model.plain import restore

if TYPE_CHECKING:
    import pyarrow as pa

    from publisher.ledger.tables import RunTable, RunTables

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
    files: Path | None = None
    """The folder of its files, if it is another one."""

    @property
    def folder(self) -> Path:
        """The folder of the ledger."""
        return self.ledger or self.root

    @property
    def number(self) -> int:
        """The number of the run in its job; 1 for a replay."""
        return 1 if self.ledger is None else int(self.root.name.rpartition("-")[2])

    @property
    def place(self) -> Path:
        """The folder of the files of lanes."""
        return self.files or self.root

    @property
    def staging(self) -> Path:
        """Folder in which tasks stage the files of lanes."""
        return self.place / STAGING

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

    def documents(self, manifest: Manifest) -> Path:
        """The folder of the part files."""
        folder = self.place / manifest.documents
        if folder.name == manifest.documents != "..":
            return folder.absolute()  # to resolve links takes longer
        return (self.root / manifest.documents).resolve()

    def own_documents(self, manifest: Manifest) -> Path | None:
        """The folder of the part files; ``None`` if they are in the directory of a sink."""
        documents = self.documents(manifest)
        is_own = documents.resolve().is_relative_to(self.place.resolve())
        return documents if is_own else None

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
        for folder in (self.staging, documents / DOCUMENT_STAGING):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for path in folder.iterdir():
                if path.is_dir():  # a file is the sink's mark of a run that has begun
                    shutil.rmtree(path, ignore_errors=True)

    def discard(self, results: Iterable[LaneResult], documents: Path) -> None:
        """Removes the files of lanes before the commit, so that they are planned again."""
        for result in results:
            if result.staged:
                for folder in (self.staging, documents / DOCUMENT_STAGING):
                    shutil.rmtree(result.folder(folder), ignore_errors=True)
            else:
                part = self._part(result, documents)[1]
                for path in [*(self.place / name for name in result.files), part]:
                    path.unlink(missing_ok=True)

    def commit(self, manifest: Manifest) -> None:
        """Writes the row of the run, the commit point, when all files are in their places and durable.

        Documents in the directory of a sink move to their places afterwards: nobody may see them before.

        Raises:
            FatalError: A file of a lane is missing.
        """
        from publisher.ledger.tables import TABLES, read_lanes

        for source in manifest.states:
            secure(self.state_folder(source))
        documents, own = self.documents(manifest), self.own_documents(manifest)
        paths = [path for result in manifest.results for path in self._place_files(result)]
        parts = [self._part(result, documents) for result in manifest.results]
        if own is not None:
            _move(parts)
            parts = [(place, place) for _, place in parts]
        staged = [part for part, _ in parts]
        tables, kept = {}, [*paths, *staged]
        if _is_small(manifest, kept):
            tables = {table: list(read_lanes(table, self.place, own, manifest)) for table in TABLES}
            kept = staged if own is None else []
        sync([*kept, *(path.parent for path in kept)])
        self._insert(manifest, tables)
        if own is None:
            _move(parts)
            sync([documents])
        shutil.rmtree(self.staging, ignore_errors=True)

    def _insert(self, manifest: Manifest, tables: Mapping[RunTable, list[pa.Table]]) -> None:
        from publisher.ledger.key_hashes import hashes_of
        from publisher.ledger.tables import RECORDS, TABLES, pack

        number, records = self.number, tables.get(RECORDS, [])
        packed = [pack(table, lanes) for table, lanes in tables.items()] or [None] * len(TABLES)
        rejected = sum(
            count.records
            for result in manifest.results
            for count in result.counts
            if count.outcome is Outcome.REJECTED
        )
        spans = [result.span for result in manifest.results if result.span is not None]
        least = min((least for least, _ in spans), default=None)
        greatest = max((greatest for _, greatest in spans), default=None)
        if tables and packed[0] is None:
            packed[0] = b""  # a run without records is small, too
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

    def write_files(self, manifest: Manifest) -> None:
        """Writes the files of a packed run that a crash may have taken before it was sent.

        Raises:
            FatalError: The files of a large run are missing.
        """
        from publisher.ledger.tables import write_lanes

        documents, own = self.documents(manifest), self.own_documents(manifest)
        stored = self.load()
        if stored is not None and stored.tables is not None:
            for folder in (self.place, *([own] if own else [])):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_lanes(stored.tables, self.place, own, manifest)
        parts = [self._part(result, documents) for result in manifest.results]
        _move([part for part in parts if part[0].exists()])
        shutil.rmtree(self.staging, ignore_errors=True)
        names = [name for result in manifest.results for name in result.files]
        for path in [*(self.place / name for name in names), *(place for _, place in parts)]:
            if not path.exists():
                raise FatalError(
                    f"{path} of run {manifest.run} is missing: restore it; or move the ledger away, and "
                    "publish again"
                )

    @property
    def is_packed(self) -> bool:
        """True if the ledger has the rows of the run."""
        rows = self._select("records IS NOT NULL")
        return bool(rows) and bool(rows[0][0])

    def close(self) -> None:
        """Ends the work on a sent replay: removes what only an unfinished run needs, and the files of a small
        run, whose rows the ledger has."""
        for survey in self.place.glob("dispatch-*"):  # ``DispatchRecord``
            survey.unlink()
        manifest = self.manifest()
        if manifest is not None and self.is_packed:
            self._remove_files(manifest)
        storage.close(self.folder)

    def _remove_files(self, manifest: Manifest) -> None:
        own = self.own_documents(manifest)
        for result in manifest.results:
            for name in result.files:
                (self.place / name).unlink(missing_ok=True)
            if own is not None:
                (own / LaneNames(result.lane).part).unlink(missing_ok=True)
        if own is not None and own != self.place and own.is_dir() and not any(own.iterdir()):
            own.rmdir()

    def _place_files(self, result: LaneResult) -> Iterator[Path]:
        """Moves the staged files of a lane to their places; yields these."""
        for name in result.files:
            staged, place = result.folder(self.staging) / name, self.place / name
            _replace(staged if result.staged else place, place)
            yield place

    def _part(self, result: LaneResult, documents: Path) -> tuple[Path, Path]:
        """The part file of a lane, as it was staged and in its place."""
        part = LaneNames(result.lane).part
        staged = result.folder(documents / DOCUMENT_STAGING) if result.staged else documents
        return staged / part, documents / part


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A committed run as it was read from the ledger, or from the files of its hour."""

    handle: LedgerRun
    manifest: Manifest
    texts: Mapping[str, str]
    """Small texts of the run by their names."""
    end: RunEnd | None
    """``None`` for a run that is not sent and acknowledged completely, and for a replay."""
    ended: float
    """When it was acknowledged, in seconds since 1970-01-01 UTC; 0 if it is not."""
    tables: RunTables | None = field(repr=False, compare=False)
    """The rows of a small run; ``None`` if they are files."""

    @property
    def place(self) -> Path:
        """The folder of the run, as users name it."""
        return self.handle.root

    @property
    def documents(self) -> Path:
        """The folder of the part files."""
        return self.handle.documents(self.manifest)

    @contextmanager
    def unpacked(self) -> Iterator[LedgerRun]:
        """Yields the run with files: its own, or temporary ones with the rows of a small run."""
        from publisher.ledger.tables import write_lanes

        if self.tables is None:
            yield self.handle
            return
        with TemporaryDirectory(prefix="xds-publisher-") as name:
            run = replace(self.handle, files=Path(name))
            own = None
            if self.handle.own_documents(self.manifest) is not None:
                own = Path(name) / self.manifest.documents
                own.mkdir(exist_ok=True)
            write_lanes(self.tables, run.place, own, self.manifest)
            yield run


def _move(parts: Iterable[tuple[Path, Path]]) -> None:
    for staged, place in parts:
        _replace(staged, place)


def _replace(staged: Path, place: Path) -> None:
    """Moves a file to its place.  Raises ``FatalError`` if it is missing."""
    if not staged.exists():
        raise FatalError(f"{staged} is missing: another program changed it; publish again")
    if staged != place:
        staged.replace(place)


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


def _is_small(manifest: Manifest, paths: Iterable[Path]) -> bool:
    size = sum(path.stat().st_size for path in paths)
    return manifest.records_read <= RECORDS_OF_SMALL_RUN and size <= BYTES_OF_SMALL_RUN
