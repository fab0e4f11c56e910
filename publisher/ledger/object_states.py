"""The published states of a job's objects, on disk and in the tasks of a run.

The states are a sequence of small databases, newest first; the newest file with an object counts.  Tasks read
the files of earlier runs, and each writes one file with the objects of its lane.  Files are never changed,
so a run that is discarded leaves no trace.  ``merge_states`` keeps their number small.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from publisher.errors import FatalError
from publisher.model.published_objects import UNKNOWN, PublishedObject, PublishedObjects

_BYTES_HELD = 32 << 20
"""Approximate size of the states that a task holds in memory."""
_BYTES_OF_OBJECT = 400
_BYTES_PREFETCHED = 16 << 20
_OBJECTS_AT_ONCE = 10_000
"""Maximum number of objects that one statement reads."""
_ROWS_AT_ONCE = 16
"""Rows that are fetched together; each may be as large as an object."""
_CACHE = -4096
"""Memory for pages of one file, in units of -1 KiB."""
_REMOVED = ""
"""State of an object that the job has deleted."""
_RATIO = 4
_CREATE = "CREATE TABLE objects (association TEXT PRIMARY KEY, state TEXT) WITHOUT ROWID"
_READ_MANY = "SELECT association, state FROM json_each(?) CROSS JOIN objects ON association = value"
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?)"
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_IMMUTABLE = "mode=ro&immutable=1"
_MERGE = "INSERT OR IGNORE INTO objects SELECT association, state FROM older.objects"
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
    limit: int | None = None
    """Bytes of text of the largest document that the sink surely accepts; ``None`` for all documents."""


class LaneStates:
    """The published states of the objects of one lane; implements ``PublishedObjects``."""

    def __init__(self, before: StatesBefore, path: Path, bytes_held: int = _BYTES_HELD) -> None:
        """New states go to the file ``path``, which is created only if there are any."""
        self._absent = None if before.is_complete else UNKNOWN
        self._limit = before.limit
        self._path = path
        self._bytes_held = bytes_held
        self._files = [(path, _open_to_read(path)) for path in map(Path, before.files)]
        """The files of earlier runs, and before them the own file, if there is one."""
        self._written: sqlite3.Connection | None = None
        self._new: dict[str, str] = {}
        """The states that are not in the own file yet."""
        self._size = 0
        self._prefetched: dict[str, str | None] = {}
        """The states in files, ``None`` if no file has the object."""

    def prefetch(self, associations: Collection[str]) -> None:
        """See ``PublishedObjects.prefetch``; reads fewer objects if their states are large."""
        self._prefetched = self._read(sorted({*associations} - self._new.keys()))

    def state_of(self, association: str) -> PublishedObject | None:
        """See ``PublishedObjects.state_of``."""
        text = self._new.get(association)
        if text is None:
            states = self._prefetched
            if association not in states:
                states = self._read([association])
            text = states[association]
        return PublishedObject(text) if text else self._absent

    def put(self, association: str, state: PublishedObject | None) -> None:
        """See ``PublishedObjects.put``."""
        text = _REMOVED if state is None else state.text
        self._new[association] = text
        self._size += _BYTES_OF_OBJECT + len(text)
        if self._size >= self._bytes_held:
            self._write()

    def accepts(self, text_bytes: int) -> bool:
        """See ``PublishedObjects.accepts``."""
        return self._limit is None or text_bytes <= self._limit

    def _read(self, associations: Sequence[str]) -> dict[str, str | None]:
        """Reads states from the files until their size is large; ``None`` if no file has the object."""
        states: dict[str, str | None] = {}
        size = 0
        for path, file in self._files:
            for rows in _read_many(path, file, associations):
                states.update(rows)
                size += sum([len(text) for _, text in rows])
                if size >= _BYTES_PREFETCHED:
                    return states
            associations = [name for name in associations if name not in states]
        return states | dict.fromkeys(associations)

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
            self._written.executemany(_PUT, sorted(self._new.items()))
        for name in self._new.keys() & self._prefetched.keys():
            del self._prefetched[name]
        self._new.clear()
        self._size = 0


@dataclass(frozen=True, slots=True)
class StatesOfSource:
    """The published states of one source whose documents have topics of their own."""

    states: PublishedObjects
    source: str

    def prefetch(self, associations: Collection[str]) -> None:
        """See ``PublishedObjects.prefetch``."""
        self.states.prefetch([name_in_source(name, self.source) for name in associations])

    def state_of(self, association: str) -> PublishedObject | None:
        """See ``PublishedObjects.state_of``."""
        return self.states.state_of(name_in_source(association, self.source))

    def put(self, association: str, state: PublishedObject | None) -> None:
        """See ``PublishedObjects.put``."""
        self.states.put(name_in_source(association, self.source), state)

    def accepts(self, text_bytes: int) -> bool:
        """See ``PublishedObjects.accepts``."""
        return self.states.accepts(text_bytes)


def name_in_source(association: str, source: str) -> str:
    """The name of an object whose source has topics of its own."""
    return f"{source}{_SEPARATOR}{association}"


def write_unknown(path: Path, associations: Iterable[str]) -> int:
    """Writes a file by which the states of these objects are unknown; returns the number of its rows."""
    with _explain_failure(path), closing(_create(path)) as file:
        file.executemany(_PUT, ((name, UNKNOWN.text) for name in associations))
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
        merged.execute("COMMIT")
        for path in files:
            _open_to_read(path).close()
            merged.execute("ATTACH ? AS older", (_address(path, _IMMUTABLE),))
            merged.execute("BEGIN")
            with _explain_damage(path):
                merged.execute(_MERGE)
            merged.execute("COMMIT")
            merged.execute("DETACH older")
        merged.execute("BEGIN")
        if is_oldest:
            merged.execute("DELETE FROM objects WHERE state = ?", (_REMOVED,))
        return _complete(merged)


def _create(path: Path) -> sqlite3.Connection:
    """Creates a file and begins a transaction."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
        file = _connect(path, _IMMUTABLE)
        file.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        raise _damage(path, error) from error
    return file


def _read_many(
    path: Path, file: sqlite3.Connection, associations: Sequence[str]
) -> Iterator[list[tuple[str, str]]]:
    """Reads the states that a file has of some objects, some at a time."""
    for start in range(0, len(associations), _OBJECTS_AT_ONCE):
        names = _JSON(associations[start : start + _OBJECTS_AT_ONCE])
        yield from _read(path, file, _READ_MANY, names)


def _read(
    path: Path, file: sqlite3.Connection, statement: str, *parameters: str
) -> Iterator[list[tuple[str, str]]]:
    try:
        cursor = file.execute(statement, parameters)
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield rows
    except sqlite3.Error as error:
        raise _damage(path, error) from error


def _connect(path: Path, parameters: str) -> sqlite3.Connection:
    address = _address(path, parameters)
    file = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    file.execute(f"PRAGMA cache_size = {_CACHE}")
    return file


def _address(path: Path, parameters: str) -> str:
    return f"file:{quote(str(path.absolute()))}?{parameters}"


@contextmanager
def _explain_damage(path: Path) -> Iterator[None]:
    """Raises ``FatalError`` if the content of a file that is read is damaged."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _damage(path, error) from error
        raise


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
