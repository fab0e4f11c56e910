"""Extract files of Linkexpress, exports of DISPATCH_QUEUE, samples of the table queue."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from publisher.change import Outcome
from publisher.sources.dispatch_queue import DispatchQueue
from publisher.sources.dispatch_queue import layout as row_layout
from publisher.sources.linkexpress import Linkexpress
from publisher.sources.linkexpress import Options as LinkexpressOptions
from publisher.sources.linkexpress.layout import form_of, word_offsets, word_type
from tests.fuzz.form import Claim, Content, Form, Framing, Made, Piece
from tests.fuzz.reading import reader_of
from tests.unit.dispatch_queue_files import BIG, Queue, Row, binary, delimited, image
from tests.unit.dispatch_queue_files import OPTIONS as QUEUE
from tests.unit.dispatch_queue_files import jack as queue_image
from tests.unit.linkexpress_files import GROUP, JNL, NULL, OPEN, little, mark, record

_TEXTS = (b"Ann     ", b"\x93\xfa\x96\x7b    ", b"        ")


def _extract(options: LinkexpressOptions) -> Callable[[random.Random, int], Made]:
    words = form_of(options).words
    header = tuple(
        (at, word_type(word, "big").itemsize) for word, at in word_offsets(words).items()
    )
    in_group = options.unit == "group"

    def make(chance: random.Random, count: int) -> Made:
        pieces: list[Piece] = []
        transaction = 0
        for _ in range(count):
            if in_group and chance.random() < 0.2:
                pieces.append(Piece(mark(options), words=header[:2], transaction=transaction))
                transaction += 1
                continue
            data = _extracted(chance, options)
            pieces.append(Piece(data, words=header, transaction=transaction if in_group else -1))
        return Made(
            b"", [p._replace(transaction=-1) if p.transaction == transaction else p for p in pieces]
        )

    return make


def _extracted(chance: random.Random, options: LinkexpressOptions) -> bytes:
    code = 0 if options.extract == "all" else chance.randint(1, 3)
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


def _within(content: Content) -> Content:
    """Without what the mark at the end of its transaction says."""
    if content["outcome"] == Outcome.HELD:
        content = content | {"outcome": None, "reason": None, "detail": None}
    return content | {"transaction": None}


def _linkexpress(name: str, options: LinkexpressOptions) -> Form:
    form, in_group = form_of(options), options.unit == "group"
    sample = random.Random(0)
    stride = 0 if form.has_length else len(_extracted(sample, options))
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


def _queue_rows(chance: random.Random, count: int) -> list[Row]:
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
                rows += _operation(chance, queue, at, names)
    return rows


def _operation(
    chance: random.Random, queue: Queue, at: int, names: tuple[str | None, ...]
) -> list[Row]:
    typ = chance.choice((1, 2, 2, 3, 3))
    key = chance.randrange(1 << 31)
    one, two = (queue_image(key, chance.choice(names), chance.choice(names)) for _ in range(2))
    if chance.random() < 0.05:
        one, two = (image(BIG, [key, "x", name]) for name in ("old", "new"))
        return queue.rows(3, one, two, TRANSACT_ID=at, TABNUM_SRC=8)
    return queue.rows(typ, one, two if typ == 3 else b"", TRANSACT_ID=at)


def _claims(row: Row) -> frozenset[Claim]:
    found: set[Claim] = {("transaction", row["TRANSACT_ID"])}
    return frozenset(found)


def _marked(
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


def _in_rows(stride: int) -> Callable[[random.Random, int], Made]:
    fields = row_layout.row_type(stride=stride).fields
    assert fields is not None
    words = tuple((fields[n][1], fields[n][0].itemsize) for n in row_layout.INTEGERS)

    def make(chance: random.Random, count: int) -> Made:
        rows = _queue_rows(chance, count)
        datas = (binary([row], stride=stride) for row in rows)
        return Made(b"", _marked(rows, datas, words))

    return make


def _in_text(chance: random.Random, count: int) -> Made:
    rows = _queue_rows(chance, count)
    head, *lines = delimited(rows).encode().splitlines(keepends=True)
    return Made(head, _marked(rows, lines, ()))


def _binary_claims() -> Callable[[bytes], Iterable[Claim]]:
    """Transactions that rows at any offset of a stretch may be of; damage moves rows."""
    kind = row_layout.row_type(stride=row_layout.ROW_BYTES)
    assert kind.fields is not None
    typs, lens = (kind.fields[name][1] for name in ("TYP", "LEN1"))

    def claimed(data: bytes) -> Iterable[Claim]:
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

    return claimed


def _text_claims(data: bytes) -> Iterable[Claim]:
    """Numbers of transactions in a stretch, and whether its operations may be of the other list."""
    for digits in set(_digits(data)):
        yield ("transaction", int(digits))
    yield ("list a",)


def _digits(data: bytes) -> Iterable[bytes]:
    found = bytes(byte if 48 <= byte < 58 else 32 for byte in data).split()
    return (digits for digits in found if len(digits) < 20)


def _queue(name: str, file: str, make: Callable[[random.Random, int], Made], stride: int) -> Form:
    options = replace(QUEUE, parts="totals", row_stride=stride or "auto")  # type: ignore[arg-type]
    return Form(
        name=f"dispatch-queue {name}",
        format="dispatch-queue",
        file=file,
        read=reader_of(DispatchQueue(options)),
        make=make,
        framing=Framing.STRIDE if stride else Framing.LINES,
        stride=stride,
        claimed=_binary_claims() if stride else _text_claims,
        address="number" if stride else "line",
    )


FORMS = [
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
