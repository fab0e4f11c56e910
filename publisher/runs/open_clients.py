"""Connections and tables that a job needs soon, opened and looked up while its sink answers."""

# ruff: noqa: PLC0415 - the thread imports what it needs while the sink answers

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from importlib import import_module
from threading import Thread

from publisher.config.settings import Settings, SourceSettings
from publisher.database.lost_error import LostError
from publisher.database.options import DatabaseOptions
from publisher.errors import PublisherError


class ClientOpener:
    """Opens clients in a thread.  A failed command ends without it, because a database that does not answer
    takes as long as its timeout."""

    def __init__(self, settings: Settings) -> None:
        self._error: PublisherError | None = None
        self._is_idle = False
        if settings.sink.to == "kafka":
            import_module("confluent_kafka")  # two threads that miss it get different errors
        run = copy_context().run  # with the connection cache of this thread
        self._thread = Thread(target=run, args=(self._open, settings), name="clients", daemon=True)
        self._thread.start()

    def wait(self) -> bool:
        """Waits until the clients are open; returns and raises as ``open_clients``."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._is_idle

    def _open(self, settings: Settings) -> None:
        try:
            self._is_idle = open_clients(settings)
        except PublisherError as error:
            self._error = error


def open_clients(settings: Settings) -> bool:
    """Imports the clients of sink and databases, connects to the databases of the job's tables, and reads the
    definitions of these tables.

    Returns true without all this if the job has surely nothing to publish.  Connections and definitions are
    left to the current cache.  A database that does not answer is tried again when it is used, and then a
    table that cannot be read is reported.

    Raises:
        SettingsError: The URL of a database is wrong.
        FatalError: A database refuses the login.
    """
    if settings.sink.to == "kafka":
        import_module("publisher.dispatch.kafka.dispatcher")
    with suppress(LostError):
        estimates = [*map(_estimate_rows, settings.sources)]
        if all(rows == 0 for rows in estimates):
            return True
        for database, table in {(each.database, each.table) for each in settings.sources}:
            if database is not None and table is not None:
                _find_table(database, table)
    return False


def _estimate_rows(source: SourceSettings) -> int | None:
    """Estimates the rows that a source has to read; ``None`` if only its backlog can tell."""
    live = source.descriptor.live
    if source.database is None or source.table is None or live is None:
        return None
    if live.estimate_rows is None:
        return None
    return live.estimate_rows(source.options, source.database, source.table)


def _find_table(options: DatabaseOptions, table: str) -> None:
    from publisher.database.connection import Database
    from publisher.sources.live.find_table import LiveTable, relation_of

    with Database(options) as database:
        with database.connect():
            pass
        with suppress(PublisherError):
            relation_of(database, LiveTable(table))
