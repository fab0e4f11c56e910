"""A small DISPATCH_QUEUE, in binary and as text."""

from __future__ import annotations

from pathlib import Path

from publisher.formats.dispatch_queue import DispatchQueue
from tests.support.dispatch_queue_files import BIG, Queue, binary, delimited_text, image
from tests.support.dispatch_queue_files import OPTIONS as QUEUE
from tests.support.dispatch_queue_files import jack as queue_image
from tests.support.source_contract import (
    Sample,
    count_csv,
)


def queue_rows() -> list[dict[str, object]]:
    """Transactions that interleave, one with an operation of three parts, one with a wrong image."""
    queue = Queue()
    old, new = (image(BIG, [4, "x", name]) for name in ("old", "new"))
    return [
        queue.row(2, queue_image(1), TRANSACT_ID=1),
        queue.row(3, queue_image(1), queue_image(2), TRANSACT_ID=2),
        *queue.rows(3, old, new, TRANSACT_ID=1, TABNUM_SRC=8),
        queue.row(2, b"short", TRANSACT_ID=3),
        queue.row(4, TRANSACT_ID=1),
        queue.row(1, queue_image(5), TRANSACT_ID=3),
        queue.row(4, TRANSACT_ID=2),
        queue.row(4, TRANSACT_ID=3),
        queue.row(2, queue_image(6), TRANSACT_ID=4),
    ]


def queue_in_binary(path: Path) -> Path:
    path.write_bytes(binary(queue_rows()))
    return path


def queue_in_text(path: Path) -> Path:
    path.write_text(delimited_text(queue_rows()))
    return path


NO_USER = frozenset({"perpetrator"})

SAMPLES = (
    Sample(
        "queue.dat",
        DispatchQueue(QUEUE),
        queue_in_binary,
        11,
        None,
        NO_USER,
    ),
    Sample("queue.csv", DispatchQueue(QUEUE), queue_in_text, 11, count_csv, NO_USER),
)
