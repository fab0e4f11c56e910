"""Facts about the transactions in a split, from which the fates of all transactions are resolved.

An operation belongs to the first COMMIT or ROLLBACK of its database and transaction number at the same or a
higher address, so a reused number is another transaction.  Each split gives a few
*facts* per transaction; the facts of all splits determine the *fates*, independent of the order of rows and
of the places of cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.sources.columns.byte_areas import begins_run
from publisher.sources.columns.record_batches import batch_of
from publisher.sources.dispatch_queue.operations import RowKind

Codes = npt.NDArray[np.int64]
Addresses = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

CHUNK = 4096
"""Maximum number of operations in one fact, and so the error of a rank."""


class FactKind(IntEnum):
    """Kinds of facts beside operations and marks, whose kind is their ``RowKind``."""

    ENDED = 4
    """A mark that an earlier run has read."""
    FLOOR = 5
    """The address up to which the transactions read by earlier runs are forgotten."""
    TABLE = 6
    """A table: its number in ``transaction``, database and names in ``node`` (see ``owners``)."""
    DOUBT = 7
    """Operations that may be incomplete (see ``warnings``)."""


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
"""One row for each mark (``first`` is its address), and for some operations of one transaction: their lowest
and highest address, their number, the lowest and highest faulty address, and the fault of the lowest (the
first by its text if several operations have this address)."""


class TransactionRows(NamedTuple):
    """The operations and marks of a split, reduced to columns that matter for transactions."""

    kind: Codes
    node: Codes
    nodes: tuple[str, ...]
    transaction: Codes
    address: Addresses
    lists: Codes
    faults: dict[int, str]
    """By place."""


def facts_of(seen: TransactionRows) -> pa.RecordBatch:
    """Summarises a split as facts."""
    is_mark = seen.kind != RowKind.OPERATION
    order = np.lexsort((is_mark, seen.address, seen.transaction, seen.node))
    heads = _chunk_heads(seen, order, is_mark)
    counts = np.diff(np.append(heads, len(order)))
    first, last = order[heads], order[heads + counts - 1] if len(heads) else order
    chunk_of = np.repeat(np.arange(len(heads)), counts)
    faulty: dict[int, list[int]] = {}
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    addresses = seen.address
    # of several faults at one address, any cut of the input reports the same one
    for place in sorted(seen.faults, key=lambda at: (int(addresses[at]), seen.faults[at])):
        faulty.setdefault(int(chunk_of[rank[place]]), []).append(place)
    ends = [(f[0], f[-1]) if (f := faulty.get(n)) else None for n in range(len(heads))]
    lists = np.bitwise_or.reduceat(seen.lists[order], heads) if len(heads) else seen.lists
    return pa.RecordBatch.from_arrays(
        [
            pa.array(seen.kind[first], pa.int8()),
            pa.array(seen.nodes, pa.string()).take(pa.array(seen.node[first])),
            pa.array(seen.transaction[first]),
            pa.array(addresses[first]),
            pa.array(addresses[last]),
            pa.array(np.where(is_mark[first], 0, counts)),
            pa.array([None if e is None else int(addresses[e[0]]) for e in ends], pa.uint64()),
            pa.array([None if e is None else int(addresses[e[1]]) for e in ends], pa.uint64()),
            pa.array([None if e is None else seen.faults[e[0]] for e in ends], pa.string()),
            pa.array(lists, pa.int8()),
        ],
        schema=FACTS,
    )


def other_facts(kind: int, **columns: Sequence[object]) -> pa.RecordBatch:
    """Builds facts of another kind, with some of the columns."""
    (count,) = {len(values) for values in columns.values()}
    return batch_of(FACTS, count, kind=kind, **columns)


def of_kind(facts: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    """The facts of one kind."""
    return facts.filter(pc.equal(facts.column("kind"), kind))


def of_transactions(facts: pa.RecordBatch) -> pa.RecordBatch:
    """The facts about operations and marks."""
    return facts.filter(pc.less(facts.column("kind"), FactKind.TABLE))


def _chunk_heads(seen: TransactionRows, order: Codes, is_mark: Mask) -> Codes:
    """Places where chunks begin: another transaction, mark or log file, or after ``CHUNK`` operations."""
    if not len(order):
        return order
    file = seen.address >> np.uint64(32)
    new = begins_run(*(column[order] for column in (seen.node, seen.transaction, file)))
    marks = is_mark[order]
    new |= marks
    new[1:] |= marks[:-1]
    runs = np.flatnonzero(new)
    within = np.arange(len(order)) - np.repeat(runs, np.diff(np.append(runs, len(order))))
    return np.flatnonzero(new | (within % CHUNK == 0))


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
