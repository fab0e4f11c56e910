"""Event logs, change tables and tables without triggers, as text and as Parquet."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.event_log.layout import LAYOUT
from publisher.formats.event_log.source import event_log
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.source import Triggerless
from tests.fuzz.form import Claim, Content, Form, Framing, MadeFile, Piece
from tests.fuzz.reading import reader_of
from tests.support.change_masks import mask_of
from tests.support.change_table_files import HEADERS
from tests.support.change_table_files import record as change
from tests.support.change_table_files import seq as change_seq
from tests.support.event_log_files import Row, Tables, event

NAMES = (
    "Ann",
    "Žofie",
    "O'Neil & Sons",
    "Li 伟",
    "",
    'a "b", c',
    "x" * 300,
    "Müller <m@example.org>",
)
BREAKS = (*NAMES, "two\nlines", "and\r\nthree\n\n")
COLUMNS = (*HEADERS, "idu", "fname", "lname", "photo")
_SEQ = re.compile(rb"[0-9]{35}")
_NUMBER = re.compile(rb"[0-9]{6,}")

Rows = Callable[[random.Random, int, Sequence[str]], Iterable[tuple[Row, frozenset[Claim]]]]


def _csv(row: Row) -> bytes:
    cells = ("" if v is None else '"' + str(v).replace('"', '""') + '"' for v in row.values())
    return ",".join(cells).encode() + b"\n"


def _json(row: Row) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _writer_of(
    rows: Rows, kind: str, names: Sequence[str]
) -> Callable[[random.Random, int], MadeFile]:
    """Returns the function that makes files of rows in CSV or JSON lines."""
    line = _csv if kind == "csv" else _json

    def make(chance: random.Random, count: int) -> MadeFile:
        found = list(rows(chance, count, names))
        head = ",".join(found[0][0]).encode() + b"\n" if kind == "csv" else b""
        return MadeFile(head, [Piece(line(row), claims) for row, claims in found])

    return make


def parquet(lines: bytes) -> bytes:
    """JSON lines as a Parquet file of some row groups."""
    rows = [json.loads(line) for line in lines.split(b"\n") if line]
    names = list(rows[0]) if rows else list(COLUMNS)
    columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=16, write_page_checksum=True)
    return sink.getvalue()


def pack(text: bytes) -> bytes:
    return gzip.compress(text, 1, mtime=0)


def events(
    chance: random.Random, count: int, names: Sequence[str]
) -> Iterable[tuple[Row, frozenset[Claim]]]:
    """Event types 1 to 8 on some objects, some processed already."""
    number = chance.randrange(1, 10_000)
    for _ in range(count):
        number += chance.choice((1, 1, 2, 50))
        kind = chance.randint(1, 8)
        per_row = kind in (4, 5, 6)
        row = event(
            str(number),
            table_key=f"idu={chance.randrange(1000)}",
            status=chance.choice("NNNNNNNS"),
            event_type=str(kind),
            perpetrator=chance.choice((None, "hr", "portal")),
            column_name=None if per_row else chance.choice(("fname", "lname")),
            old_value=chance.choice(names) if kind == 2 else None,
            new_value=None if per_row or kind > 6 else chance.choice(names),
        )
        yield row, frozenset()


def changes(
    chance: random.Random, count: int, names: Sequence[str]
) -> Iterable[tuple[Row, frozenset[Claim]]]:
    """Inserts, updates with and without before image wherever it lies, deletes."""
    rows: list[tuple[Row, frozenset[Claim]]] = []
    while len(rows) < count:
        number = chance.randrange(10**18)
        claims: frozenset[Claim] = frozenset({("seq", change_seq(number))})
        key = str(chance.randrange(1000))
        row: dict[str, Any] = {
            "idu": key,
            "fname": chance.choice(names),
            "lname": chance.choice(names),
            "photo": "00ff",
        }
        kind = chance.choice("IUUUD")
        place = chance.randint(max(0, len(rows) - 30), len(rows))
        if kind == "I":
            rows.insert(place, (change(number, "I", range(4), **row), claims))
        elif kind == "D":
            rows.insert(place, (change(number, "D", [0], idu=key), claims))
        else:
            after = row | {"fname": chance.choice(names) + "!"}
            rows.insert(place, (change(number, "U", [1], **after), claims))
            if chance.random() < 0.7:
                before = change(number, "B", **row)
                rows.insert(chance.randint(place, len(rows)), (before, claims))
    for record, claims in rows:
        yield {name: record.get(name) for name in COLUMNS}, claims


def seqs(data: bytes) -> Iterable[Claim]:
    """Every change_seq in bytes, also where digits stand before or behind it."""
    for match in re.finditer(rb"[0-9]{35,}", data):
        digits = match.group().decode()[:2000]
        yield from (("seq", digits[at : at + 35]) for at in range(len(digits) - 34))


def people(
    chance: random.Random, count: int, names: Sequence[str]
) -> Iterable[tuple[Row, frozenset[Claim]]]:
    """Rows of a table, each with a key of its own."""
    for idu in chance.sample(range(100_000, 999_999), count):
        row: Row = {
            "idu": str(idu),
            "fname": chance.choice(names),
            "lname": chance.choice((None, *names)),
            "photo": None,
        }
        yield row, frozenset({("key", f"idu={idu}")})


def keys(data: bytes) -> Iterable[Claim]:
    for match in _NUMBER.finditer(data):
        digits = match.group().decode()[:2000]
        yield from (("key", f"idu={digits[at : at + 6]}") for at in range(len(digits) - 5))


def messages(chance: random.Random, count: int) -> MadeFile:
    """The JSON messages of change tables; no two of them mean anything together."""
    pieces = []
    for _ in range(count):
        image = {"idu": chance.randrange(1000), "fname": chance.choice(NAMES), "lname": None}
        other = image | {"fname": chance.choice(NAMES) + "!"}
        kind = chance.choice(("INSERT", "UPDATE", "UPDATE", "DELETE"))
        headers = {
            "operation": kind,
            "changeSequence": change_seq(chance.randrange(10**18)),
            "timestamp": "2023-03-21T21:34:19.511",
            "transactionId": "0A",
            "schema": "indirect",
            "table": "usr",
        }
        data, before = (None, image) if kind == "DELETE" else (image, None)
        if kind == "UPDATE":
            headers["changeMask"] = mask_of(2, "msb")
            before = other if chance.random() < 0.7 else None
        message: Row = {"data": data, "beforeData": before, "headers": headers}
        pieces.append(Piece(_json(message)))
    return MadeFile(b"", pieces)


assert LAYOUT["3.5"] == tuple(event())
_SMALL = SnapshotOptions(block_size=4096, max_record=100_000)
_CHANGES = ChangeTableOptions(
    source_table="indirect.usr", binary_text="hex", mask_order="msb", header_columns=7, key=("idu",)
)
_PEOPLE = TriggerlessOptions(tables=("usr",), key={"usr": ("idu",)})
_CSV, _JSONL, _PARQUET = "csv", "jsonl", "parquet"


def _log(kind: str, options: SnapshotOptions = _SMALL) -> Form:
    log = event_log(snapshot=options)
    return _form("event-log", kind, events, reader_of(log, Tables()), options)


def _form(
    format_: str,
    kind: str,
    rows: Rows,
    read: object,
    options: SnapshotOptions = _SMALL,
    claimed: Callable[[bytes], Iterable[Claim]] | None = None,
    compared: bool = False,
) -> Form:
    framings = {_CSV: Framing.QUOTED, _JSONL: Framing.LINES, _PARQUET: Framing.ROWS}
    return Form(
        name=f"{format_} {kind}",
        format=format_,
        file=f"usr.{kind}",
        read=read,  # type: ignore[arg-type]
        make=_writer_of(rows, _CSV if kind == _CSV else _JSONL, BREAKS if kind == _CSV else NAMES),
        framing=framings[kind],
        claimed=claimed or (lambda data: ()),
        pack=parquet if kind == _PARQUET else None,
        address="key" if compared else "number" if kind == _PARQUET else "line",
        unseen=frozenset({"row", "high", "low"}) if compared else frozenset(),
        loose=_by_name if compared else None,
    )


def _by_name(content: Content) -> Content:
    """Columns in the order of their names: the first objects of a file give another."""
    if not content["columns"] or content["new"] is None:
        return content
    pairs = sorted(zip(content["columns"], content["new"], strict=True), key=lambda pair: pair[0])
    return content | {"columns": [n for n, _ in pairs], "new": [v for _, v in pairs]}


def _table(kind: str, options: SnapshotOptions = _SMALL) -> Form:
    read = reader_of(ChangeTable(_CHANGES, options))
    return _form("change-table", kind, changes, read, options, seqs)


def _compared_form(kind: str, options: SnapshotOptions = _SMALL) -> Form:
    read = reader_of(Triggerless(_PEOPLE, options))
    return _form("triggerless", kind, people, read, options, keys, compared=True)


FORMS = [
    *(_log(_CSV), _log(_JSONL), _log(_PARQUET)),
    Form(
        name="event-log csv.gz",
        format="event-log",
        file="usr.csv.gz",
        read=reader_of(event_log(snapshot=_SMALL), Tables()),
        make=_writer_of(events, _CSV, BREAKS),
        framing=Framing.QUOTED,
        pack=pack,
    ),
    *(_table(_CSV), _table(_JSONL), _table(_PARQUET)),
    Form(
        name="change-table messages",
        format="change-table",
        file="usr.jsonl",
        read=reader_of(
            ChangeTable(
                ChangeTableOptions(
                    layout="messages", mask_order="msb", header_columns=0, key=("idu",)
                ),
                _SMALL,
            )
        ),
        make=messages,
        framing=Framing.LINES,
    ),
    *(_compared_form(_CSV), _compared_form(_JSONL), _compared_form(_PARQUET)),
]
