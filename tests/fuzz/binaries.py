"""Extract files of Linkexpress, exports of DISPATCH_QUEUE, samples of the table queue."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from publisher.formats.dispatch_queue import DispatchQueue, DispatchQueueOptions
from publisher.formats.dispatch_queue.options import QueueTable
from publisher.formats.dispatch_queue.rows import layout as row_layout
from publisher.formats.linkexpress import Linkexpress, LinkexpressOptions
from publisher.formats.linkexpress.layout import form_of, word_offsets, word_type
from publisher.formats.linkexpress.options import ExtractedTable
from publisher.model.change import Outcome
from tests.fuzz.form import Claim, Content, Form, Framing, MadeFile, Piece
from tests.fuzz.reading import reader_of
from tests.support.dispatch_queue_files import BIG, Queue, Row, binary, delimited_text, image
from tests.support.dispatch_queue_files import OPTIONS as QUEUE
from tests.support.dispatch_queue_files import jack as queue_image
from tests.support.linkexpress_files import GROUP, JNL, NULL, OPEN, little, mark, record

_EVERY_ITEM = ExtractedTable(
    name="usr",
    key=("idu",),
    items=(
        "idu INTEGER",
        "small SMALLINT",
        "single REAL",
        "wide DOUBLE PRECISION",
        "zoned NUMERIC(5,2)",
        "day DATE",
        "clock TIME",
        "moment TIMESTAMP",
        "age INTERVAL YEAR(4) TO MONTH",
        "work INTERVAL DAY TO SECOND",
        "title NCHAR(3)",
        "alias NCHAR VARYING(4)",
        "photo BLOB(12)",
    ),
    xid=1,
)
_EVERY_COLUMN = QueueTable(
    number=7,
    name="usr",
    columns=(
        "idu INTEGER",
        "big BIGINT",
        "single REAL",
        "wide DOUBLE",
        "pay DECIMAL(9,2)",
        "born DATE",
        "active BOOLEAN(1)",
        "code BYTE(6)",
        "title NCHAR(4)",
        "alias NVARCHAR(4)",
        "raw VARBYTE(8)",
    ),
    key=("idu",),
)
_TEXTS = (b"Ann     ", b"\x93\xfa\x96\x7b    ", b"        ")


def _extract(options: LinkexpressOptions) -> Callable[[random.Random, int], MadeFile]:
    words = form_of(options).words
    header = tuple(
        (at, word_type(word, "big").itemsize) for word, at in word_offsets(words).items()
    )
    in_group = options.unit == "group"

    def make(chance: random.Random, count: int) -> MadeFile:
        pieces: list[Piece] = []
        transaction = 0
        for _ in range(count):
            if in_group and chance.random() < 0.2:
                pieces.append(Piece(mark(options), words=header[:2], transaction=transaction))
                transaction += 1
                continue
            data = _extract_record(chance, options)
            pieces.append(Piece(data, words=header, transaction=transaction if in_group else -1))
        return MadeFile(
            b"", [p._replace(transaction=-1) if p.transaction == transaction else p for p in pieces]
        )

    return make


def _extract_record(chance: random.Random, options: LinkexpressOptions) -> bytes:
    code = 0 if options.extract == "all" else chance.randint(1, 3)
    if options.tables[0].items == _EVERY_ITEM.items:
        return record(options, 0, code, _every_item(chance))
    number = chance.randrange(len(options.tables))
    if number:
        title = chance.choice((NULL, "北京".encode("cp932") + "　　".encode("cp932")))
        return record(options, 1, code, [chance.randrange(1, 1000), title])
    note = chance.choice((b"", b"abc", b"123456"))
    values = [
        chance.randrange(1 << 31),
        chance.choice(_TEXTS),
        bytes.fromhex(chance.choice(("12345C", "00001D", "99999F"))),
        {"length": len(note), "data": note},
    ]
    for place in (1, 2, 3):
        if options.nulls and chance.random() < 0.2:
            values[place] = NULL
    return record(options, number, code, values)


def _every_item(chance: random.Random) -> list[Any]:
    day = {"year": chance.randint(1, 9999), "month": chance.randint(1, 12), "day": 28}
    clock = {"hour": chance.randrange(24), "minute": chance.randrange(60), "second": 59}
    sign = chance.choice((b"+", b"-"))
    wide = "北京 ".encode("utf-16-be")
    photo = chance.randbytes(chance.randint(0, 12))
    values: list[Any] = [
        chance.randrange(1 << 31),
        chance.randint(-(1 << 15), (1 << 15) - 1),
        chance.uniform(-1e9, 1e9),
        chance.uniform(-1e99, 1e99),
        sign + b"%05d" % chance.randrange(10**5),
        day,
        clock,
        {"date": day, "time": clock},
        {"sign": sign, "YEAR": chance.randrange(9999), "MONTH": chance.randrange(12)},
        {"sign": sign, "DAY": chance.randrange(99), "HOUR": 23, "MINUTE": 1, "SECOND": 0},
        wide,
        {"length": 2, "data": wide[:4]},
        {"length": len(photo), "data": photo},
    ]
    return [NULL if place and chance.random() < 0.1 else v for place, v in enumerate(values)]


def _every_column(chance: random.Random) -> bytes:
    ticks = b"\2" + bytes.fromhex(f"{chance.randrange(10**13):020d}{0:010d}")
    pay = b"\2" + bytes.fromhex(f"{chance.randrange(1, 10**6):020d}{0:010d}")
    values: list[Any] = [
        chance.randrange(1 << 31),
        chance.randint(-(1 << 63), (1 << 63) - 1),
        chance.uniform(-1e9, 1e9),
        chance.uniform(-1e99, 1e99),
        pay,
        ticks,
        chance.choice((b"\1", b"\0")),
        chance.randbytes(6),
        "Жан ".encode("utf-16-le"),
        "Жа".encode("utf-16-le"),
        chance.randbytes(chance.randint(0, 8)),
    ]
    chosen = [None if place and chance.random() < 0.1 else v for place, v in enumerate(values)]
    return image(_EVERY_COLUMN, chosen, QUEUE_OF_ALL)


def _within(content: Content) -> Content:
    """Without what the mark at the end of its transaction says."""
    if content["outcome"] == Outcome.HELD:
        content = content | {"outcome": None, "reason": None, "detail": None}
    return content | {"transaction": None}


def _linkexpress(name: str, options: LinkexpressOptions) -> Form:
    form, in_group = form_of(options), options.unit == "group"
    sample = random.Random(0)
    stride = 0 if form.has_length else len(_extract_record(sample, options))
    return Form(
        name=f"linkexpress {name}",
        format="linkexpress",
        file="usr.dat",
        read=reader_of(Linkexpress(options)),
        make=_extract(options),
        framing=Framing.LENGTHS if form.has_length else Framing.STRIDE,
        stride=stride,
        address="offset",
        loose=_within if in_group else None,
        unseen=frozenset({"high"}),
    )


def _queue_rows(chance: random.Random, count: int, every: bool = False) -> list[Row]:
    """Transactions that interleave, with operations of several rows; all are closed but some."""
    queue = Queue(address=chance.randrange(1 << 40))
    names = ("Ann", "Жанна", "Jim", None)
    rows: list[Row] = []
    live: list[int] = []
    while len(rows) < count:
        if len(live) < 4 and chance.random() < 0.4:
            live.append(chance.randrange(1 << 48))
        elif live:
            at = chance.choice(live)
            if chance.random() < 0.2:
                rows.append(queue.row(chance.choice((4, 4, 4, 10)), TRANSACT_ID=at))
                live.remove(at)
            else:
                rows += _operation(chance, queue, at, names, every)
    return rows


def _operation(
    chance: random.Random, queue: Queue, at: int, names: tuple[str | None, ...], every: bool
) -> list[Row]:
    typ = chance.choice((1, 2, 2, 3, 3))
    if every:
        two = _every_column(chance) if typ == 3 else b""
        return queue.rows(typ, _every_column(chance), two, TRANSACT_ID=at)
    key = chance.randrange(1 << 31)
    one, two = (queue_image(key, chance.choice(names), chance.choice(names)) for _ in range(2))
    if chance.random() < 0.05:
        one, two = (image(BIG, [key, "x", name]) for name in ("old", "new"))
        return queue.rows(3, one, two, TRANSACT_ID=at, TABNUM_SRC=8)
    return queue.rows(typ, one, two if typ == 3 else b"", TRANSACT_ID=at)


def _claims(row: Row) -> frozenset[Claim]:
    found: set[Claim] = {("transaction", row["TRANSACT_ID"])}
    return frozenset(found)


def _pieces_of(
    rows: list[Row], datas: Iterable[bytes], words: tuple[tuple[int, int], ...]
) -> list[Piece]:
    """Rows as pieces; transactions that list a of TYP alone has share a claim beside their own."""
    of_a = {row["TRANSACT_ID"] for row in rows if row["TYP"] >= 7}
    return [
        Piece(
            data,
            _claims(row) | ({("list a",)} if row["TRANSACT_ID"] in of_a else frozenset()),
            words,
        )
        for row, data in zip(rows, datas, strict=True)
    ]


def _in_rows(stride: int, every: bool = False) -> Callable[[random.Random, int], MadeFile]:
    fields = row_layout.row_type(stride=stride).fields
    assert fields is not None
    words = tuple((fields[n][1], fields[n][0].itemsize) for n in row_layout.INTEGERS)

    def make(chance: random.Random, count: int) -> MadeFile:
        rows = _queue_rows(chance, count, every)
        datas = (binary([row], stride=stride) for row in rows)
        return MadeFile(b"", _pieces_of(rows, datas, words))

    return make


def _in_text(chance: random.Random, count: int) -> MadeFile:
    rows = _queue_rows(chance, count)
    head, *lines = delimited_text(rows).encode().splitlines(keepends=True)
    return MadeFile(head, _pieces_of(rows, lines, ()))


def _binary_claims() -> Callable[[bytes], Iterable[Claim]]:
    """Transactions that rows at any offset of a stretch may be of; damage moves rows."""
    kind = row_layout.row_type(stride=row_layout.ROW_BYTES)
    assert kind.fields is not None
    typs, lens = (kind.fields[name][1] for name in ("TYP", "LEN1"))

    def claims(data: bytes) -> Iterable[Claim]:
        if len(data) < 8:
            return
        every = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), 8)
        numbers = np.unique(np.ascontiguousarray(every).view("<i8"))
        yield from (("transaction", number) for number in numbers.tolist())
        for match in re.finditer(rb"(?=\x04\x00)", data):
            at = match.start() + lens - typs
            if any(data[at : at + 4]):
                yield ("list a",)
                return

    return claims


def _text_claims(data: bytes) -> Iterable[Claim]:
    """Numbers of transactions in a stretch, and whether its operations may be of the other list."""
    for digits in set(_digits(data)):
        yield ("transaction", int(digits))
    yield ("list a",)


def _digits(data: bytes) -> Iterable[bytes]:
    found = bytes(byte if 48 <= byte < 58 else 32 for byte in data).split()
    return (digits for digits in found if len(digits) < 20)


def _queue(
    name: str,
    file: str,
    make: Callable[[random.Random, int], MadeFile],
    stride: int,
    used: DispatchQueueOptions = QUEUE,
) -> Form:
    options = replace(used, parts="totals", row_stride=stride or "auto")  # type: ignore[arg-type]
    return Form(
        name=f"dispatch-queue {name}",
        format="dispatch-queue",
        file=file,
        read=reader_of(DispatchQueue(options)),
        make=make,
        framing=Framing.STRIDE if stride else Framing.QUOTED,
        stride=stride,
        claimed=_binary_claims() if stride else _text_claims,
        address="number" if stride else "line",
    )


QUEUE_OF_ALL = replace(
    QUEUE,
    tables=(_EVERY_COLUMN,),
    nchar_order="little",
    boolean_true="01",
    boolean_false="00",
    date_coding="decimal_ticks",
)
_EVERY = replace(
    JNL, tables=(_EVERY_ITEM,), national_charset="UCS-2", blob_head=8, byte_order="big"
)
FORMS = [
    _linkexpress("all items", _EVERY),
    _linkexpress("all items little", little(_EVERY)),
    _queue("all columns", "queue.dat", _in_rows(3596, every=True), 3596, QUEUE_OF_ALL),
    _linkexpress("open", OPEN),
    _linkexpress("open all", replace(OPEN, extract="all", nulls=False, byte_order="big")),
    _linkexpress("open little", little(OPEN)),
    _linkexpress("jnl", JNL),
    _linkexpress("jnl little", little(JNL)),
    _linkexpress("group", GROUP),
    _linkexpress("group little", little(replace(GROUP, nulls=False))),
    _queue("rows", "queue.dat", _in_rows(3596), 3596),
    _queue("padded rows", "queue.dat", _in_rows(3600), 3600),
    _queue("text", "queue.csv", _in_text, 0),
]
