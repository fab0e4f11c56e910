"""Change tables for tests: records as dictionaries, written in each kind of file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.formats.change_table.masks import Order
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.contract import Context
from publisher.formats.files.options import SnapshotOptions
from publisher.model.catalogue import Catalogue
from publisher.model.change import TALLY
from tests.support.change_masks import mask_of
from tests.support.event_log_files import OPEN, Row, csv_text
from tests.support.prepare import prepare_here, read_prepared

HEADERS = (
    "header__change_seq",
    "header__change_oper",
    "header__change_mask",
    "header__stream_position",
    "header__operation",
    "header__transaction_id",
    "header__timestamp",
)
DATA = ("idu", "fname", "lname", "c04", "c05", "c06", "c07", "c08", "c09", "c10")
WORDS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "B": "BEFOREIMAGE"}
CONTEXT = Context(0, 5, OPEN)


def seq(number: int, time: str = "2024031810472600") -> str:
    return f"{time}{number:019d}"


def record(
    number: int,
    oper: str,
    bits: Iterable[int] | None = None,
    *,
    order: Order = "msb",
    headers: int = 7,
    **values: str | None,
) -> Row:
    """A record; ``bits`` are the places of data columns in its mask."""
    mask = None if bits is None else mask_of(sum(1 << headers + bit for bit in bits), order)
    return (
        dict(
            zip(
                HEADERS,
                (
                    seq(number),
                    oper,
                    mask or "",
                    "16;1",
                    WORDS.get(oper, oper),
                    "21000900000000000000000000000000",
                    "2024-03-18T10:47:26.000Z",
                ),
                strict=True,
            )
        )
        | dict.fromkeys(DATA)
        | values
    )


def write(path: Path, rows: Sequence[Row]) -> Path:
    """Write records in the kind that the suffix of ``path`` says."""
    if path.suffix == ".csv":
        path.write_text(csv_text(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        table = pa.Table.from_pylist(list(rows), pa.schema([(n, pa.string()) for n in rows[0]]))
        pq.write_table(table, path, row_group_size=4)
    return path


def options(**changes: object) -> ChangeTableOptions:
    return ChangeTableOptions(**{"source_table": "usr", "key": ("idu",)} | changes)  # type: ignore[arg-type]


def read(
    path: Path | Sequence[Path],
    used: ChangeTableOptions | None = None,
    snapshot: SnapshotOptions | None = None,
    wanted: int = 1,
    tables: Catalogue = OPEN,
) -> list[Row]:
    """The records of files without the tallies, which are right; in order of change_seq."""
    source = ChangeTable(used or options(), snapshot or SnapshotOptions())
    paths = [path] if isinstance(path, Path) else list(path)
    context = Context(0, 5, tables)
    records: list[Row] = []
    framed = 0
    with prepare_here(source, paths, wanted, tables) as prepared:
        for batches in read_prepared(prepared, context):
            for batch in batches:
                for row in batch.to_pylist():
                    if row["outcome"] == TALLY:
                        framed += row["row"]
                    else:
                        records.append(row)
    assert sum(int(str(row["records"])) for row in records) == framed
    return sorted(records, key=lambda row: (row["high"], row["low"], row["ordinal"], row["row"]))


def change_text(record_: Row) -> tuple[object, ...]:
    """Event type, key and columns with what they were and are; or the reason of a reject."""
    if record_["outcome"] is not None:
        return (record_["reason"],)
    found: list[tuple[object, ...]] = []
    names, images = record_["columns"], (record_["old"], record_["new"])
    assert isinstance(names, list)
    for at, name in enumerate(names):
        found.append((name, *(image[at] for image in images if isinstance(image, list))))
    return (record_["event_type"], record_["key"], *found)
