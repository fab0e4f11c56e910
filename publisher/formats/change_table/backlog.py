"""Counts the waiting rows of a change table, and determines the age of the oldest."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from publisher.database.connection import Database, fatal_errors
from publisher.database.identity import TableOrigin, identity_of
from publisher.database.options import DatabaseOptions
from publisher.formats.change_table.carry_over import Mark, read_marks
from publisher.formats.change_table.extent import ExtentFinder
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.statements import Query, statements_of
from publisher.formats.live.find_table import LiveTable
from publisher.formats.waiting_rows import WaitingRows


class ChangeTableBacklog:
    """Counts the rows of one change table after the mark of the last run.

    Rows without a change_seq are not counted: a run finds them while it reads the other rows.
    """

    def __init__(self, options: ChangeTableOptions, database: DatabaseOptions, table: str) -> None:
        """Raises ``SettingsError`` if the URL of the database cannot be used."""
        self._database = Database(database)
        self._live = LiveTable(table, sorted_by=f"{options.prefix}change_seq")
        self._options = options

    def count(self, state: Path | None) -> WaitingRows:
        """As ``TableBacklog.count``."""
        return self.count_after(read_marks(state).get(self._live.name, Mark()))

    def count_after(self, mark: Mark) -> WaitingRows:
        """Counts the rows after ``mark`` that a run would read, and the late rows before ``mark``.

        Rows that wait for their partner are not counted.  An index on change_seq makes the statements fast.
        The age of the oldest row is the time from its change_seq (UTC) to the clock of this machine.

        Raises ``FatalError`` if a statement fails, or if the mark belongs to another table.
        """
        statements = statements_of(self._database, self._live, self._options)
        identity = identity_of(self._database, statements.relation)
        now = TableOrigin(identity, self._database.name)
        mark.check_table(f"table {self._live.name}", now)

        def count(connection: Connection) -> tuple[int, str | None]:
            def ask(statement: Query) -> Sequence[Sequence[Any]]:
                return connection.execute(statement).all()

            finder = ExtentFinder(self._live.name, statements, ask, self._options)
            return finder.count_pending(mark, int(time.time() * 1_000_000))

        with fatal_errors(self._database, f"Counting the new rows of table {self._live.name}"):
            rows, oldest_seq = self._database.run(count)
        oldest_time = None if oldest_seq is None or not rows else _seconds(oldest_seq)
        return WaitingRows(
            rows, None if oldest_time is None else max(0.0, time.time() - oldest_time)
        )

    def count_by_status(self) -> dict[str, int]:
        """Returns nothing: rows of change tables have no status."""
        return {}

    def close(self) -> None:
        """Closes the connection; a later use opens a new one."""
        self._database.close()


def _seconds(change_seq: str) -> float | None:
    """Returns the time part in seconds since 1970-01-01 UTC; ``None`` if it is not a time."""
    try:
        moment = datetime.strptime(change_seq[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + int(change_seq[14:16]) / 100
