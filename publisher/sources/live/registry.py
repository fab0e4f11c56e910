"""Sources that are tables of a database, by the name of their format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from publisher.database import DatabaseOptions
from publisher.errors import InternalError
from publisher.sources.change_table.backlog import ChangeTableBacklog
from publisher.sources.change_table.carry_over import Mark, read_marks
from publisher.sources.change_table.live_table import LiveChangeTable
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.contract import LiveSource
from publisher.sources.event_log.backlog import Waiting, WaitingRows
from publisher.sources.event_log.live_table import EventLogTable
from publisher.sources.event_log.source import Options as EventLogOptions
from publisher.sources.live.table_reader import TextOf

_LIVE: Mapping[str, Callable[[Any, DatabaseOptions, str, TextOf], LiveSource]] = {
    "event-log": EventLogTable,
    "change-table": LiveChangeTable,
}
FROM_TABLES = frozenset(_LIVE)
"""Formats that are also read from a table of a database."""

WITH_STATUS = frozenset({"event-log"})
"""Those of them whose rows say what became of them; how far the others were read, marks say."""


def live_source(
    format_: str, options: object, database: DatabaseOptions, table: str, text_of: TextOf
) -> LiveSource:
    """The source of a format that reads a table."""
    return _LIVE[format_](options, database, table, text_of)


class TableBacklog:
    """How much of a table waits to be read, asked again and again by the same connection."""

    def __init__(self, database: DatabaseOptions, table: str, options: object) -> None:
        """Raises ``SettingsError`` where the database's URL cannot be used."""
        self._table = table
        self._log: WaitingRows | None = None
        self._changes: ChangeTableBacklog | None = None
        if isinstance(options, ChangeTableOptions):
            self._changes = ChangeTableBacklog(database, table, options)
        elif isinstance(options, EventLogOptions):
            self._log = WaitingRows(database, table, options)
        else:
            raise InternalError(f"{type(options).__name__} is of no live source: report this")

    def now(self, state: Path | None) -> Waiting:
        """What a reading that begins now would find after what the last run has left.

        Raises:
            FatalError: The table does not fit, the state is damaged, or the database refuses.
            UnreachableError: The database does not answer.
        """
        if self._changes is not None:
            return self._changes.after(read_marks(state).get(self._table, Mark()))
        assert self._log is not None
        return self._log.now()

    def by_status(self) -> dict[str, int]:
        """All rows by their status, of a table whose rows have one; see ``WaitingRows``."""
        return self._log.by_status() if self._log is not None else {}

    def close(self) -> None:
        """Gives the connection back; a later use makes a new one."""
        for rows in (self._log, self._changes):
            if rows is not None:
                rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
