"""The state that a run stores for the next run: marks of change tables, rows that wait for their partner.

A change_seq only grows, across all tables of a task, so the next run reads the rows after the mark.  Each run
also searches a window before the mark for rows that arrived late, with a smaller change_seq; the state
records which rows of this window were already read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from publisher.database.identity import TableOrigin
from publisher.formats.change_table.change_seq import NUMBER_DIGITS, TIME_DIGITS
from publisher.formats.change_table.masks import Order
from publisher.formats.table_origin import check_origin
from publisher.ledger.durable import read_versioned_file
from publisher.model.plain import restore

FORM = f"^[0-9]{{{TIME_DIGITS + NUMBER_DIGITS}}} *$"
"""The form of a change_seq, as a regular expression for databases; columns of fixed width append blanks."""
VERSION = 4
"""Version of the file."""
_FILE = "marks.json"
_MICROSECONDS = 1_000_000
_NO_ORIGIN = TableOrigin()
_ALL_AGAIN = "which publishes all rows of this table, including those that were published before"


@dataclass(frozen=True, slots=True)
class PairWait:
    """A delay of the youngest rows, because an UPDATE or before image has no partner yet.

    The delay is limited in change_seq, so that no row far behind the youngest one waits, and by the clock of
    the job, so that it ends even if no more rows arrive.
    """

    upto: str
    """The greatest change_seq when the wait began."""
    since: int
    """When the wait began, in microseconds since 1970-01-01 UTC."""
    late: int = 0
    """Number of waiting rows below the mark of a table."""

    def is_over(self, seconds: float, clock: int) -> bool:
        """Returns whether the rows have waited long enough."""
        return clock - self.since >= seconds * _MICROSECONDS


def decided_upto(wait: PairWait | None, greatest: str, seconds: float, clock: int) -> str | None:
    """The change_seq up to which no row waits, ``None`` if every row may wait.

    ``greatest`` is the change_seq of the youngest row.
    """
    end_of_wait = wait.upto if wait is not None and wait.is_over(seconds, clock) else None
    return max(filter(None, (end_of_wait, earlier(greatest, seconds))), default=None)


def next_wait(
    wait: PairWait | None, greatest: str, blocked: str, seconds: float, clock: int, late: int = 0
) -> PairWait:
    """The wait after a run: the present one as long as it covers ``blocked``, else a new one."""
    if wait is not None and not wait.is_over(seconds, clock) and blocked <= wait.upto:
        return PairWait(wait.upto, min(wait.since, clock), late)  # the clock may have been set back
    return PairWait(greatest, clock, late)


def earlier(change_seq: str, seconds: float) -> str | None:
    """The least change_seq of a moment ``seconds`` earlier; ``None`` if the time part is not a time."""
    try:
        moment = datetime.strptime(change_seq[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        earlier = moment - timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
    return f"{earlier.year:04d}{earlier:%m%d%H%M%S}".ljust(len(change_seq), "0")


@dataclass(frozen=True, slots=True)
class KnownMasks:
    """The reading of a table's masks; valid as long as its columns and the settings stay the same."""

    columns: tuple[str, ...]
    options: dict[str, Any]
    order: Order
    headers: int
    key: tuple[str, ...]


class WindowEntry(NamedTuple):
    """Rows of one change_seq and operation."""

    change_seq: str
    operation: int
    """``ChangeOperation``, or -1."""
    rows: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The place up to which one change table was read."""

    change_seq: str | None = None
    """The greatest change_seq read; ``None`` if no row was read."""
    floor: str | None = None
    """Lower end of the window, which ends at the mark; ``None`` if it reaches back to the first row."""
    rows: int = 0
    """Number of rows that the table had up to the floor."""
    window: tuple[WindowEntry, ...] = ()
    """The rows of the window that were read."""
    others: int = 0
    """Number of rows without a change_seq when the mark was left; they were rejected."""
    wait: PairWait | None = None
    calibrated: KnownMasks | None = None
    origin: TableOrigin = _NO_ORIGIN
    """The table in which the mark was left."""

    def check_table(
        self, place: str, now: TableOrigin, *, accepts: bool = False
    ) -> tuple[str, ...]:
        """Refuses another table than that of the mark; a mark that skips no rows fits every table.

        Returns notes and raises as ``check_origin``."""
        if self.change_seq is None and not self.others:
            return ()
        return check_origin(place, self.origin, now, accepts=accepts, otherwise=_ALL_AGAIN)

    @property
    def rows_in_window(self) -> int:
        """Number of rows of the window that were read."""
        return sum(entry.rows for entry in self.window)

    def count_late(self, rows: int) -> int:
        """Counts the rows at or below the floor that arrived after the mark was left.

        ``rows`` is the present number of rows at or below the floor.  Each row that was removed there in the
        meantime hides one late row.
        """
        return 0 if self.floor is None else max(0, rows - self.rows)


def read_marks(folder: Path | None) -> dict[str, Mark]:
    """Reads the marks that a run has left, by table.

    Raises:
        FatalError: The marks are damaged or of another version.
    """
    if folder is None:
        return {}

    def decode(content: dict[str, Any]) -> dict[str, Mark]:
        return {
            table: restore(Mark, entry, complete=True) for table, entry in content["tables"].items()
        }

    remedy = "remove its folder, which publishes all rows of the change tables again"
    return read_versioned_file(folder / _FILE, VERSION, decode, remedy, field="version") or {}


def write_marks(folder: Path, marks: dict[str, Mark]) -> None:
    """Writes the marks for the next run."""
    folder.mkdir(parents=True)
    plain = {"version": VERSION, "tables": {table: asdict(mark) for table, mark in marks.items()}}
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    (folder / _FILE).write_text(text + "\n", "utf-8")
