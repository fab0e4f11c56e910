"""The file of a ledger: opened once for each thread, changed in transactions, refused with words.

SQLite in WAL mode syncs each commit, so a ledger has either all of a transaction or nothing.  On a disk
without shared memory it uses a rollback journal instead.
"""

from __future__ import annotations

import atexit
import errno
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from publisher import __version__
from publisher.errors import FatalError
from publisher.ledger.durable import sync

LEDGER = "ledger.db"
"""The file of a ledger, in the folder of a job, or of a replay."""
HOURS = "hours"
"""Folder of the files of hours, beside it."""
LEDGER_FORMAT = 1
_APPLICATION = 0x58445350
_SECONDS_TO_WAIT = 30.0
"""For another program's transaction."""
_MOST_OPEN = 8
_MOVE_AWAY = (
    "restore it; or move the directory away once its runs are finished, and start again (for Kafka with "
    "`xds-publisher recover -c JOB.toml`)"
)
_NOT_OURS = frozenset(
    {"lock", "follow.lock", *(f"{LEDGER}{end}" for end in ("", "-wal", "-shm", "-journal"))}
)
"""Files that may exist in a folder before its ledger has tables."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_LOCK_ERRORS = frozenset(
    {sqlite3.SQLITE_IOERR_LOCK, sqlite3.SQLITE_IOERR_RDLOCK, sqlite3.SQLITE_IOERR_UNLOCK}
    | {sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS}
)
_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
"""The errors of the operating system behind those of SQLite."""
_SCHEMA = Path(__file__).with_name("schema.sql")
_CHECKED = ("job", "source", "state", "published_file", "file", "hour")
"""Tables without which a job would publish twice, or leave something out."""


class _OpenLedgers(threading.local):
    """The connections of a thread by file; SQLite must not be used after a fork, nor by two threads."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.connections: dict[tuple[str, int, int], sqlite3.Connection] = {}
        self.inherited: list[object] = []
        """Connections of a process that this one was forked from: to close them would release its locks."""

    def of(self, path: Path) -> sqlite3.Connection | None:
        """The connection to the present file; ``None`` without one, or if its creation was killed."""
        if self.process != os.getpid():
            self.inherited.append(self.connections)
            self.process, self.connections = os.getpid(), {}
        try:
            stat = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        key = (str(path), stat.st_dev, stat.st_ino)
        connection = self.connections.pop(key, None)
        if connection is None:
            while len(self.connections) >= _MOST_OPEN:
                self.connections.pop(next(iter(self.connections))).close()
            opened = _open(path)
            if opened is None:
                return None
            connection = opened
        self.connections[key] = connection
        return connection

    def close(self, folder: Path | None = None) -> None:
        """Closes the connections of this thread to a folder's ledger, or all; the last one to a file moves
        its log of changes into it."""
        if self.process != os.getpid():
            return
        for key in [
            key for key in self.connections if folder is None or Path(key[0]).parent == folder
        ]:
            self.connections.pop(key).close()


_LEDGERS = _OpenLedgers()
atexit.register(_LEDGERS.close)


def exists(folder: Path) -> bool:
    """Returns whether a folder has a ledger.

    Raises:
        FatalError: The folder has other files of this program, but no ledger.
    """
    path = folder / LEDGER
    with explain(path):
        if _LEDGERS.of(path) is not None:
            return True
    if folder.is_dir() and {entry.name for entry in folder.iterdir()} - _NOT_OURS:
        raise FatalError(
            f"{path} is missing: {folder} was written by an earlier version of this program, or "
            f"its files were changed by another program; {_MOVE_AWAY}"
        )
    return False


def create(folder: Path, values: dict[str, object]) -> None:
    """Creates the ledger of a folder, unless there is one, with these values of the job.

    Raises:
        OSError: The disk is full, or refuses.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / LEDGER
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    connection = _connect(path, "mode=rw")
    try:
        with explain(path):
            _set_up(connection)
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if not version:
                for statement in _SCHEMA.read_text("utf-8").split(";\n"):
                    connection.execute(statement)
                named = {"program": f"xds-publisher {__version__}", **values}
                connection.executemany("INSERT INTO job VALUES (?, ?)", named.items())
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {LEDGER_FORMAT}")
            connection.execute("COMMIT")
    finally:
        connection.close()
    sync([folder, folder.parent, folder.parent.parent])


def query(folder: Path, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
    """Reads rows; none if the folder has no ledger.

    Raises:
        FatalError: The ledger is damaged, or of another version of the program.
    """
    path = folder / LEDGER
    with explain(path):
        connection = _LEDGERS.of(path)
        if connection is None:
            exists(folder)
            return []
        return connection.execute(statement, parameters).fetchall()


@contextmanager
def transaction(folder: Path) -> Iterator[sqlite3.Connection]:
    """Changes a ledger: all or nothing.

    Raises:
        FatalError: The ledger is missing, damaged, or of another version of the program.
        OSError: The disk is full, or refuses.
    """
    path = folder / LEDGER
    with explain(path):
        connection = _LEDGERS.of(path)
        if connection is None:
            raise FatalError(f"{path} is missing: {_MOVE_AWAY}")
        if connection.in_transaction:
            yield connection  # a part of the transaction around it
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def close(folder: Path) -> None:
    """Closes the ledger of a folder in this thread."""
    _LEDGERS.close(folder)


def check(folder: Path) -> None:
    """Reads the tables without which a job would publish twice.

    Raises:
        FatalError: The ledger is damaged, or of another version of the program.
    """
    path = folder / LEDGER
    pages = query(folder, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    if pages and pages[0][0] > path.stat().st_size + _wal_size(path):
        raise _damage(path, "it was cut")
    for table in _CHECKED:
        for (problem,) in query(folder, f"PRAGMA quick_check({table})"):
            if problem != "ok":
                raise _damage(path, problem)


def probe_disk(folder: Path) -> str:
    """The journal mode of a ledger on the disk of a folder: ``wal``, or ``delete`` without shared memory.

    Creates a ledger and removes it.

    Raises:
        FatalError: The disk has no locks.
        OSError: The disk is full, or refuses.
    """
    with TemporaryDirectory(prefix=".xds-publisher-", dir=folder) as name:
        path = Path(name) / LEDGER
        with explain(path), closing(_connect(path, "mode=rwc")) as connection:
            _set_up(connection)
            connection.execute("CREATE TABLE probe (x)")
            return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def version_of_data(folder: Path) -> int:
    """A number that changes whenever another program has changed the ledger."""
    rows = query(folder, "PRAGMA data_version")
    return int(rows[0][0]) if rows else 0


@contextmanager
def explain(path: Path) -> Iterator[None]:
    """Turns the errors of SQLite into those of this program."""
    try:
        yield
    except sqlite3.Error as error:
        detail = getattr(error, "sqlite_errorcode", 0)
        code = detail & 0xFF
        if detail in _LOCK_ERRORS:
            raise FatalError(
                f"{path} cannot be locked ({error}): its disk has no file locks; set `path` in [ledger] to a "
                "disk of this machine"
            ) from error
        if code in _DAMAGED:
            raise _damage(path, str(error)) from error
        if code == sqlite3.SQLITE_BUSY:
            raise FatalError(
                f"{path} is locked by another program for {_SECONDS_TO_WAIT:g} s: end that, then start again"
            ) from error
        number = _ERRORS.get(code, errno.EIO)
        raise OSError(number, os.strerror(number), str(path)) from error


def _wal_size(path: Path) -> int:
    wal = path.with_name(f"{path.name}-wal")
    return wal.stat().st_size if wal.exists() else 0


def _open(path: Path) -> sqlite3.Connection | None:
    """Opens a ledger, to write where that is possible, else to read; ``None`` if it has no tables."""
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    if writable:
        connection = _connect(path, "mode=rw")
    else:
        # without a log of changes nobody writes, and no shared memory is needed
        connection = _connect(path, "mode=ro" if _wal_size(path) else "mode=ro&immutable=1")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == LEDGER_FORMAT:
            if writable:
                _set_up(connection)
            return connection
    except BaseException:
        connection.close()
        raise
    programs = connection.execute("SELECT value FROM job WHERE name = 'program'") if version else ()
    program = next((f"{name}, which wrote it" for (name,) in programs), "the version that wrote it")
    connection.close()
    if not version:
        return None
    raise FatalError(
        f"{path} has format {version}, this program reads format {LEDGER_FORMAT}: use {program}; "
        f"or {_MOVE_AWAY}"
    )


def _connect(path: Path, parameters: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?{parameters}"
    return sqlite3.connect(
        address, uri=True, timeout=_SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False
    )


def _set_up(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError:  # no shared memory
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = FAST")  # rows have personal data


def _damage(path: Path, problem: str) -> FatalError:
    return FatalError(f"{path} is damaged ({problem}): {_MOVE_AWAY}")
