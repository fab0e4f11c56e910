"""How far a job has read its change tables: the greatest change_seq of each, and what was there up to it.

A change_seq only ever grows, over all tables of a task (reference, section 1, change_seq), so the next
run reads what lies behind the mark.  Rows that came with a smaller one after all are counted.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.sources.change_table.seq import NUMBER_DIGITS, TIME_DIGITS

FORM = f"^[0-9]{{{TIME_DIGITS + NUMBER_DIGITS}}} *$"
"""A change_seq, as databases match it; blanks are those of a column of fixed width."""
_FILE = "marks.json"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """How the masks of a table were read; stays as long as its columns and the settings do."""

    columns: tuple[str, ...]
    options: dict[str, Any]
    order: str
    headers: int
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """How far one change table was read."""

    change_seq: str | None = None
    """The greatest; ``None`` where none was read."""
    rows: int = 0
    """Rows that the table had up to it."""
    others: int = 0
    """Rows without a change_seq that it had then: they were rejected."""
    calibrated: Calibrated | None = None

    def late(self, before: int) -> int:
        """Rows that came up to the mark after it was set, of a table that has ``before`` rows up to it
        now; none are seen where more were removed meanwhile."""
        return 0 if self.change_seq is None else max(0, before - self.rows)


def read_marks(folder: Path | None) -> dict[str, Mark]:
    """The marks that a run has left, by table.  Raises ``FatalError`` where they are damaged."""
    if folder is None or not (folder / _FILE).exists():
        return {}
    path = folder / _FILE
    try:
        return {table: _mark(entry) for table, entry in json.loads(path.read_text("utf-8")).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FatalError(
            f"{path} is damaged: restore it; without it all rows would be published again"
        ) from error


def write_marks(folder: Path, marks: dict[str, Mark]) -> None:
    """Writes them for the next run."""
    folder.mkdir(parents=True)
    plain = {table: asdict(mark) for table, mark in marks.items()}
    (folder / _FILE).write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _mark(entry: dict[str, Any]) -> Mark:
    known = entry["calibrated"]
    if known is not None:
        listed = {name: tuple(known[name]) for name in ("columns", "key")}
        known = Calibrated(**known | listed)
    return Mark(**entry | {"calibrated": known})
