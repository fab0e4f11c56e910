"""Facts about the transactions in a split, from which the fates of all transactions are resolved.

An operation belongs to the first COMMIT or ROLLBACK of its database and transaction number at the same or a
higher address, so a reused number is another transaction.  Each split gives a few *facts* per transaction.
The facts of all splits determine the *fates*, whatever the order of rows and the cuts between splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.byte_areas import begins_run
from publisher.formats.columns.record_batches import batch_of
from publisher.formats.dispatch_queue.operations import RowKind

Codes = npt.NDArray[np.int64]
Addresses = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

CHUNK = 4096
"""Maximum number of operations in one fact, and therefore the maximum error of a rank."""


class FactKind(IntEnum):
    """Kinds of facts besides operations and marks, whose kind is their ``RowKind``."""

    ENDED = 4
    """A mark that an earlier run has read."""
    FLOOR = 5
    """The address up to which transactions of earlier runs are forgotten."""
    TABLE = 6
    """A table: its number in ``transaction``, database and names in ``node`` (see ``owners``)."""


class ListEvidence(IntFlag):
    """Evidence for one of the two lists of TYP."""

    LIST_A = 1
    """Codes 7 to 10."""
    LIST_B = 2
    """Code 4 with data."""
    COMMIT_OF_A = 4
    """Code 4 without data."""


FACTS = pa.schema(
    [
        ("kind", pa.int8()),
        ("node", pa.string()),
        ("transaction", pa.int64()),
        ("first", pa.uint64()),
        ("last", pa.uint64()),
        ("operations", pa.int64()),
        ("fault_first", pa.uint64()),
        ("fault_last", pa.uint64()),
        ("fault", pa.string()),
        ("lists", pa.int8()),
    ]
)
"""One row for each mark (``first`` is its address), and one for each chunk of operations of a transaction:
their lowest and highest address, their number, the lowest and highest faulty address, and the fault at the
lowest (the first by its text, if several operations have this address)."""


class TransactionRows(NamedTuple):
    """The operations and marks of a split, reduced to columns that matter for transactions."""

    kind: Codes
    node: Codes
    nodes: tuple[str, ...]
    transaction: Codes
    address: Addresses
    lists: Codes
    faults: dict[int, str]
    """Details of the faults, by the place of the row."""


def facts_of(rows: TransactionRows) -> pa.RecordBatch:
    """Summarises the operations and marks of a split as facts."""
    is_mark = rows.kind != RowKind.OPERATION
    order = np.lexsort((is_mark, rows.address, rows.transaction, rows.node))
    heads = _chunk_heads(rows, order, is_mark)
    counts = np.diff(np.append(heads, len(order)))
    first, last = order[heads], order[heads + counts - 1] if len(heads) else order
    chunk_of = np.repeat(np.arange(len(heads)), counts)
    faulty: dict[int, list[int]] = {}
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    addresses = rows.address
    # of several faults at one address, report the first by its text, wherever the input is cut
    for place in sorted(rows.faults, key=lambda at: (int(addresses[at]), rows.faults[at])):
        faulty.setdefault(int(chunk_of[rank[place]]), []).append(place)
    ends = [(f[0], f[-1]) if (f := faulty.get(n)) else None for n in range(len(heads))]
    lists = np.bitwise_or.reduceat(rows.lists[order], heads) if len(heads) else rows.lists
    return pa.RecordBatch.from_arrays(
        [
            pa.array(rows.kind[first], pa.int8()),
            pa.array(rows.nodes, pa.string()).take(pa.array(rows.node[first])),
            pa.array(rows.transaction[first]),
            pa.array(addresses[first]),
            pa.array(addresses[last]),
            pa.array(np.where(is_mark[first], 0, counts)),
            pa.array([None if e is None else int(addresses[e[0]]) for e in ends], pa.uint64()),
            pa.array([None if e is None else int(addresses[e[1]]) for e in ends], pa.uint64()),
            pa.array([None if e is None else rows.faults[e[0]] for e in ends], pa.string()),
            pa.array(lists, pa.int8()),
        ],
        schema=FACTS,
    )


def other_facts(kind: int, **columns: Sequence[object]) -> pa.RecordBatch:
    """Builds facts of another kind, with some of the columns."""
    (count,) = {len(values) for values in columns.values()}
    return batch_of(FACTS, count, kind=kind, **columns)


def of_kind(facts: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    """Returns the facts of one kind."""
    return facts.filter(pc.equal(facts.column("kind"), kind))


def of_transactions(facts: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the facts about operations and marks."""
    return facts.filter(pc.less(facts.column("kind"), FactKind.TABLE))


def _chunk_heads(rows: TransactionRows, order: Codes, is_mark: Mask) -> Codes:
    """Finds the places where chunks begin: at another transaction, mark or log file, or after ``CHUNK``
    operations."""
    if not len(order):
        return order
    file = rows.address >> np.uint64(32)
    begins = begins_run(*(column[order] for column in (rows.node, rows.transaction, file)))
    marks = is_mark[order]
    begins |= marks
    begins[1:] |= marks[:-1]
    runs = np.flatnonzero(begins)
    within = np.arange(len(order)) - np.repeat(runs, np.diff(np.append(runs, len(order))))
    return np.flatnonzero(begins | (within % CHUNK == 0))


_HIGHEST_BIT = 1 << 63


def signed_addresses(addresses: Addresses) -> Codes:
    """Converts unsigned addresses to the signed integers of positions, which keeps their order."""
    return (addresses ^ np.uint64(_HIGHEST_BIT)).view(np.int64)


def unsigned_address(number: int) -> int:
    """Converts an integer of a position back to its address."""
    return number + _HIGHEST_BIT


def signed_address(address: int) -> int:
    """Converts one address as ``signed_addresses`` does."""
    return address - _HIGHEST_BIT


def address_text(address: int) -> str:
    """Formats SYSLOG_ADDR for users: ``FILE.ADDRESS``."""
    address &= (1 << 64) - 1
    return f"{address >> 32}.{address & 0xFFFFFFFF}"
