"""What becomes of transactions: which are published, in which order, which are not.

By the reference, section 1.6.  An operation belongs to the first COMMIT or ROLLBACK of its database and
transaction number that does not lie below it: so a number that is used again is another transaction.
Each part of the input gives *facts*, a few for each transaction in it; from the facts of all parts
follow the *fates*, wherever the parts were cut and in whatever order the rows lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.sources.dispatch_queue.operations import OPERATION

Codes = npt.NDArray[np.int64]
Addresses = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

CHUNK = 4096
"""Operations that one fact speaks of, at most: what a rank may be wrong by."""

SEEN, FLOOR, NAMED, DOUBTED = 4, 5, 6, 7
"""Kinds of facts beside those of operations and marks: a mark that an earlier run has read, and the
address up to which it is not known any more what earlier runs have read; a table (its number in
``transaction``, database and names in ``node``, see ``owners``); operations that may not be whole (see
``doubts``)."""

LIST_A, LIST_B, COMMIT_OF_A = 1, 2, 4
"""Evidence for a list of TYP: codes 7 to 10, 4 with data, 4 without data."""

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
"""One row for each mark (``first`` is its address), and for some operations of one transaction: lowest
and highest address, how many, lowest and highest that are at fault, what is wrong with the lowest."""


class Seen(NamedTuple):
    """The operations and marks of a part, as far as transactions go."""

    kind: Codes
    node: Codes
    nodes: tuple[str, ...]
    transaction: Codes
    address: Addresses
    lists: Codes
    faults: dict[int, str]
    """By place."""


def facts_of(seen: Seen) -> pa.RecordBatch:
    """The facts of a part."""
    is_mark = seen.kind != OPERATION
    order = np.lexsort((is_mark, seen.address, seen.transaction, seen.node))
    heads = _chunk_heads(seen, order, is_mark)
    counts = np.diff(np.append(heads, len(order)))
    first, last = order[heads], order[heads + counts - 1] if len(heads) else order
    chunk_of = np.repeat(np.arange(len(heads)), counts)
    faulty: dict[int, list[int]] = {}
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    for place in sorted(seen.faults, key=lambda place: int(rank[place])):
        faulty.setdefault(int(chunk_of[rank[place]]), []).append(place)
    ends = [(f[0], f[-1]) if (f := faulty.get(n)) else None for n in range(len(heads))]
    addresses = seen.address
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
    """Facts of a kind that says nothing of what ends transactions, with some of the columns."""
    (count,) = {len(values) for values in columns.values()}
    given = {"kind": [kind] * count, **columns}
    arrays = [pa.array(given.get(item.name, [None] * count), item.type) for item in FACTS]
    return pa.RecordBatch.from_arrays(arrays, schema=FACTS)


def of_kind(facts: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    """The facts of one kind."""
    return facts.filter(pc.equal(facts.column("kind"), kind))


def of_transactions(facts: pa.RecordBatch) -> pa.RecordBatch:
    """The facts that say what ends transactions and what is in them."""
    return facts.filter(pc.less(facts.column("kind"), NAMED))


def _chunk_heads(seen: Seen, order: Codes, is_mark: Mask) -> Codes:
    """Where chunks begin among the ordered: at another transaction, mark, log file, every ``CHUNK``."""
    if not len(order):
        return order
    file = seen.address >> np.uint64(32)
    new = np.zeros(len(order), bool)
    new[0] = True
    for column in (seen.node, seen.transaction, file):
        new[1:] |= column[order][1:] != column[order][:-1]
    marks = is_mark[order]
    new |= marks
    new[1:] |= marks[:-1]
    runs = np.flatnonzero(new)
    within = np.arange(len(order)) - np.repeat(runs, np.diff(np.append(runs, len(order))))
    return np.flatnonzero(new | (within % CHUNK == 0))


_HIGHEST_BIT = 1 << 63


def as_stored(addresses: Addresses) -> Codes:
    """Addresses as the signed integers of positions, in their own order: they have no sign."""
    return (addresses ^ np.uint64(_HIGHEST_BIT)).view(np.int64)


def from_stored(number: int) -> int:
    """The inverse for one address."""
    return number + _HIGHEST_BIT


def to_stored(address: int) -> int:
    """As ``as_stored`` for one address."""
    return address - _HIGHEST_BIT


def address_text(address: int) -> str:
    """SYSLOG_ADDR as users know it: ``FILE.ADDRESS``."""
    address &= (1 << 64) - 1
    return f"{address >> 32}.{address & 0xFFFFFFFF}"
