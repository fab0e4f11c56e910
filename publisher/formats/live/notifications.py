"""Notifications of PostgreSQL: a table wakes the program when it has new rows.

``xds-publisher ddl --notify`` gives an event log a trigger that notifies a channel; the argument of the
trigger is the name of the channel.  A notification only ends a wait early: a lost notification costs the
rest of the wait.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher.database.catalogue import Relation
from publisher.database.connection import Database
from publisher.database.lost_error import LostError
from publisher.database.named_sql import catalogue_query
from publisher.database.options import DatabaseOptions
from publisher.errors import PublisherError
from publisher.formats.live.find_table import LiveTable, relation_of
from publisher.stop_request import StopRequest

_STEP = 0.05
"""Seconds after which a waiting thread checks whether the program should stop."""
_NEXT_LOOK = 60.0
"""Seconds after which a table without the trigger is checked again."""
_NEXT_ATTEMPT = 1.0
"""Seconds after which a lost connection is opened again."""


class Listener:
    """Listens to one table, on a connection of its own."""

    def __init__(self, options: DatabaseOptions, table: str) -> None:
        """Raises ``SettingsError`` for a wrong URL."""
        self._database = Database(replace(options, retries=0))
        self._table = LiveTable(table)
        self._connection: Connection | None = None
        self._next_attempt = 0.0

    @property
    def can_listen(self) -> bool:
        """True for PostgreSQL."""
        return self._database.can_copy

    @property
    def is_listening(self) -> bool:
        """True while the table ends waits."""
        return self._connection is not None

    @property
    def next_attempt(self) -> float:
        """Seconds until ``connect`` tries again."""
        return max(0.0, self._next_attempt - time.monotonic())

    def fileno(self) -> int:
        """The socket of the connection."""
        return int(self._driver.fileno())

    def connect(self) -> bool:
        """Begins to listen, unless it listens or has tried a moment ago; returns whether it has begun.

        A database that does not answer is no error here: the next poll meets and reports it.
        """
        if self.is_listening or time.monotonic() < self._next_attempt:
            return False
        channel, pause = None, _NEXT_ATTEMPT
        try:
            relation = relation_of(self._database, self._table)
            channel = self._database.run(partial(_find_channel, relation))
            if channel is None:
                pause = _NEXT_LOOK
            else:
                self._connection = _listen(self._database, channel)
        except (PublisherError, LostError, DBAPIError):
            self.close()
        self._next_attempt = time.monotonic() + pause
        return self.is_listening

    def take(self) -> bool:
        """Takes the notifications that have come.

        Returns whether there were any, or whether the connection is lost.
        """
        has_come = False
        try:
            self._driver.pgconn.consume_input()
            while self._driver.pgconn.notifies() is not None:
                has_come = True
        except self._database.engine.dialect.loaded_dbapi.Error:
            self.close()
            return True
        return has_come

    def close(self) -> None:
        """Ends listening."""
        if self._connection is not None:
            self._connection.invalidate()  # the next user of the connection must not be notified
            self._connection.close()
            self._connection = None
        self._database.close()

    @property
    def _driver(self) -> Any:
        assert self._connection is not None
        return self._connection.connection.driver_connection


def _find_channel(relation: Relation, connection: Connection) -> str | None:
    names = {"schema": relation.schema, "name": relation.table.name}
    query = catalogue_query("postgresql", "channel")
    assert query is not None
    channel = connection.execute(query, names).scalar()
    return None if channel is None else str(channel)


def _listen(database: Database, channel: str) -> Connection:
    connection = database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    name = connection.dialect.identifier_preparer.quote_identifier(channel)  # doubles %
    connection.exec_driver_sql(f"LISTEN {name}")
    return connection


class Notifications:
    """Waits for new rows of tables; a context manager that closes its connections."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self._listeners = [listener for listener in listeners if listener.can_listen]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for listener in self._listeners:
            listener.close()

    def has_come(self) -> bool:
        """Takes the notifications that have come, without waiting; returns whether there were any."""
        return self._take([each for each in self._listeners if each.is_listening], 0.0)

    def wait(self, seconds: float, stop: StopRequest) -> None:
        """Waits until a table has new rows, ``stop`` is set, or the time is over.

        The wait also ends when a connection begins or is lost: rows may have come while nothing listened.
        """
        if not self._listeners:
            stop.wait(seconds)
            return
        deadline = time.monotonic() + seconds
        while not stop.is_set() and not stop.has_work():
            begun = [listener.connect() for listener in self._listeners]
            active = [listener for listener in self._listeners if listener.is_listening]
            remaining = deadline - time.monotonic()
            if remaining <= 0 or any(begun):
                return
            if not active:
                pause = min(each.next_attempt for each in self._listeners)
                stop.wait(min(remaining, pause))
                if remaining <= pause:
                    return
                continue
            if self._take(active, min(remaining, _STEP)):
                return

    @staticmethod
    def _take(active: Sequence[Listener], seconds: float) -> bool:
        ready, _, _ = select.select(active, (), (), seconds) if active else ((), (), ())
        return any(list(map(Listener.take, ready)))
