"""Connections to the user's database: lazy, limited in number, replaced after a loss."""

from __future__ import annotations

import codecs
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import ArgumentError, DBAPIError

from publisher.database import failures, urls
from publisher.database.connection_cache import ConnectionCache, EngineKey, current_cache
from publisher.database.lost_error import LostError
from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError, SettingProblem, SettingsError, UnreachableError
from publisher.extras import missing_extra
from publisher.redaction import redact as redact_text

T = TypeVar("T")


_POOL_TIMEOUT = 3600
"""Seconds that a thread waits for the connection that a look-up uses in another thread."""


class _NoFileError(sqlite3.OperationalError):
    """A SQLite file does not exist."""


class Database:
    """A database that can be sent to tasks: each process connects on first use."""

    def __init__(self, options: DatabaseOptions, *, writing: bool = False) -> None:
        """Connections are read-only unless ``writing``.  Raises ``SettingsError`` for a wrong URL."""
        self.options = options
        self.writing = writing
        self.url: URL = urls.complete(options.url, options.url_env)
        self._engine: Engine | None = None
        self._release: Callable[[], object] | None = None
        """Returns the engine to ``ConnectionCache``, or closes it; works once."""
        self.cache: dict[str, Any] = {}
        """Objects with the lifetime of this database, such as its catalogue; never sent to tasks."""

    def __repr__(self) -> str:
        return f"Database({self.name})"

    def __getstate__(self) -> dict[str, Any]:
        fresh: dict[str, Any] = {"_engine": None, "_release": None, "cache": {}}
        return {"options": self.options, "url": self.url, "writing": self.writing, **fresh}

    @property
    def name(self) -> str:
        """Kind of database, host and name, for messages: never user or password."""
        return urls.describe(self.url)

    @property
    def can_copy(self) -> bool:
        """True for PostgreSQL, whose tables can be copied (``publisher.database.copy``)."""
        return self.url.get_backend_name() == "postgresql"

    @property
    def engine(self) -> Engine:
        """The engine of this process."""
        if self._engine is None:
            cache, key = current_cache(), EngineKey(self.url, self.options, self.writing)
            engine = cache.take(key) if cache is not None else None
            try:
                engine = engine or _engine(self.url, self.options, self.writing)
            except (ArgumentError, ValueError) as error:
                raise self._wrong_options(error) from error
            # in case the caller does not close this object
            self._release = weakref.finalize(self, _release, cache, key, engine)
            self._engine = engine
        return self._engine

    def run(self, work: Callable[[Connection], T], *, is_query: bool = False) -> T:
        """Runs ``work`` on a connection, and again from its start if the connection is lost.

        If ``work`` is one query (``is_query``), PostgreSQL answers it without the round trips of a
        transaction.

        Raises ``UnreachableError`` after the last attempt, and SQLAlchemy's other errors.
        """
        pause = self.options.backoff
        for last in [False] * self.options.retries + [True]:
            try:
                with self.connect() as connection:
                    return work(_without_transaction(connection) if is_query else connection)
            except LostError as lost:
                if last:
                    raise self.unreachable(str(lost)) from lost
            time.sleep(pause)
            pause *= 2
        raise AssertionError

    def stream(
        self, work: Callable[[Connection], Iterator[T]], *, is_query: bool = False
    ) -> Iterator[T]:
        """Yields the items of ``work``; restarts it if the connection is lost before the first item.

        For ``is_query`` see ``run``.

        Raises ``UnreachableError`` like ``run``, and also if the connection is lost later.
        """
        pause = self.options.backoff
        has_items = False
        for last in [False] * self.options.retries + [True]:
            try:
                with self.connect() as connection:
                    for item in work(_without_transaction(connection) if is_query else connection):
                        has_items = True
                        yield item
            except LostError as lost:
                if last or has_items:
                    raise self.unreachable(str(lost)) from lost
            else:
                return
            time.sleep(pause)
            pause *= 2

    def separate(self) -> Database:
        """Copies this object; the copy has its own connections."""
        copy = Database.__new__(Database)
        copy.__dict__.update(self.__getstate__())
        return copy

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Opens a connection, without further attempts.

        Raises:
            LostError: The connection fails or is lost.
            FatalError: The server refuses the login, or the SQLite file does not exist.
        """
        try:
            connection = self.engine.connect()
        except DBAPIError as error:
            problem = self.connection_error(error)
            if isinstance(problem, LostError):
                self._disconnect()
            raise problem from error
        except (TypeError, ValueError, FileNotFoundError, PermissionError) as error:
            raise self._wrong_options(error) from error
        try:
            yield connection
        except LostError:
            self._disconnect()
            raise
        except DBAPIError as error:
            if not failures.is_lost(error):
                raise
            connection.invalidate()  # closes it if it is still open
            self._disconnect()
            raise LostError(self.redact(error)) from error
        finally:
            _close(connection)

    def connection_error(self, error: DBAPIError) -> FatalError | LostError:
        """Returns the error of a connection that failed: fatal if another attempt must not be made."""
        if isinstance(error.orig, _NoFileError):
            return FatalError(
                f"{self.name} does not exist: check the path in the URL of the database"
            )
        if failures.is_refusal(error):  # further attempts could lock the account
            advice = failures.refusal_advice(error)
            return FatalError(f"{self.name} refuses the login ({self.redact(error)}): {advice}")
        if failures.is_wrong_option(error):
            return self._wrong_options(error)
        return LostError(self.redact(error))

    def _disconnect(self) -> None:
        """Closes all connections to a server that has ended one of them: the others are probably lost."""
        self.engine.dispose()
        cache = current_cache()
        if cache is not None:
            cache.disconnect(self.url)

    def _wrong_options(self, error: Exception) -> FatalError:
        """Returns the error of options that a driver refuses without contacting the server."""
        return FatalError(
            f"{self.name}: its driver refuses the URL ({self.redact(error)}): correct the options "
            "after the question mark in the URL"
        )

    def unreachable(self, reason: str) -> UnreachableError:
        """Returns the error of a database that cannot be reached, or does not answer for another reason."""
        cause = failures.busy_cause(reason)
        if cause is not None:
            return UnreachableError(f"{self.name} {cause[0]} ({reason}): {cause[1]}")
        advice = "check that it runs, and host and port in its URL"
        if failures.is_unknown_host(reason):
            advice = "check the host in its URL, and the name service of this machine"
        return UnreachableError(f"{self.name} cannot be reached ({reason}): {advice}")

    def redact(self, error: Exception) -> str:
        """Returns the driver's message in one line, without statement, parameters and secrets."""
        return redact_text(failures.message_of(error), urls.secrets_of(self.url))

    def check_reachable(self) -> None:
        """Checks that the database answers; writes nothing.

        Raises ``UnreachableError``, and ``FatalError`` if the file or server is not a database.
        """
        # SQLite answers SELECT 1 without reading its file
        sqlite = self.url.get_backend_name() == "sqlite"
        statement = "PRAGMA schema_version" if sqlite else "SELECT 1"
        with fatal_errors(self, "A test statement"):
            self.run(lambda connection: connection.exec_driver_sql(statement).scalar())

    def close(self) -> None:
        """Closes the connections, or leaves them to ``keep_connections``; a later use opens others."""
        if self._release is not None:
            self._release()
        self._engine = self._release = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _release(cache: ConnectionCache | None, key: EngineKey, engine: Engine) -> None:
    if cache is None:
        engine.dispose()
    else:
        cache.give_back(key, engine)


def _without_transaction(connection: Connection) -> Connection:
    if connection.dialect.name == "postgresql":
        connection.execution_options(isolation_level="AUTOCOMMIT")
    return connection


def _close(connection: Connection) -> None:
    """Closes a connection; one whose server is gone may be closed already."""
    try:
        connection.close()
    except DBAPIError as error:
        if not failures.is_lost(error):
            raise
        connection.engine.dispose()


def _engine(url: URL, options: DatabaseOptions, writing: bool) -> Engine:
    kind, timeout = url.get_backend_name(), options.connect_timeout
    arguments: dict[str, Any] = {"connect_args": {"connect_timeout": timeout}}
    if kind == "sqlite":
        # SQLite itself would create a missing file
        path = url.database or ""
        arguments = {"creator": lambda: _open_sqlite(path, timeout, writing)}
    elif kind == "postgresql":
        # prepared statements do not work through a connection pooler
        arguments["connect_args"] |= {
            "application_name": "xds-publisher",
            "prepare_threshold": None,
        }
    else:
        arguments["connect_args"] |= {"charset": "utf8mb4"}
    try:
        engine = create_engine(
            url,
            hide_parameters=True,  # they are personal data, which no message or log may show
            poolclass=QueuePool,
            pool_size=1,
            max_overflow=0,
            pool_timeout=_POOL_TIMEOUT,
            **arguments,
        )
    except ImportError as error:
        text = (
            missing_extra(error) or f"the driver of {kind} is not installed ({error}): install it"
        )
        raise SettingsError([SettingProblem(("database", "url"), text)]) from None
    if kind == "postgresql":
        event.listen(engine, "connect", partial(_set_text_forms, writing=writing))
    elif kind != "sqlite":
        event.listen(engine, "do_connect", partial(_connect_to_mariadb, writing=writing))
    return engine


def _connect_to_mariadb(
    _dialect: object,
    _record: object,
    values: Sequence[Any],
    arguments: Mapping[str, Any],
    *,
    writing: bool,
) -> Any:
    from publisher.database.mariadb_connection import (  # noqa: PLC0415 - few jobs need PyMySQL
        MariadbConnection,
    )

    connection = MariadbConnection(*values, **arguments)
    _set_session(connection, writing)  # before SQLAlchemy asks how names are quoted
    return connection


TEXT_SETTINGS = (
    "standard_conforming_strings TO on",
    "timezone TO 'UTC'",
    "datestyle TO 'ISO, YMD'",
    "intervalstyle TO 'postgres'",
    "bytea_output TO 'hex'",
    "extra_float_digits TO 1",
    "lc_monetary TO 'C'",
)
"""Settings of PostgreSQL with which values have one text: triggers log them, and sessions read them, so."""
_SESSION_SETTINGS = ("client_encoding TO 'UTF8'", "quote_all_identifiers TO off", *TEXT_SETTINGS)


def _set_text_forms(connection: Any, _record: object, *, writing: bool) -> None:
    """Makes the text of values independent of the settings of the user, the database and the server."""
    with connection.cursor() as cursor:
        cursor.execute("; ".join(f"SET {setting}" for setting in _SESSION_SETTINGS))
    connection.commit()
    connection.read_only = not writing


def _set_session(connection: Any, writing: bool) -> None:
    """Makes the text of values, and the number of rows, independent of the settings of the server."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SET NAMES utf8mb4, SESSION time_zone = '+00:00', SESSION sql_select_limit = 18446744073709551615"
        )
        if not writing:
            cursor.execute("SET SESSION sql_mode = ''")
            cursor.execute("SET SESSION TRANSACTION READ ONLY")


def _open_sqlite(path: str, timeout: int, writing: bool) -> sqlite3.Connection:
    if not Path(path).is_file():
        raise _NoFileError("the file does not exist")
    mode = "rw" if writing else "ro"
    connection = sqlite3.connect(
        f"file:{quote(path)}?mode={mode}", uri=True, timeout=timeout, check_same_thread=False
    )
    # one value that is not UTF-8 would end the query: XML forbids U+FFFF, so it is rejected
    connection.text_factory = partial(str, encoding="utf-8", errors="xds-not-utf-8")
    return connection


codecs.register_error("xds-not-utf-8", lambda error: ("\uffff", error.end))  # type: ignore[attr-defined]


def begin_snapshot(connection: Connection) -> None:
    """Makes all statements of a new connection read the data of one moment."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN")  # the driver itself begins no transaction to read
    else:
        connection.execution_options(isolation_level="REPEATABLE READ")


def fatal(database: Database, error: Exception, action: str) -> FatalError:
    """Returns the error of a failed action that the operator has to fix."""
    advice = "fix the database or the permissions of its user"
    text = database.redact(error)
    path = database.url.database or ""
    if database.url.get_backend_name() == "sqlite" and failures.is_unreadable_wal(text, path):
        folder = Path(path).absolute().parent
        advice = (
            f"a database in WAL mode needs its -wal and -shm files, also to be read: allow this user to write"
            f" into the directory {folder}, or set PRAGMA journal_mode = DELETE"
        )
    return FatalError(f"{action} failed on {database.name}: {text}: {advice}, then start again")


@contextmanager
def fatal_errors(database: Database, action: str) -> Iterator[None]:
    """Turns the errors of statements inside the context into ``FatalError``."""
    try:
        yield
    except DBAPIError as error:
        raise fatal(database, error, action) from error
