"""The published states of a job's objects, on disk and in the tasks of a run.

The states are a sequence of small databases, newest first; the newest file with an object counts.  Tasks read
the files of earlier runs, and each writes one file with the objects of its lane.  Files are never changed,
so a run that is discarded leaves no trace.  ``merge_states`` keeps their number small.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from publisher.errors import FatalError
from publisher.model.published_objects import UNKNOWN, PublishedObject, PublishedObjects

_BYTES_HELD = 32 << 20
"""Approximate size of the states that a task holds in memory."""
_BYTES_OF_OBJECT = 400
_CACHE = -4096
"""Memory for pages of one file, in units of -1 KiB."""
_REMOVED = ""
"""State of an object that the job has deleted."""
_RATIO = 4
_ROWS_AT_ONCE = 1_000
_CREATE = "CREATE TABLE objects (association TEXT PRIMARY KEY, state TEXT) WITHOUT ROWID"
_READ = "SELECT state FROM objects WHERE association = ?"
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?)"
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class StatesBefore:
    """The published states before a run, as its tasks read them."""

    files: tuple[str, ...] = ()
    """Paths, newest first."""
    is_complete: bool = False
    """True if the job has published no other objects: it has kept states since its first run."""
    by_source: bool = False
    """True if the documents of each source have topics of their own, and so states of their own."""


class LaneStates:
    """The published states of the objects of one lane; implements ``PublishedObjects``."""

    def __init__(self, before: StatesBefore, path: Path, bytes_held: int = _BYTES_HELD) -> None:
        """New states go to the file ``path``, which is created only if there are any."""
        self._absent = None if before.is_complete else UNKNOWN
        self._path = path
        self._bytes_held = bytes_held
        self._files = [(path, _open_to_read(path)) for path in map(Path, before.files)]
        """The files of earlier runs, and before them the own file, if there is one."""
        self._written: sqlite3.Connection | None = None
        self._new: dict[str, PublishedObject | None] = {}
        self._size = 0

    def state_of(self, association: str) -> PublishedObject | None:
        """See ``PublishedObjects.state_of``."""
        if association in self._new:
            state = self._new[association]
            return self._absent if state is None else state
        for path, file in self._files:
            try:
                row = file.execute(_READ, (association,)).fetchone()
            except sqlite3.Error as error:
                raise _damage(path, error) from error
            if row is not None:
                return self._absent if row[0] == _REMOVED else _decode(row[0])
        return self._absent

    def put(self, association: str, state: PublishedObject | None) -> None:
        """See ``PublishedObjects.put``."""
        self._new[association] = state
        values = () if state is None else state.values.values()
        self._size += _BYTES_OF_OBJECT + sum([len(text) for texts in values for text in texts])
        if self._size >= self._bytes_held:
            self._write()

    def close(self) -> int:
        """Completes the file of the new states; returns the number of its rows, 0 if there is no file."""
        rows = 0
        if self._new:
            self._write()
        if self._written is not None:
            with _explain_failure(self._path):
                rows = _complete(self._written)
        self.abandon()
        return rows

    def abandon(self) -> None:
        """Closes all files."""
        for _, file in self._files:
            file.close()

    def _write(self) -> None:
        with _explain_failure(self._path):
            if self._written is None:
                self._written = _create(self._path)
                self._files.insert(0, (self._path, self._written))
            rows = sorted((name, _encode(state)) for name, state in self._new.items())
            self._written.executemany(_PUT, rows)
        self._new.clear()
        self._size = 0


@dataclass(frozen=True, slots=True)
class StatesOfSource:
    """The published states of one source whose documents have topics of their own."""

    states: PublishedObjects
    source: str

    def state_of(self, association: str) -> PublishedObject | None:
        """See ``PublishedObjects.state_of``."""
        return self.states.state_of(name_in_source(association, self.source))

    def put(self, association: str, state: PublishedObject | None) -> None:
        """See ``PublishedObjects.put``."""
        self.states.put(name_in_source(association, self.source), state)


def name_in_source(association: str, source: str) -> str:
    """The name of an object whose source has topics of its own."""
    return f"{source}{_SEPARATOR}{association}"


def write_unknown(path: Path, associations: Iterable[str]) -> int:
    """Writes a file by which the states of these objects are unknown; returns the number of its rows."""
    with _explain_failure(path), closing(_create(path)) as file:
        file.executemany(_PUT, ((name, _encode(UNKNOWN)) for name in associations))
        return _complete(file)


def count_to_merge(rows: Sequence[int]) -> int:
    """The number of newest files to merge into one, by the numbers of rows of all, newest first.

    Afterwards each file has several times the rows of all newer ones together, so there are few files, and
    each row is written a few times at most."""
    total, count = 0, 0
    for number, size in enumerate(rows, 1):
        if size < _RATIO * total:
            count = number
        total += size
    return count


def merge_states(files: Sequence[Path], target: Path, *, is_oldest: bool) -> int:
    """Merges files, newest first, into one; returns the number of its rows.

    With ``is_oldest`` there are no older files, so that removed objects need no row.

    Raises ``FatalError`` if a file is missing or damaged."""
    with _explain_failure(target), closing(_create(target)) as merged:
        for path in files:
            with closing(_open_to_read(path)) as file:
                for rows in _read_rows(path, file):
                    merged.executemany("INSERT OR IGNORE INTO objects VALUES (?, ?)", rows)
        if is_oldest:
            merged.execute("DELETE FROM objects WHERE state = ?", (_REMOVED,))
        return _complete(merged)


def read_states(files: Sequence[Path]) -> dict[str, PublishedObject]:
    """Reads all states of some files, newest first."""
    states: dict[str, str] = {}
    for path in reversed(files):
        with closing(_open_to_read(path)) as file:
            for rows in _read_rows(path, file):
                states.update(rows)
    return {name: _decode(text) for name, text in states.items() if text != _REMOVED}


def _encode(state: PublishedObject | None) -> str:
    return _REMOVED if state is None else _JSON([state.is_whole, state.values])


def _decode(text: str) -> PublishedObject:
    is_whole, values = json.loads(text)
    return PublishedObject({name: tuple(texts) for name, texts in values.items()}, is_whole)


def _create(path: Path) -> sqlite3.Connection:
    """Creates a file and begins a transaction."""
    path.unlink(missing_ok=True)  # of an interrupted attempt
    path.touch(mode=0o600)
    file = _connect(path, "nolock=1")
    for setting in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
        file.execute(f"PRAGMA {setting}")
    file.execute("BEGIN")
    file.execute(_CREATE)
    return file


def _complete(file: sqlite3.Connection) -> int:
    """Commits a created file; returns the number of its rows."""
    file.execute("COMMIT")
    (rows,) = file.execute("SELECT count(*) FROM objects").fetchone()
    return int(rows)


def _open_to_read(path: Path) -> sqlite3.Connection:
    try:
        file = _connect(path, "mode=ro&immutable=1")
        file.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        raise _damage(path, error) from error
    return file


def _read_rows(path: Path, file: sqlite3.Connection) -> Iterator[list[tuple[str, str]]]:
    """Reads all rows of a file in parts."""
    try:
        rows = file.execute("SELECT association, state FROM objects ORDER BY association")
        while part := rows.fetchmany(_ROWS_AT_ONCE):
            yield part
    except sqlite3.Error as error:
        raise _damage(path, error) from error


def _connect(path: Path, parameters: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?{parameters}"
    file = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    file.execute(f"PRAGMA cache_size = {_CACHE}")
    return file


def _damage(path: Path, error: sqlite3.Error) -> FatalError:
    return FatalError(
        f"{path} with published objects cannot be read ({error}): restore it, or publish once with "
        "minimal = false in [documents], after which all values count as unknown"
    )


@contextmanager
def _explain_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"{path} cannot be written: {error}") from error
