"""Operations as JSON text: the envelope as it is, the images in hex."""

from __future__ import annotations

import datetime as dt

from publisher.sources.columns.record_batches import as_json
from publisher.sources.dispatch_queue.operations import Operations
from publisher.sources.dispatch_queue.rows.layout import FRACTIONS, INTEGERS
from publisher.sources.dispatch_queue.transactions.facts import address_text

_START = dt.datetime(1990, 1, 1)  # noqa: DTZ001 - local time, nobody says of which zone


def raw_of(operations: Operations, number: int) -> str:
    """An operation as JSON text: columns of its first row, images in hex where they can be told apart,
    else DATA of each row."""
    rows = operations.rows
    members = operations.rows_of(number)
    row = members[0]
    shown: dict[str, object] = {
        "rows": [int(rows.numbers[member]) for member in members],
        "OPER_DATE": _date(int(rows.seconds[row]), int(rows.fractions[row])),
        "DBNODE": rows.nodes[rows.node[row]],
    }
    shown |= {name: int(rows.integers[name][row]) for name in INTEGERS}
    shown["SYSLOG_ADDR"] = address_text(int(rows.address[row]))
    shown |= dict(
        zip(
            ("DST_SERVER", "DST_OWNER", "DST_TABLE"),
            rows.destinations[rows.destination[row]],
            strict=True,
        )
    )
    return as_json(shown | _images(operations, number))


def _images(operations: Operations, number: int) -> dict[str, object]:
    rows, members = operations.rows, operations.rows_of(number)
    if operations.whole[number]:
        one, two = operations.segments(number)
        return {"first": operations.image(one).hex(), "second": operations.image(two).hex()}
    parts = []
    for member in members:
        at, size = int(rows.data_at[member]), int(rows.data_bytes[member])
        parts.append(rows.data[at : at + size].tobytes().rstrip(b"\0").hex())
    return {"data": parts}


def _date(seconds: int, fraction: int) -> str:
    """OPER_DATE as it is written there: local time, nobody says of which zone."""
    moment = _START + dt.timedelta(seconds=seconds, microseconds=fraction * 1_000_000 // FRACTIONS)
    return moment.isoformat(sep=" ", timespec="microseconds")
