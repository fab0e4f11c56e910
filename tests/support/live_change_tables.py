"""A change table in SQLite that is read run after run, as a job reads it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from publisher.database.options import DatabaseOptions
from publisher.formats.change_table.backlog import ChangeTableBacklog
from publisher.formats.change_table.carry_over import Mark, read_marks
from publisher.formats.change_table.live_table import LiveChangeTable
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.contract import CarryOver
from publisher.formats.live.table_split import DatabaseTable, TableSplit
from publisher.model.change import TALLY
from publisher.xds.values import text_of
from tests.support.change_table_files import CONTEXT, options, seq
from tests.support.event_log_files import Row
from tests.support.prepare import prepare_here

SECOND = 1_000_000
Record = tuple[int | str | None, str, int] | tuple[int | str | None, str, int, str]
"""Change number (or change_seq), operation, key; and the name, by default ``n``."""
MASKS = {"I": "18", "U": "10", "D": "08", "B": ""}


class ColumnedTable:
    """The table, and the state that its runs leave."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self._folder = folder
        self._path = folder / "ct.db"
        self.options = DatabaseOptions(url=f"sqlite:///{self._path}")
        self._settings: ChangeTableOptions = options(header_columns=3, mask_order="msb", **settings)
        self._runs = 0
        self.clock = 0
        """In seconds."""
        self.notes: tuple[str, ...] = ()
        self._execute(
            "CREATE TABLE ct (header__change_seq VARCHAR(35), header__change_oper VARCHAR(1),"
            " header__change_mask VARCHAR(8), idu INTEGER, fname VARCHAR(9))"
        )

    def add(self, *records: Record) -> None:
        """Inserts records."""
        for number, operation, key, *name in records:
            text = seq(number) if isinstance(number, int) else number
            values = (text, operation, MASKS[operation], key, name[0] if name else "n")
            self._execute("INSERT INTO ct VALUES (?, ?, ?, ?, ?)", values)

    def remove(self, *numbers: int) -> None:
        """Deletes the records of change numbers."""
        for number in numbers:
            self._execute("DELETE FROM ct WHERE header__change_seq = ?", (seq(number),))

    def run(self, *, accepts_database: bool = False) -> list[Row]:
        """The records that a run reads, in their order; its state becomes that of the next."""
        before = self.state
        source = LiveChangeTable(self._settings, table=DatabaseTable(self.options, "ct", text_of))
        after = self._folder / f"state-{self._runs + 1}"
        kept = CarryOver(before, after, self.clock * SECOND, accepts_database=accepts_database)
        with prepare_here(source, (), 1, CONTEXT.catalogue, carry_over=kept) as prepared:
            (split,) = prepared.splits
            assert isinstance(split, TableSplit)
            self.notes = split.notes
            self.between()
            found = [row for batch in prepared.read(0, CONTEXT) for row in batch.to_pylist()]
        self._runs += 1
        records = [row for row in found if row["outcome"] != TALLY]
        (tally,) = (row["row"] for row in found if row["outcome"] == TALLY)
        assert sum(int(str(row["records"])) for row in records) == tally
        return sorted(records, key=lambda row: (row["high"], row["low"], row["ordinal"]))

    def between(self) -> None:
        """Called between the planning of a run and its reading."""

    def read_texts(self) -> list[tuple[object, ...]]:
        """Reads like a run; returns event type and key of each row, else outcome and reason."""
        return [
            (row["event_type"], row["key"])
            if row["outcome"] is None
            else (row["outcome"], row["reason"])
            for row in self.run()
        ]

    def waiting(self) -> int:
        """The rows that a run beginning now would read."""
        waits = ChangeTableBacklog(self._settings, self.options, "ct")
        try:
            return waits.count_after(self.mark).rows
        finally:
            waits.close()

    @property
    def mark(self) -> Mark:
        """The mark that the last run has left."""
        return read_marks(self.state).get("ct", Mark())

    @property
    def state(self) -> Path | None:
        """The folder that the last run has left."""
        return self._folder / f"state-{self._runs}" if self._runs else None

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> None:
        with sqlite3.connect(self._path) as connection:
            connection.execute(statement, values)
        connection.close()
