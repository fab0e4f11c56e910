"""Transactions on a parent and a child table, recorded by each format, and the objects that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from publisher.formats.dispatch_queue.options import DispatchQueueOptions, QueueTable
from publisher.formats.linkexpress.options import ExtractedTable, LinkexpressOptions
from tests.support import change_table_files, dispatch_queue_files, linkexpress_files
from tests.support.dispatch_queue_codes import COMMIT, DELETE, INSERT, UPDATE
from tests.support.event_log_files import Row

Values = tuple[Any, ...]
CLASSES = """
[tables.usr]
schema = "indirect"
key = ["idu"]
columns = { idu = "int", fname = "string", manager = "int" }
references = { manager = { table = "usr" } }

[tables.usr.children]
usr_phone = { columns = { phoneno = "string" } }
"""
USR, PHONE = "usr", "usr_phone"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    USR: ("idu", "fname", "manager"),
    PHONE: ("phone_id", "idu", "phoneno"),
}


class RowChange(NamedTuple):
    """A change of one row: its values before and after, ``None`` where it does not exist."""

    table: str
    old: Values | None
    new: Values | None


History = Sequence[Sequence[RowChange]]
"""Transactions in the order of their commits."""


def story() -> History:
    """Transactions with every kind of change of a child row."""
    john, ann = (1, "John", 2), (2, "Ann", None)
    first, second = (91, 1, "111-1111"), (92, 1, "222-2222")
    changed, moved, last = (92, 1, "333-3333"), (91, 2, "111-1111"), (94, 1, "444-4444")
    return [
        [
            RowChange(USR, None, john),
            RowChange(USR, None, ann),
            RowChange(PHONE, None, first),
            RowChange(PHONE, None, second),
            RowChange(PHONE, second, changed),
            RowChange(PHONE, first, moved),
            RowChange(USR, john, (1, "John", None)),
            RowChange(PHONE, None, last),
        ],
        [
            RowChange(PHONE, last, None),
            RowChange(USR, (1, "John", None), None),
            RowChange(PHONE, changed, None),
            RowChange(PHONE, moved, (91, 2, None)),
        ],
        [RowChange(USR, None, (1, "Joe", None)), RowChange(PHONE, None, (95, 1, "555-5555"))],
    ]


def tables_after(history: History) -> dict[str, dict[Any, Values]]:
    """The rows of both tables after all transactions, by their own keys."""
    tables: dict[str, dict[Any, Values]] = {USR: {}, PHONE: {}}
    for change in (change for transaction in history for change in transaction):
        if change.old is not None:
            del tables[change.table][change.old[0]]
        if change.new is not None:
            tables[change.table][change.new[0]] = change.new
    return tables


def write_change_tables(
    folder: Path, history: History, kind: str = "csv", before_images: bool = True
) -> list[Path]:
    """One change table for each table, with masks."""
    rows: dict[str, list[Row]] = {USR: [], PHONE: []}
    number = 0
    for transaction, changes in enumerate(history):
        for change in changes:
            number += 1
            rows[change.table] += _records(change, number, transaction, before_images)
    paths = []
    for table in filter(rows.get, rows):
        (folder / f"indirect.{table}__ct").mkdir(parents=True)
        path = folder / f"indirect.{table}__ct" / f"1.{kind}"
        paths.append(change_table_files.write(path, rows[table]))
    return paths


def _records(
    change: RowChange, number: int, transaction: int, before_images: bool
) -> Iterator[Row]:
    names = COLUMNS[change.table]
    old, new = change.old, change.new
    differing = [p for p in range(3) if old is None or new is None or old[p] != new[p]]
    images: list[tuple[str, Values, list[int]]] = []
    if new is None:
        assert old is not None
        images = [("D", old, [0])]
    elif old is None:
        images = [("I", new, differing)]
    else:
        images = [("U", new, differing), *([("B", old, [])] if before_images else [])]
    for oper, values, marked in images:
        bits = sum(1 << 4 + place for place in marked)
        texts = [None if value is None else str(value) for value in values]
        headers = (change_table_files.seq(number), oper, f"{bits:02X}" if bits else None)
        names_of_headers = ("change_seq", "change_oper", "change_mask")
        yield {
            **{f"header__{n}": text for n, text in zip(names_of_headers, headers, strict=True)},
            "header__transaction_id": f"A{transaction}",
            **dict(zip(names, texts, strict=True)),
        }


QUEUE = DispatchQueueOptions(
    tables=(
        QueueTable(
            number=7,
            name=USR,
            schema="indirect",
            columns=("idu INTEGER", "fname VARCHAR(12)", "manager INTEGER"),
            key=("idu",),
        ),
        QueueTable(
            number=8,
            name=PHONE,
            schema="indirect",
            columns=("phone_id INTEGER", "idu INTEGER", "phoneno VARCHAR(12)"),
            key=("phone_id",),
        ),
    ),
    null_mode="byte_before",
    null_flag=1,
    image_charset="cp866",
    time_zone="UTC",
)


def write_queue(folder: Path, history: History) -> list[Path]:
    """A DISPATCH_QUEUE with the transactions."""
    queue, rows = dispatch_queue_files.Queue(QUEUE), []
    tables = {table.name: table for table in QUEUE.tables}
    for number, transaction in enumerate(history, 1):
        for change in transaction:
            table = tables[change.table]
            code = INSERT if change.old is None else DELETE if change.new is None else UPDATE
            images: list[bytes] = [
                dispatch_queue_files.image(table, values, QUEUE)
                for values in (change.old, change.new)
                if values is not None
            ]
            first, second = (*images, b"")[:2]
            rows += queue.rows(code, first, second, TRANSACT_ID=number, TABNUM_SRC=table.number)
        rows += queue.rows(COMMIT, TRANSACT_ID=number)
    path = folder / "queue.dat"
    path.write_bytes(dispatch_queue_files.binary(rows, QUEUE))
    return [path]


EXTRACT = LinkexpressOptions(
    unit="group",
    extract="diff",
    nulls=True,
    charset="CP932",
    schema="indirect",
    tables=(
        ExtractedTable(
            name=USR,
            xid=1,
            key=("idu",),
            items=("idu INTEGER", "fname VARCHAR(12)", "manager INTEGER"),
        ),
        ExtractedTable(
            name=PHONE,
            xid=2,
            key=("idu", "phoneno"),
            items=("phone_id INTEGER", "idu INTEGER", "phoneno VARCHAR(12)"),
        ),
    ),
)


def write_extract(folder: Path, history: History) -> list[Path]:
    """A difference file of a group; a change of the key ``idu``, ``phoneno`` is a delete and an insert."""
    data = b""
    for transaction in history:
        for change in transaction:
            number = 0 if change.table == USR else 1
            old, new = change.old, change.new
            if change.table == USR and old and new and old[0] == new[0]:
                data += _extracted(number, 2, new)
                continue
            data += b"" if old is None else _extracted(number, 3, old)
            data += b"" if new is None else _extracted(number, 1, new)
        data += linkexpress_files.mark(EXTRACT)
    path = folder / "group.dat"
    path.write_bytes(data)
    return [path]


def _extracted(number: int, code: int, values: Values) -> bytes:
    items = [_item(value) for value in values]
    return linkexpress_files.record(EXTRACT, number, code, items)


def _item(value: int | str | None) -> Any:
    if value is None:
        return linkexpress_files.NULL
    if isinstance(value, int):
        return value
    data = value.encode("cp932")
    return {"length": len(data), "data": data}


def queue_settings() -> str:
    """The source ``QUEUE`` in a job file."""
    tables = "".join(
        f'[[sources.tables]]\nnumber = {table.number}\nname = "{table.name}"\nschema = "indirect"\n'
        f"columns = {list(table.columns)}\nkey = {list(table.key)}\n"
        for table in QUEUE.tables
    )
    return (
        '[[sources]]\nformat = "dispatch-queue"\nnull_mode = "byte_before"\nnull_flag = 1\n'
        f'image_charset = "cp866"\ntime_zone = "UTC"\n{tables}'
    )


def extract_settings() -> str:
    """The source ``EXTRACT`` in a job file."""
    tables = "".join(
        f'[[sources.tables]]\nname = "{table.name}"\nxid = {table.xid}\n'
        f"items = {list(table.items)}\nkey = {list(table.key)}\n"
        for table in EXTRACT.tables
    )
    return (
        '[[sources]]\nformat = "linkexpress"\nunit = "group"\nextract = "diff"\nnulls = true\n'
        f'charset = "CP932"\nschema = "indirect"\n{tables}'
    )


CHANGE_TABLE = (
    '[[sources]]\nformat = "change-table"\nschema = "indirect"\nkey_from_deletes = false\n'
)
FormatName = Literal["change-table", "dispatch-queue", "linkexpress"]


class Recorder(NamedTuple):
    """A format: the source in a job file, and the function that writes its files."""

    settings: str
    write: Callable[[Path, History], list[Path]]


RECORDERS: Mapping[FormatName, Recorder] = {
    "change-table": Recorder(CHANGE_TABLE, write_change_tables),
    "dispatch-queue": Recorder(queue_settings(), write_queue),
    "linkexpress": Recorder(extract_settings(), write_extract),
}
