"""Exports of DISPATCH_QUEUE for tests, built from the declarations of row and image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from publisher.formats.contract import Context, Source
from publisher.formats.dispatch_queue import DispatchQueue, DispatchQueueOptions
from publisher.formats.dispatch_queue.images.layout import image_layout
from publisher.formats.dispatch_queue.options import QueueTable
from publisher.formats.dispatch_queue.rows import layout as declared
from publisher.model.catalogue import Catalogue, JobCatalogue
from publisher.model.change import TALLY
from tests.support.prepare import prepare_here

Record = dict[str, Any]
Row = dict[str, Any]

USR = QueueTable(
    number=7,
    name="usr",
    schema="hr",
    columns=("idu INTEGER", "fname CHAR(8)", "lname VARCHAR(12)", "photo BLOB(24)", "note CHAR(4)"),
    key=("idu",),
)
BIG = QueueTable(
    number=8, name="big", columns=("id BIGINT", "a CHAR(2000)", "b CHAR(3000)"), key=("id",)
)
OPTIONS = DispatchQueueOptions(
    tables=(USR, BIG),
    null_mode="byte_before",
    null_flag=1,
    image_charset="cp866",
    time_zone="UTC",
)
NOON = 0x3FF40BC0
"""2024-01-01 12:00:00 in seconds since 1990."""


def options(**changed: Any) -> DispatchQueueOptions:
    """``OPTIONS`` with some changed."""
    return replace(OPTIONS, **changed)


def image(table: QueueTable, values: Sequence[Any], used: DispatchQueueOptions = OPTIONS) -> bytes:
    """A row image; ``None`` is NULL, text and bytes are padded."""
    layout = image_layout(used, table)
    built: dict[str, Any] = {}
    bitmap = bytearray(layout.bitmap)
    for number, (column, value) in enumerate(zip(layout.columns, values, strict=True)):
        built[f"null{number}"] = layout.null_flag if value is None else 0
        if value is None and layout.bitmap:
            byte, bit = layout.bit(number)
            bitmap[byte] |= bit
        built[f"value{number}"] = _value(layout, column, value)
    built["nulls"] = bytes(bitmap)
    data: bytes = layout.declaration.build(built)
    return data


def _value(layout: Any, column: Any, value: Any) -> Any:
    if column.type in ("VARCHAR", "VARBYTE", "NVARCHAR"):
        data = value.encode("cp866") if isinstance(value, str) else value or b""
        return {"length": len(data) // (2 if column.type == "NVARCHAR" else 1), "data": data}
    if isinstance(value, str):
        return value.encode("cp866").ljust(column.capacity)
    if isinstance(value, bytes) or (value is None and column.capacity not in (2, 4, 8)):
        return (value or b"").ljust(column.capacity, b"\0")
    return 0 if value is None else value


def jack(idu: int, fname: str | None = "Jack", lname: str | None = "Smith") -> bytes:
    """An image of ``USR``."""
    return image(USR, [idu, fname, lname, None, "n"])


@dataclass
class Queue:
    """Writes rows one after the other; each takes the next log address."""

    used: DispatchQueueOptions = OPTIONS
    address: int = (3 << 32) + 1000
    step: int = 100

    def row(self, typ: int, first: bytes = b"", second: bytes = b"", **columns: Any) -> Row:
        """A row of one part."""
        return self.rows(typ, first, second, **columns)[0]

    def rows(
        self, typ: int, first: bytes = b"", second: bytes = b"", reading: str = "totals", **own: Any
    ) -> list[Row]:
        """The rows of an operation, as many as it needs."""
        self.address += self.step
        data = first + second
        size = declared.DATA_BYTES
        pieces = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
        found = []
        for part, piece in enumerate(pieces):
            one, two = len(first), len(second)
            if reading == "per-part":
                start = part * size
                one = max(0, min(len(first) - start, size))
                two = len(piece) - one
            row = {
                "OPER_DATE": {"seconds": NOON, "fraction": 0x8000},
                "EXTDATA": part,
                "DBNODE": b"MAIN",
                "TRANSACT_ID": 1,
                "SYSLOG_ADDR": self.address,
                "TYP": typ,
                "BLOBATR": 0,
                "CHANNEL": 5,
                "TABNUM_SRC": 7 if data or typ not in (4, 5, 10) else 0,
                "ROWID_SRC": 9,
                "LEN1": one,
                "LEN2": two,
                "DST_SERVER": b"SRV1",
                "DST_OWNER": b"IDM",
                "DST_TABLE": b"USR",
                "DATA": piece,
            }
            found.append(row | own)
        return found


def binary(
    rows: Iterable[Row], used: DispatchQueueOptions = OPTIONS, stride: int = declared.ROW_BYTES
) -> bytes:
    """The rows as a binary file."""
    declaration = declared.row(used.byte_order)
    return b"".join(declaration.build(_pad_row(row)).ljust(stride, b"\0") for row in rows)


def _pad_row(row: Row) -> Row:
    texts = {name: row[name].ljust(declared.WIDTHS[name]) for name in declared.TEXTS}
    return row | texts | {"DATA": row["DATA"].ljust(declared.DATA_BYTES, b"\0")}


def delimited_text(rows: Iterable[Row], header: bool = True) -> str:
    """The rows as delimited text."""
    lines = [",".join(declared.COLUMNS)] if header else []
    for row in rows:
        date = row["OPER_DATE"]
        shown = row | {
            "OPER_DATE": f"{date['seconds']:08x}{date['fraction']:04X}",
            "DATA": row["DATA"].hex(),
        }
        shown |= {name: row[name].decode("cp866") for name in declared.TEXTS}
        lines.append(",".join(str(shown[name]) for name in declared.COLUMNS))
    return "\n".join(lines) + "\n"


def read(
    used: DispatchQueueOptions,
    data: bytes | str | Path,
    folder: Path,
    wanted: int = 1,
    lanes: int = 4,
    catalogue: Catalogue | None = None,
) -> tuple[list[Record], int]:
    """All records in the order of the file, and the sum of the tallies."""
    path = data if isinstance(data, Path) else folder / "queue.dat"
    if isinstance(data, bytes):
        path.write_bytes(data)
    elif isinstance(data, str):
        path = folder / "queue.csv"
        path.write_text(data)
    return read_files(DispatchQueue(used), [path], wanted, lanes, catalogue)


def read_files(
    source: Source,
    paths: Sequence[Path],
    wanted: int = 1,
    lanes: int = 4,
    catalogue: Catalogue | None = None,
) -> tuple[list[Record], int]:
    """All records of files, and the sum of the tallies."""
    context = Context(7, lanes, catalogue or JobCatalogue(()))
    records: list[Record] = []
    framed = 0
    with prepare_here(source, paths, wanted, context.catalogue) as prepared:
        for number in range(len(prepared.splits)):
            for batch in prepared.read(number, context):
                batch.validate(full=True)
                for row in batch.to_pylist():
                    if row["outcome"] == TALLY:
                        framed += row["row"]
                    else:
                        records.append(row)
    return sorted(records, key=lambda row: (row["row"], row["ordinal"])), framed


def record_text(found: Record) -> str:
    """A record in short: ``2 idu=1 fname=Jack>Jim`` or ``rejected parts``."""
    if found["outcome"] is not None:
        return {3: "ignored", 4: "held", 5: "rejected"}[found["outcome"]] + f" {found['reason']}"
    olds = found["old"] or [None] * len(found["columns"])
    news = found["new"] or [None] * len(found["columns"])
    values = []
    for name, old, new in zip(found["columns"], olds, news, strict=True):
        text = name if found["new"] is None else f"{name}={'NULL' if new is None else new}"
        values.append(text if found["old"] is None else f"{name}={old or 'NULL'}>{new or 'NULL'}")
    return " ".join([str(found["event_type"]), found["key"], *values])


def record_texts(found: Iterable[Record]) -> list[str]:
    """Records in short."""
    return [record_text(record) for record in found]


def texts_of_rows(rows: list[Row], folder: Path, wanted: int = 1, **changed: Any) -> list[str]:
    """The first words of all records."""
    records, framed = read(options(**changed), binary(rows), folder, wanted)
    assert framed == len(rows) == sum(record["records"] for record in records)
    return [" ".join(record_text(record).split()[:2]) for record in records]
