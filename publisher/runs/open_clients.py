"""Connections that a job needs soon, opened while its sink answers."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from publisher.config.settings import Settings
from publisher.database.connection import Database, LostError


def open_clients(settings: Settings) -> None:
    """Imports the clients of sink and databases, and connects to the databases of the job's tables.

    The connections are left to the current cache.  A database that does not answer is tried again when it is
    used.

    Raises:
        SettingsError: The URL of a database is wrong.
        FatalError: A database refuses the login.
    """
    if settings.sink.to == "kafka":
        import_module("publisher.dispatch.kafka.dispatcher")
    for options in {each.database for each in settings.sources if each.table is not None}:
        if options is not None:
            with suppress(LostError), Database(options) as database, database.connect():
                pass
