"""Event logs for tests: rows as dictionaries, written in each kind of snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.formats.contract import Context
from publisher.formats.event_log.layout import LAYOUT
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.event_log.source import event_log
from publisher.formats.files.options import SnapshotOptions
from publisher.model.catalogue import ColumnKind, Table
from publisher.model.change import TALLY

NAMES = LAYOUT["3.5"]
Row = dict[str, object]

USR = Table(
    "indirect",
    "usr",
    ("idu",),
    {
        "idu": ColumnKind.INT,
        "fname": ColumnKind.STRING,
        "lname": ColumnKind.STRING,
        "photo": ColumnKind.OCTET,
    },
    complete=True,
)


@dataclass(frozen=True)
class Tables:
    """A catalogue of a few tables, whatever the case of their names."""

    tables: Mapping[str, Table] = field(default_factory=lambda: {"usr": USR})
    closed: bool = True

    def table(self, schema: str | None, name: str) -> Table | None:
        return self.tables.get(name.lower())


OPEN = Tables({}, closed=False)


def event(record_id: object = 1, **changes: object) -> Row:
    """A good type 2 event with some columns changed."""
    row: Row = {
        "record_id": record_id,
        "table_key": "idu=1",
        "status": "N",
        "event_type": 2,
        "event_time": "2024-05-06 07:08:09",
        "perpetrator": None,
        "table_name": "usr",
        "column_name": "fname",
        "old_value": "Jack",
        "new_value": "John",
    }
    assert set(changes) <= set(row)
    return row | changes


def csv_text(
    rows: Iterable[Row], names: Sequence[str] | None = None, *, header: bool = True
) -> str:
    """Rows as CSV; without ``names`` the columns are those of the first row."""
    rows = list(rows)
    names = names or (list(rows[0]) if rows else NAMES)
    lines = [",".join(names)] if header else []
    for row in rows:
        cells = (
            "" if row[name] is None else '"' + str(row[name]).replace('"', '""') + '"'
            for name in names
        )
        lines.append(",".join(cells))
    return "".join(f"{line}\n" for line in lines)


def write(path: Path, rows: list[Row]) -> Path:
    """Write rows in the kind that the suffix of ``path`` says."""
    if path.suffix == ".csv":
        path.write_text(csv_text(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        columns = {name: pa.array([text(row[name]) for row in rows], pa.string()) for name in NAMES}
        pq.write_table(pa.table(columns), path, row_group_size=max(1, len(rows) // 3))
    return path


def text(value: object) -> str | None:
    return None if value is None else str(value)


def read(
    path: Path,
    options: EventLogOptions | None = None,
    snapshot: SnapshotOptions | None = None,
    catalogue: Tables | None = None,
    *,
    wanted: int = 1,
    lanes: int = 4,
) -> tuple[list[Row], int]:
    """All records of a snapshot in the order of their rows, and the sum of its tallies."""
    source = event_log(options or EventLogOptions(), snapshot or SnapshotOptions())
    ctx = Context(7, lanes, catalogue or Tables())
    records: list[Row] = []
    for number, split in enumerate(source.splits([path], wanted)):
        for batch in source.read(split, number, ctx):
            batch.validate(full=True)
            records += batch.to_pylist()
    framed = sum(int(str(record["row"])) for record in records if record["outcome"] == TALLY)
    return [record for record in records if record["outcome"] != TALLY], framed
