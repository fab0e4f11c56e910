"""Operations as JSON text, with row images in hex."""

from __future__ import annotations

import datetime as dt

from publisher.formats.columns.record_batches import as_json
from publisher.formats.dispatch_queue.operations import Operations
from publisher.formats.dispatch_queue.rows.layout import FRACTIONS, INTEGERS
from publisher.formats.dispatch_queue.transactions.facts import address_text

EPOCH = dt.datetime(1990, 1, 1)  # noqa: DTZ001 - local time of an unknown zone
"""Start of OPER_DATE."""


def raw_of(operations: Operations, number: int) -> str:
    """Formats an operation as JSON: columns of its first row, and its images, or DATA of each row if the
    images cannot be separated."""
    rows = operations.rows
    members = operations.rows_of(number)
    row = members[0]
    content: dict[str, object] = {
        "rows": [int(rows.numbers[member]) for member in members],
        "OPER_DATE": _date(int(rows.seconds[row]), int(rows.fractions[row])),
        "DBNODE": rows.nodes[rows.node[row]],
    }
    content |= {name: int(rows.integers[name][row]) for name in INTEGERS}
    content["SYSLOG_ADDR"] = address_text(int(rows.address[row]))
    content |= dict(
        zip(
            ("DST_SERVER", "DST_OWNER", "DST_TABLE"),
            rows.destinations[rows.destination[row]],
            strict=True,
        )
    )
    return as_json(content | _images(operations, number))


def _images(operations: Operations, number: int) -> dict[str, object]:
    rows, members = operations.rows, operations.rows_of(number)
    if operations.whole[number]:
        first, second = operations.segments(number)
        return {"first": operations.image(first).hex(), "second": operations.image(second).hex()}
    parts = []
    for member in members:
        at, size = int(rows.data_at[member]), int(rows.data_bytes[member])
        parts.append(rows.data[at : at + size].tobytes().rstrip(b"\0").hex())
    return {"data": parts}


def _date(seconds: int, fraction: int) -> str:
    """Formats OPER_DATE as local time; its zone is unknown."""
    moment = EPOCH + dt.timedelta(seconds=seconds, microseconds=fraction * 1_000_000 // FRACTIONS)
    return moment.isoformat(sep=" ", timespec="microseconds")
