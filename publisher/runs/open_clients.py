"""Connections and tables that a job needs soon, opened and looked up while its sink answers."""

# ruff: noqa: PLC0415 - the thread imports what it needs while the sink answers

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from importlib import import_module
from threading import Thread

from publisher.config.settings import Settings
from publisher.errors import PublisherError


class ClientOpener:
    """Opens clients in a thread.  A failed command ends without it, because a database that does not answer
    takes as long as its timeout."""

    def __init__(self, settings: Settings) -> None:
        self._error: PublisherError | None = None
        run = copy_context().run  # with the connection cache of this thread
        self._thread = Thread(target=run, args=(self._open, settings), name="clients", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Waits until the clients are open; raises as ``open_clients``."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _open(self, settings: Settings) -> None:
        try:
            open_clients(settings)
        except PublisherError as error:
            self._error = error


def open_clients(settings: Settings) -> None:
    """Imports the clients of sink and databases, connects to the databases of the job's tables, and reads the
    definitions of these tables.

    Connections and definitions are left to the current cache.  A database that does not answer is tried again
    when it is used, and then a table that cannot be read is reported.

    Raises:
        SettingsError: The URL of a database is wrong.
        FatalError: A database refuses the login.
    """
    from publisher.database.connection import Database, LostError
    from publisher.sources.live.find_table import LiveTable, relation_of

    if settings.sink.to == "kafka":
        import_module("publisher.dispatch.kafka.dispatcher")
    tables = {(each.database, each.table) for each in settings.sources}
    for options, table in tables:
        if options is not None and table is not None:
            with suppress(LostError), Database(options) as database:
                with database.connect():
                    pass
                with suppress(PublisherError):
                    relation_of(database, LiveTable(table))
