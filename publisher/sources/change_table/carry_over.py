"""How far a job has read its change tables: the greatest change_seq of each, and the rows next to it.

A change_seq only ever grows, over all tables of a task (reference, section 1, change_seq), so the next
run reads the rows behind the mark.  Rows that came with a smaller one after all are found among the
rows of a window below the mark, of which the mark says which were read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from publisher.journal.durable import read_versioned
from publisher.sources.change_table.change_seq import NUMBER_DIGITS, TIME_DIGITS
from publisher.sources.change_table.pair_wait import PairWait

FORM = f"^[0-9]{{{TIME_DIGITS + NUMBER_DIGITS}}} *$"
"""A change_seq, as databases match it; blanks are those of a column of fixed width."""
VERSION = 3
"""Of the file; 1 had no window, 2 no origin."""
_FILE = "marks.json"


@dataclass(frozen=True, slots=True)
class KnownMasks:
    """How the masks of a table were read; stays as long as its columns and the settings do."""

    columns: tuple[str, ...]
    options: dict[str, Any]
    order: str
    headers: int
    key: tuple[str, ...]


class WindowEntry(NamedTuple):
    """Rows of one change_seq and operation."""

    change_seq: str
    operation: int
    """``ChangeOperation``, or -1."""
    rows: int


class RowDigests(NamedTuple):
    """Digests of a row (``origin``): of the names of its columns, of its header columns, of all."""

    columns: str
    headers: str
    whole: str


@dataclass(frozen=True, slots=True)
class MarkOrigin:
    """The table that a mark was left in."""

    identity: str | None = None
    """As ``database.identity`` reads it."""
    database: str = ""
    """The database as messages name it."""
    rows: tuple[RowDigests, ...] = ()
    """Some of the rows that have the change_seq of the mark."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far one change table was read."""

    change_seq: str | None = None
    """The greatest; ``None`` where none was read."""
    floor: str | None = None
    """The window lies between this and the mark; ``None`` where it reaches back to the first row."""
    rows: int = 0
    """Rows that the table had up to the floor."""
    window: tuple[WindowEntry, ...] = ()
    """The rows of the window that were read."""
    others: int = 0
    """Rows without a change_seq that it had then: they were rejected."""
    wait: PairWait | None = None
    calibrated: KnownMasks | None = None
    origin: MarkOrigin = MarkOrigin()

    @property
    def in_window(self) -> int:
        """How many rows of the window were read."""
        return sum(entry.rows for entry in self.window)

    def older(self, rows: int) -> int:
        """Rows that came at or below the floor, of a table that has ``rows`` there now; none are seen
        where more were removed meanwhile."""
        return 0 if self.floor is None else max(0, rows - self.rows)


def read_marks(folder: Path | None) -> dict[str, Mark]:
    """The marks that a run has left, by table.

    Raises ``FatalError`` where they are damaged or of another version.
    """
    if folder is None:
        return {}

    def decode(content: dict[str, Any]) -> dict[str, Mark]:
        return {table: _mark(entry) for table, entry in content["tables"].items()}

    remedy = "remove its folder, which publishes all rows of the change tables again"
    return read_versioned(folder / _FILE, VERSION, decode, remedy, field="version") or {}


def write_marks(folder: Path, marks: dict[str, Mark]) -> None:
    """Writes them for the next run."""
    folder.mkdir(parents=True)
    plain = {"version": VERSION, "tables": {table: asdict(mark) for table, mark in marks.items()}}
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    (folder / _FILE).write_text(text + "\n", "utf-8")


def _mark(entry: dict[str, Any]) -> Mark:
    known, wait, origin = entry["calibrated"], entry["wait"], entry["origin"]
    if known is not None:
        listed = {name: tuple(known[name]) for name in ("columns", "key")}
        known = KnownMasks(**known | listed)
    return Mark(
        **entry
        | {
            "calibrated": known,
            "wait": None if wait is None else PairWait(**wait),
            "window": tuple(WindowEntry(*item) for item in entry["window"]),
            "origin": MarkOrigin(
                **origin | {"rows": tuple(RowDigests(*row) for row in origin["rows"])}
            ),
        }
    )
