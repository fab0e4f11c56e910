"""How much of a change table waits to be read: rows behind the mark, and the age of the oldest."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Select, func, select
from sqlalchemy.exc import DBAPIError

from publisher.database import Database, DatabaseOptions
from publisher.database.connection import fatal
from publisher.database.spans import newer, value_of
from publisher.database.statements import sql_table_of
from publisher.sources import tables
from publisher.sources.change_table.marks import FORM
from publisher.sources.change_table.options import Options
from publisher.sources.tables import LiveTable, relation_of
from publisher.sources.waiting import Waiting


class WaitingChanges:
    """Counts the new rows of one change table, again and again by the same connection.

    Rows without a change_seq are found when others are read.
    """

    def __init__(self, database: DatabaseOptions, table: str, options: Options) -> None:
        """Raises ``SettingsError`` where the database's URL cannot be used."""
        self._database = Database(database)
        self._live = LiveTable(table, sorted_by=f"{options.prefix}change_seq")

    def after(self, change_seq: str | None) -> Waiting:
        """Rows behind a mark, by one statement, which an index on change_seq makes quick; their age is
        that of their change_seq, which has UTC, by the clock of this machine.

        Raises:
            FatalError: The table does not fit, or the database refuses.
            UnreachableError: The database does not answer.
        """
        asked = self._statement(change_seq)

        def ask(connection: Connection) -> tuple[int, str | None]:
            rows, least = connection.execute(asked).one()
            return int(rows), None if least is None else str(least)

        try:
            rows, least = self._database.run(ask)
        except DBAPIError as error:
            doing = f"Counting the new rows of table {self._live.name}"
            raise fatal(self._database, error, doing) from error
        made = None if least is None else _seconds(least)
        return Waiting(rows, None if made is None else max(0.0, time.time() - made))

    def close(self) -> None:
        """Gives the connection back; a later use makes a new one."""
        self._database.close()

    def _statement(self, change_seq: str | None) -> Select[int, Any]:
        relation = relation_of(self._database, self._live)
        name = tables.sorting(self._database, self._live)
        asked = select(func.count(), func.min(value_of(relation, name)))
        asked = asked.select_from(sql_table_of(relation))
        return asked.where(newer(relation, name, FORM, change_seq))


def _seconds(change_seq: str) -> float | None:
    """The time part, in seconds since 1970-01-01 UTC; ``None`` where it is no time."""
    try:
        moment = datetime.strptime(change_seq[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + int(change_seq[14:16]) / 100
