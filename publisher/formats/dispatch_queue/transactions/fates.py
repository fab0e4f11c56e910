"""The fates of transactions, and the order of published transactions.

A *span* holds the operations that one COMMIT or ROLLBACK (its *mark*) closes: the operations with the
database and transaction number of the mark, up to its address and above the address of the previous mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from publisher.formats.dispatch_queue.operations import Operations
from publisher.formats.dispatch_queue.transactions.facts import Addresses, Codes, Mask


class Fate(IntEnum):
    """The fate of a transaction."""

    OPEN = 0
    """No COMMIT or ROLLBACK ends the transaction."""
    PUBLISH = 1
    REJECT = 2
    DROP = 3
    """A ROLLBACK ends the transaction."""
    HOLD = 4
    """The end of the transaction is ambiguous."""
    DONE = 5
    """An earlier run has read the transaction."""


@dataclass(frozen=True, slots=True, eq=False)
class Fates:
    """The fates of the transactions of all splits, by span."""

    nodes: tuple[str, ...]
    """Databases in code-point order."""
    bounds: Codes
    """First place of each node in ``transactions``, and the end."""
    transactions: Codes
    """Numbers of transactions with a mark, ascending within each node."""
    spans: Codes
    """First span of each transaction, and the end."""
    marks: Addresses
    """Address of the mark of each span, ascending within a transaction."""
    fate: Codes
    """A ``Fate`` by span."""
    why: dict[int, str]
    """Explanations of fates by span."""
    empty: Mask
    """Spans whose mark closes no operation."""
    base: Codes
    """Rank of the first operation of each span, from 1 in each node."""
    pieces: Codes
    """First piece of each span, and the end.  Only large spans have pieces."""
    piece_first: Addresses
    piece_last: Addresses
    piece_count: Codes
    piece_before: Codes
    open_parts: tuple[int, ...] = ()
    """Numbers of the splits with operations of open transactions."""

    def span(self, nodes: tuple[str, ...], node: Codes, number: Codes, at: Addresses) -> Codes:
        """Finds the spans of operations by database (place in ``nodes``), transaction number and address;
        -1 for open transactions."""
        places = self.places(nodes, node, number)
        result = np.full(len(node), -1, np.int64)
        marked = np.flatnonzero(places >= 0)
        index = places[marked]
        ends = self.spans[index + 1]
        spans = first_at_least(self.marks, self.spans[index], ends, at[marked])
        result[marked] = np.where(spans < ends, spans, -1)
        return result

    def spans_of(self, operations: Operations) -> Codes:
        """Finds the span of each operation; -1 for open transactions."""
        numbers = operations.column("TRANSACT_ID")
        return self.span(operations.rows.nodes, operations.node, numbers, operations.address)

    @property
    def node_of_span(self) -> Codes:
        """Place in ``nodes`` of each span's database."""
        of_transaction = np.repeat(np.arange(len(self.nodes)), np.diff(self.bounds))
        return np.repeat(of_transaction, np.diff(self.spans))

    def active_nodes(self) -> set[str]:
        """Returns the databases with a transaction that this or an earlier run publishes."""
        active = ((self.fate == Fate.PUBLISH) & ~self.empty) | (self.fate == Fate.DONE)
        return {self.nodes[code] for code in np.unique(self.node_of_span[active]).tolist()}

    def places(self, nodes: tuple[str, ...], node: Codes, number: Codes) -> Codes:
        """Finds places in ``transactions``; -1 for transactions without a mark."""
        places = np.full(len(node), -1, np.int64)
        for code, name in enumerate(nodes):
            chosen = np.flatnonzero(node == code)
            if not len(chosen) or name not in self.nodes:
                continue
            at = self.nodes.index(name)
            start, stop = int(self.bounds[at]), int(self.bounds[at + 1])
            of_node, numbers = self.transactions[start:stop], number[chosen]
            place = np.searchsorted(of_node, numbers)
            marked = place < len(of_node)
            marked[marked] = of_node[place[marked]] == numbers[marked]
            places[chosen[marked]] = start + place[marked]
        return places

    def last_mark(self, node: str, number: int) -> int | None:
        """Returns the address of the last mark of a transaction number, or ``None``."""
        place = int(self.places((node,), np.zeros(1, np.int64), np.array([number]))[0])
        return None if place < 0 else int(self.marks[self.spans[place + 1] - 1])

    def ranks(self, span: Codes, at: Addresses) -> Codes:
        """Ranks operations of published spans by COMMIT, then address.

        In large spans ranks are estimated from addresses, so several operations may have one rank."""
        ranks = self.base[span]
        large = np.flatnonzero(self.pieces[span + 1] > self.pieces[span])
        if not len(large):
            return ranks
        spans, addresses = span[large], at[large]
        stop = self.pieces[spans + 1]
        place = first_at_least(self.piece_last, self.pieces[spans], stop, addresses)
        place = np.minimum(place, stop - 1)
        room = (self.piece_last[place] - self.piece_first[place]).astype(np.float64) + 1
        offset = np.maximum(addresses, self.piece_first[place]) - self.piece_first[place]
        share = (offset.astype(np.float64) / room * self.piece_count[place]).astype(np.int64)
        ranks = ranks.copy()
        ranks[large] += self.piece_before[place] + np.minimum(share, self.piece_count[place] - 1)
        return ranks


def first_at_least(values: Addresses, start: Codes, stop: Codes, least: Addresses) -> Codes:
    """Finds the first place from ``start`` to ``stop`` with at least the value ``least``, or ``stop``, by
    binary search."""
    low, high = start.copy(), stop.copy()
    while True:
        is_open = low < high
        if not is_open.any():
            return low
        middle = np.where(is_open, (low + high) // 2, 0)
        below = is_open & (values[middle] < least)
        low = np.where(below, middle + 1, low)
        high = np.where(is_open & ~below, middle, high)
