"""Lost rows: rows with an unreadable column whose transaction is known.

Such a row, for example text whose DATA is not hex, is rejected on its own.  Its transaction lacks an
operation and is rejected at its COMMIT, even in a later run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from publisher.formats.dispatch_queue.operations import Operations, RowKind
from publisher.formats.dispatch_queue.rows.rows import LostRow
from publisher.formats.dispatch_queue.transactions.facts import (
    TransactionRows,
    facts_of,
    other_facts,
)
from publisher.formats.dispatch_queue.transactions.fates import Fates
from publisher.ledger.durable import create_private
from publisher.model.change import Reason

LOST = "lost.arrow"
_LAST = (1 << 64) - 1
_SCHEMA = pa.schema(
    [
        ("node", pa.string()),
        ("transaction", pa.int64()),
        ("address", pa.uint64()),
        ("detail", pa.string()),
    ]
)


def lost_as_facts(rows: Sequence[LostRow]) -> Iterator[pa.RecordBatch]:
    """Yields lost rows as facts of faulty operations; without an address, a row affects all transactions
    with its number."""
    addressed = [(row, row.address) for row in rows if row.address is not None]
    nodes = tuple(sorted({row.node for row, _ in addressed}))
    zeros = np.zeros(len(addressed), np.int64)
    yield facts_of(
        TransactionRows(
            kind=zeros + RowKind.OPERATION,
            node=np.array([nodes.index(row.node) for row, _ in addressed], np.int64),
            nodes=nodes,
            transaction=np.array([row.transaction for row, _ in addressed], np.int64),
            address=np.array([address for _, address in addressed], np.uint64),
            lists=zeros,
            faults={place: row.detail for place, (row, _) in enumerate(addressed)},
        )
    )
    # of several rows of a transaction, report the first by its text, wherever the input is cut
    unplaced = sorted((row for row in rows if row.address is None), key=lambda row: row.detail)
    distinct = {(row.node, row.transaction): row for row in reversed(unplaced)}
    columns: dict[str, list[object]] = {
        "node": [row.node for row in distinct.values()],
        "transaction": [row.transaction for row in distinct.values()],
        "fault": [row.detail for row in distinct.values()],
        **{name: [0] * len(distinct) for name in ("first", "fault_first", "operations", "lists")},
        **{name: [_LAST] * len(distinct) for name in ("last", "fault_last")},
    }
    yield other_facts(RowKind.OPERATION, **columns)


def rows_of_open_transactions(rows: Sequence[LostRow], fates: Fates) -> Iterator[LostRow]:
    """Yields lost rows of open transactions.

    The transaction of a row without an address is open if none with its number has ended."""
    for row in rows:
        node, number = np.zeros(1, np.int64), np.array([row.transaction], np.int64)
        at = np.array([row.address or 0], np.uint64)
        if fates.span((row.node,), node, number, at)[0] < 0:
            yield row


def broken_operations(operations: Operations) -> list[int]:
    """Returns the operations whose names cannot be read: they are rejected, and so is their transaction."""
    return [n for n, fault in operations.faults.items() if fault.reason is Reason.BROKEN_RECORD]


def lost_rows_of_operations(operations: Operations) -> list[LostRow]:
    """Returns the lost rows of a split, and its operations whose names cannot be read."""
    node, number = operations.node, operations.column("TRANSACT_ID")
    return [*operations.rows.lost] + [
        LostRow(
            operations.rows.nodes[int(node[n])],
            int(number[n]),
            int(operations.address[n]),
            operations.faults[n].detail,
        )
        for n in broken_operations(operations)
    ]


def write_lost_rows(folder: Path, rows: Sequence[LostRow]) -> None:
    """Writes lost rows for the next run, each once; without lost rows it writes no file."""
    distinct = sorted({row[:3]: row for row in rows}.values(), key=repr)
    if distinct:
        table = pa.Table.from_pylist([row._asdict() for row in distinct], _SCHEMA)
        with create_private(folder / LOST) as file, pa.ipc.new_file(file, _SCHEMA) as writer:
            writer.write_table(table)


def lost_rows_of(table: pa.Table) -> tuple[LostRow, ...]:
    """Restores the rows that ``write_lost_rows`` wrote."""
    return tuple(LostRow(**row) for row in table.to_pylist())
