"""Files of the four formats, of a size that is asked for; made once and kept.

The binary ones are built from the declarations of their layouts: some hundred records, which are repeated
with keys and addresses of their own.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.contract import Source
from publisher.formats.dispatch_queue import DispatchQueue, DispatchQueueOptions
from publisher.formats.dispatch_queue.images.layout import image_layout
from publisher.formats.dispatch_queue.options import QueueTable
from publisher.formats.dispatch_queue.rows.layout import DATA_AT, ROW_BYTES, row_type
from publisher.formats.event_log.source import event_log as log_source
from publisher.formats.linkexpress import Linkexpress, LinkexpressOptions
from publisher.formats.linkexpress.layout import form_of
from publisher.formats.linkexpress.options import ExtractedTable
from tests.bench.data import FAMILY, GIVEN, Log, cache, event_log
from tests.support.change_table_files import HEADERS
from tests.support.dispatch_queue_files import Queue, Row, binary, image
from tests.support.linkexpress_files import NULL, record

BUILT = 400
"""Records that are built one by one."""
CHUNK = 8 << 20

QUEUE_TABLE = QueueTable(
    number=7,
    name="usr",
    schema="hr",
    columns=(
        "idu INTEGER",
        "fname CHAR(32)",
        "lname VARCHAR(64)",
        "pay DECIMAL(9,2)",
        "dept SMALLINT",
    ),
    key=("idu",),
)
QUEUE = DispatchQueueOptions(
    tables=(QUEUE_TABLE,),
    null_mode="byte_before",
    null_flag=1,
    image_charset="cp1251",
    time_zone="UTC",
)
EXTRACTED = ExtractedTable(
    name="usr",
    schema="hr",
    key=("idu",),
    items=(
        "idu INTEGER",
        "fname CHARACTER(16)",
        "lname CHARACTER(24)",
        "mail VARCHAR(32)",
        "dept SMALLINT",
        "pay DECIMAL(9,2)",
        "bonus DECIMAL(7,2)",
        "born DATE",
        "seen TIMESTAMP",
        "room CHARACTER(8)",
    ),
)
EXTRACT = LinkexpressOptions(
    unit="table",
    extract="diff",
    nulls=True,
    tables=(EXTRACTED,),
    difftype="OPEN",
    charset="EUC-JP",
    byte_order="big",
)
DATA = ("idu", "fname", "lname", "mail", "department", "phone", "hired", "room", "pay", "state")
CHANGES = ChangeTableOptions(source_table="hr.usr", key=("idu",))


@dataclass(frozen=True, slots=True)
class Input:
    """A file of one format, and what reads it."""

    name: str
    source: Source
    make: Callable[[int], Path]
    """The file of about so many bytes."""


def inputs() -> tuple[Input, ...]:
    """One of each format, of change tables both kinds."""
    return (
        Input("dispatch-queue", DispatchQueue(QUEUE), queue),
        Input("linkexpress", Linkexpress(EXTRACT), extract),
        Input("change-table Parquet", ChangeTable(CHANGES), lambda size: changes(size, "parquet")),
        Input("change-table CSV", ChangeTable(CHANGES), lambda size: changes(size, "csv")),
        Input("event-log Parquet", log_source(), lambda size: event_log(Log(size // 18))),
    )


def _cache_file(name: str, write: Callable[[Path], None]) -> Path:
    path = cache() / name
    if not path.exists():
        unfinished = path.with_name(f"{os.getpid()}-{name}")
        write(unfinished)
        unfinished.rename(path)
    return path


def _repeat_block(
    path: Path, block: bytes, size: int, mark: Callable[[np.ndarray, int], None]
) -> None:
    """Writes a block again and again; ``mark`` writes into its bytes what is a record's own."""
    blocks = max(1, CHUNK // len(block))
    with path.open("wb") as file:
        done = 0
        while done * len(block) < size:
            data = np.tile(np.frombuffer(block, np.uint8), blocks)
            mark(data, done * BUILT)
            file.write(data.tobytes())
            done += blocks


def queue(size: int) -> Path:
    """Transactions of a hundred rows: ninety-nine operations on one table, half of them updates, and
    COMMIT."""
    chance = random.Random(1)
    rows: list[Row] = []
    maker = Queue(QUEUE)
    for number in range(BUILT):
        if number % 100 == 99:
            rows.append(maker.row(4))
            continue
        typ = (2, 3, 3, 1)[number % 4]
        one, two = (_queue_image(chance) for _ in range(2))
        rows.append(maker.row(typ, one, two if typ == 3 else b""))
    block = binary(rows, QUEUE)
    kind = row_type()
    first = image_layout(QUEUE, QUEUE_TABLE)
    key, length = DATA_AT + first.places[0], first.length

    def mark(data: np.ndarray, start: int) -> None:
        count = len(data) // ROW_BYTES
        numbers = start + np.arange(count, dtype=np.int64)
        table = data.view(kind)
        table["SYSLOG_ADDR"] = (3 << 32) + 100 * numbers
        table["TRANSACT_ID"] = numbers // 100
        cells = data.reshape(count, ROW_BYTES)
        keys = numbers.astype("<i4").view(np.uint8).reshape(count, 4)
        has_image, has_two = table["LEN1"] > 0, table["LEN2"] > 0
        cells[has_image, key : key + 4] = keys[has_image]
        cells[has_two, key + length : key + length + 4] = keys[has_two]

    return _cache_file(f"queue-{size}.dat", lambda path: _repeat_block(path, block, size, mark))


def _queue_image(chance: random.Random) -> bytes:
    given, family = chance.choice(("Анна", "Пётр", "Jack")), chance.choice(("Смирнова", "Frost"))
    digits = f"{chance.randrange(10**6):022d}00000000"
    pay = b"\2" + bytes.fromhex(digits)
    values = [0, given, family, pay, chance.randrange(500)]
    layout_ = image_layout(QUEUE, QUEUE_TABLE)
    return image(
        QUEUE_TABLE, [*values[:3], pay.ljust(layout_.width(layout_.columns[3])), values[4]], QUEUE
    )


def extract(size: int) -> Path:
    """Differences of a table: inserts, updates, deletes."""
    chance = random.Random(2)
    block = b"".join(record(EXTRACT, 0, chance.randint(1, 3), _items(chance)) for _ in range(BUILT))
    length = len(block) // BUILT
    key = form_of(EXTRACT).size + 2

    def mark(data: np.ndarray, start: int) -> None:
        count = len(data) // length
        numbers = (start + np.arange(count)).astype(">i4")
        data.reshape(count, length)[:, key : key + 4] = numbers.view(np.uint8).reshape(count, 4)

    return _cache_file(f"extract-{size}.dat", lambda path: _repeat_block(path, block, size, mark))


def _items(chance: random.Random) -> list[object]:
    mail = b"ann.frost%d@example.org" % chance.randrange(1000)
    day = {
        "year": chance.randint(1950, 2005),
        "month": chance.randint(1, 12),
        "day": chance.randint(1, 28),
    }
    clock = {
        "hour": chance.randrange(24),
        "minute": chance.randrange(60),
        "second": chance.randrange(60),
    }
    return [
        0,
        chance.choice(("Ann", "Jack", "花子")).encode("euc-jp").ljust(16),
        chance.choice(("Frost", "Smith", "O'Neil & Sons", "山田")).encode("euc-jp").ljust(24),
        NULL if chance.random() < 0.1 else {"length": len(mail), "data": mail},
        chance.randrange(500),
        bytes.fromhex(f"{chance.randrange(10**9):09d}" + chance.choice("CD")),
        bytes.fromhex(f"{chance.randrange(10**7):07d}" + chance.choice("CD")),
        day,
        {"date": day, "time": clock},
        b"%-8d" % chance.randrange(10_000),
    ]


def changes(size: int, kind: str) -> Path:
    """Inserts, updates beside their before images, deletes, with masks."""
    return _cache_file(f"pairs-{size}__ct.{kind}", lambda path: _write_changes(path, size, kind))


def _write_changes(path: Path, size: int, kind: str) -> None:
    schema = pa.schema([(name, pa.string()) for name in (*HEADERS, *DATA)])
    start = 0
    # plain, so that its megabytes are those of its values: packed, the same file holds five times the rows
    parquet = partial(pq.ParquetWriter, compression="none", use_dictionary=False)
    with (parquet if kind == "parquet" else pcsv.CSVWriter)(path, schema) as writer:
        while not path.exists() or path.stat().st_size < size:
            table = _changes(start, 60_000)
            writer.write_table(table)
            start += 60_000


def _changes(start: int, count: int) -> pa.Table:
    """Rows of objects, six of each: an insert, two updates after their before images, a delete.

    The first update changes both names, the second the last column, as their masks say."""
    row = start + np.arange(count, dtype=np.int64)
    place = row % 6
    operation = row - (place == 2) - (place == 4)
    letters = pa.array(np.array(list("IBUBUD"))[place], pa.string())
    words = pa.array(["INSERT", "BEFOREIMAGE", "UPDATE", "BEFOREIMAGE", "UPDATE", "DELETE"]).take(
        pa.array(place)
    )
    masks = pa.array(["01FF80", "", "0300", "", "010000", "80"]).take(pa.array(place))
    number = pc.utf8_lpad(pa.array(operation).cast(pa.string()), 19, "0")
    chance = np.random.default_rng(start)
    mixed = chance.integers(0, 1 << 31, count // 6).repeat(6)
    text, phone, room = (
        pa.array(chance.integers(0, 10**n, count // 6).repeat(6)).cast(pa.string())
        for n in (6, 9, 4)
    )
    gone = pa.array(place == 5)
    names = [pa.array(each, pa.string()) for each in (GIVEN, FAMILY)]
    first = names[0].take(pa.array(mixed % len(GIVEN)))
    given, family = (each.take(pa.array((mixed + (place >= 2)) % len(each))) for each in names)
    values = [
        pa.array(row // 6).cast(pa.string()),
        given,
        pc.binary_join_element_wise(family, text, " "),
        pc.binary_join_element_wise(first, text, "@example.org", "."),
        pc.binary_join_element_wise("Department", pa.array(mixed % 500).cast(pa.string()), " "),
        pc.binary_join_element_wise("+49 30", phone, " "),
        pa.array(np.char.mod("2024-05-%02d", mixed % 28 + 1).astype(object), pa.string()),
        room,
        pa.repeat("1200.50", count),
        pc.if_else(pa.array(place >= 4), "on leave", "active"),
    ]
    nothing = pa.nulls(count, pa.string())
    data = [values[0], *(pc.if_else(gone, nothing, each) for each in values[1:])]
    time = "2024031810472600"
    headers = [
        pc.binary_join_element_wise(time, number, ""),
        letters,
        masks,
        pa.repeat("16;1", count),
        words,
        pa.array([f"{n:016X}" * 2 for n in chance.integers(0, 1 << 62, count // 6).repeat(6)]),
        pa.array([f"2024-03-18T10:{n:02d}:26.{n:03d}Z" for n in (row // 60 % 60).tolist()]),
    ]
    return pa.Table.from_arrays([*headers, *data], names=[*HEADERS, *DATA])
