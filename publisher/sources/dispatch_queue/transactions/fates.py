"""The fates of transactions: which are published, in which order, which are not.

A *span* is what one COMMIT or ROLLBACK closes: operations of its database and transaction number that do
not lie above it, down to the mark before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from publisher.sources.dispatch_queue.transactions.facts import Addresses, Codes, Mask

OPEN, PUBLISH, REJECT, DROP, HOLD, DONE = 0, 1, 2, 3, 4, 5
"""Fates.  ``OPEN``: nothing ends the transaction; ``HOLD``: it cannot be told how it ends; ``DONE``: an
earlier run has read it."""


@dataclass(frozen=True, slots=True, eq=False)
class Fates:
    """What becomes of the transactions of all parts.  A *span* is what one mark closes."""

    nodes: tuple[str, ...]
    """In code-point order."""
    bounds: Codes
    """Where the transactions of each node begin among ``transactions``; one more for the end."""
    transactions: Codes
    """Those that have a mark, in order within each node."""
    spans: Codes
    """Where the spans of each transaction begin; one more for the end."""
    marks: Addresses
    """Address of the mark of each span, ascending within a transaction."""
    fate: Codes
    """By span."""
    why: dict[int, str]
    """By span: what is said of it beside its fate."""
    empty: Mask
    """By span: its mark closes no operation."""
    base: Codes
    """By span: rank of its first operation, from 1 in each node."""
    pieces: Codes
    """By span, where its pieces begin; one more for the end.  Only large spans have any."""
    piece_first: Addresses
    piece_last: Addresses
    piece_count: Codes
    piece_before: Codes
    open_parts: tuple[int, ...] = ()
    """Numbers of the parts that have operations of open transactions."""

    def span(self, nodes: tuple[str, ...], node: Codes, number: Codes, at: Addresses) -> Codes:
        """The span of operations by database (code among ``nodes``), transaction number and address;
        -1 where it is open."""
        places = self.places(nodes, node, number)
        found = np.full(len(node), -1, np.int64)
        known = np.flatnonzero(places >= 0)
        index = places[known]
        ends = self.spans[index + 1]
        spans = first_at_least(self.marks, self.spans[index], ends, at[known])
        found[known] = np.where(spans < ends, spans, -1)
        return found

    @property
    def node_of_span(self) -> Codes:
        """Place of each span's database in ``nodes``."""
        of_transaction = np.repeat(np.arange(len(self.nodes)), np.diff(self.bounds))
        return np.repeat(of_transaction, np.diff(self.spans))

    def active_nodes(self) -> set[str]:
        """The databases with a transaction that is published, now or in an earlier run."""
        active = ((self.fate == PUBLISH) & ~self.empty) | (self.fate == DONE)
        return {self.nodes[code] for code in np.unique(self.node_of_span[active]).tolist()}

    def places(self, nodes: tuple[str, ...], node: Codes, number: Codes) -> Codes:
        """Place of transactions in ``transactions``; -1 of those that no mark names."""
        found = np.full(len(node), -1, np.int64)
        for code, name in enumerate(nodes):
            chosen = np.flatnonzero(node == code)
            if not len(chosen) or name not in self.nodes:
                continue
            at = self.nodes.index(name)
            start, stop = int(self.bounds[at]), int(self.bounds[at + 1])
            mine, wanted = self.transactions[start:stop], number[chosen]
            place = np.searchsorted(mine, wanted)
            known = place < len(mine)
            known[known] = mine[place[known]] == wanted[known]
            found[chosen[known]] = start + place[known]
        return found

    def last_mark(self, node: str, number: int) -> int | None:
        """Address of the last mark of a transaction number, ``None`` where there is none."""
        place = int(self.places((node,), np.zeros(1, np.int64), np.array([number]))[0])
        return None if place < 0 else int(self.marks[self.spans[place + 1] - 1])

    def ranks(self, span: Codes, at: Addresses) -> Codes:
        """Ranks of operations of published spans: they grow with the COMMIT, then the address, and
        leave about as much room as there are operations."""
        ranks = self.base[span]
        large = np.flatnonzero(self.pieces[span + 1] > self.pieces[span])
        if not len(large):
            return ranks
        mine, where = span[large], at[large]
        stop = self.pieces[mine + 1]
        place = first_at_least(self.piece_last, self.pieces[mine], stop, where)
        place = np.minimum(place, stop - 1)
        room = (self.piece_last[place] - self.piece_first[place]).astype(np.float64) + 1
        lies = np.maximum(where, self.piece_first[place]) - self.piece_first[place]
        share = (lies.astype(np.float64) / room * self.piece_count[place]).astype(np.int64)
        ranks = ranks.copy()
        ranks[large] += self.piece_before[place] + np.minimum(share, self.piece_count[place] - 1)
        return ranks


def first_at_least(values: Addresses, start: Codes, stop: Codes, wanted: Addresses) -> Codes:
    """For each the first place from ``start`` on whose value is not below the wanted one; ``stop``
    where there is none.  Values ascend between the two."""
    low, high = start.copy(), stop.copy()
    while True:
        open_ = low < high
        if not open_.any():
            return low
        middle = np.where(open_, (low + high) // 2, 0)
        below = open_ & (values[middle] < wanted)
        low = np.where(below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)
