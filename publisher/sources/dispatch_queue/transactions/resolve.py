"""From the facts of all parts of the input to the fates of its transactions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.sources.dispatch_queue.operations import CLOSING, OPERATION
from publisher.sources.dispatch_queue.transactions.facts import (
    CHUNK,
    COMMIT_OF_A,
    FACTS,
    FLOOR,
    LIST_A,
    LIST_B,
    SEEN,
    Addresses,
    Codes,
    Mask,
    address_text,
)
from publisher.sources.dispatch_queue.transactions.fates import (
    DONE,
    DROP,
    HOLD,
    OPEN,
    PUBLISH,
    REJECT,
    Fates,
)

_FATES = np.array([OPEN, PUBLISH, DROP, HOLD, DONE], np.int64)
"""By kind of the mark."""

_BOTH_LISTS = (
    "the export has codes of both lists of TYP: 4 with data, and 4 without data or 7 to 10; look at a"
    " BLOB that was deleted in the source"
)

Pieces = dict[int, list[tuple[int, int, int]]]
"""By span: first and last address, number of operations, ascending."""


class _Sorted(NamedTuple):
    """Facts with their nodes as codes in code-point order."""

    nodes: tuple[str, ...]
    node: Codes
    part: Codes
    """Number of the part that says it."""
    table: pa.Table

    def column(self, name: str) -> npt.NDArray[np.generic]:
        column = self.table.column(name)
        found: npt.NDArray[np.generic] = column.to_numpy()
        return found


def fates_of(facts: Iterable[pa.RecordBatch]) -> Fates:
    """The fates that follow from the facts of all parts, whatever their order."""
    parts = list(facts)
    table = pa.Table.from_batches(parts, FACTS).combine_chunks()
    sizes = np.array([part.num_rows for part in parts], np.int64)
    part = np.repeat(np.arange(len(parts)), sizes)
    encoded = table.column("node").combine_chunks().dictionary_encode()
    names: list[str] = encoded.dictionary.to_pylist()
    nodes = tuple(sorted(names))
    places = np.array([nodes.index(name) for name in names], np.int64)
    node = places[encoded.indices.to_numpy()] if len(names) else np.zeros(0, np.int64)
    kinds = table.column("kind").to_numpy()
    floors = {
        int(node[place]): int(table.column("first")[place].as_py())
        for place in np.flatnonzero(kinds == FLOOR).tolist()
    }
    kept = np.flatnonzero(_needed(kinds, node, table.column("transaction").to_numpy()))
    chosen = _Sorted(nodes, node[kept], part[kept], table.take(pa.array(kept)).combine_chunks())
    return _Resolver(chosen, floors).fates()


def _needed(kinds: npt.NDArray[np.int8], node: Codes, number: Codes) -> Mask:
    """Facts of this input, and of earlier ones those on the same transactions."""
    earlier = kinds == SEEN
    if not earlier.any():
        return np.not_equal(kinds, FLOOR)
    _, pair = np.unique(np.stack([node, number], axis=1), axis=0, return_inverse=True)
    pair = pair.reshape(-1)
    mine = np.unique(pair[(kinds != SEEN) & (kinds != FLOOR)])
    needed: Mask = (kinds != FLOOR) & (~earlier | np.isin(pair, mine))
    return needed


class _Resolver:
    def __init__(self, facts: _Sorted, floors: dict[int, int]) -> None:
        """``floors``: by node the address up to which it is not known what earlier runs have read."""
        self._facts, self._floors = facts, floors
        self._kind = facts.column("kind").astype(np.int64)
        self._transaction = facts.column("transaction").astype(np.int64)
        self._first = facts.column("first").astype(np.uint64)
        self._last = facts.column("last").astype(np.uint64)
        self._count = facts.column("operations").astype(np.int64)
        self._lists = facts.column("lists").astype(np.int64)

    def fates(self) -> Fates:
        marks, kinds = self._marks()
        node, number = self._facts.node[marks], self._transaction[marks]
        new = np.ones(len(marks), bool)
        new[1:] = (node[1:] != node[:-1]) | (number[1:] != number[:-1])
        heads = np.flatnonzero(new)
        bounds = np.searchsorted(node[heads], np.arange(len(self._facts.nodes) + 1))
        zero = np.zeros(len(marks), np.int64)
        made = Fates(
            nodes=self._facts.nodes,
            bounds=bounds.astype(np.int64),
            transactions=number[heads],
            spans=np.append(heads, len(marks)).astype(np.int64),
            marks=self._first[marks],
            fate=zero,
            why={},
            empty=zero.astype(bool),
            base=zero,
            pieces=np.zeros(len(marks) + 1, np.int64),
            piece_first=zero[:0].astype(np.uint64),
            piece_last=zero[:0].astype(np.uint64),
            piece_count=zero[:0],
            piece_before=zero[:0],
        )
        return self._decided(made, node, number, kinds, self._lists[marks])

    def _marks(self) -> tuple[Codes, Codes]:
        """Facts that are marks, one for each address, in order; and what each is."""
        marks = np.flatnonzero(self._kind != OPERATION)
        keys = (self._first, self._transaction, self._facts.node)
        marks = marks[np.lexsort((self._kind[marks], *(key[marks] for key in keys)))]
        new = np.ones(len(marks), bool)
        new[1:] = np.any([key[marks][1:] != key[marks][:-1] for key in keys], axis=0)
        kinds = self._kind[marks]
        heads = np.flatnonzero(new)
        if len(heads):
            low = np.minimum.reduceat(kinds, heads)
            high = np.maximum.reduceat(kinds, heads)
            kinds = np.where(low == high, low, CLOSING)  # both at one address: nobody can tell
            kinds = np.where(high == SEEN, SEEN, kinds)
        return marks[heads], kinds

    def _decided(
        self, made: Fates, node: Codes, number: Codes, kinds: Codes, lists: Codes
    ) -> Fates:
        chunks = np.flatnonzero(self._kind == OPERATION)
        codes, numbers = self._facts.node[chunks], self._transaction[chunks]
        low = made.span(made.nodes, codes, numbers, self._first[chunks])
        high = made.span(made.nodes, codes, numbers, self._last[chunks])
        empty, lists = self._touched(made, chunks, low, high, lists)
        fate = _FATES[kinds]
        why: dict[int, str] = {}
        said = int(np.bitwise_or.reduce(self._lists)) if len(self._lists) else 0
        for span in np.flatnonzero(fate == HOLD).tolist():
            why[span] = "TYP 5 ends it, and that is COMMIT or ROLLBACK"
        if said & LIST_B and said & (LIST_A | COMMIT_OF_A):
            concerned = (lists & (LIST_A | LIST_B) != 0) & (fate != DONE)
            for span in np.flatnonzero(concerned).tolist():
                fate[span], why[span] = HOLD, _BOTH_LISTS
        self._faults(made, chunks, fate, why)
        self._forgotten(made, node, fate, why)
        self._above(made, empty, why, (codes, numbers, high))
        count = np.zeros(len(fate), np.int64)
        np.add.at(count, low[low >= 0], self._count[chunks][low >= 0])
        base = _bases(node, number, made.marks, np.where(fate == PUBLISH, count, 0))
        made = _with_pieces(made, fate, why, empty, base, self._pieces(fate, count, chunks, low))
        parts = np.unique(self._facts.part[chunks[high < 0]])
        return replace(made, open_parts=tuple(parts.tolist()))

    def _touched(
        self, made: Fates, chunks: Codes, low: Codes, high: Codes, lists: Codes
    ) -> tuple[Mask, Codes]:
        """Which spans have no operations, and what speaks for a list of TYP in each."""
        empty = np.ones(len(made.marks), bool)
        lists = lists.copy()
        for span in (low, high):
            there = span >= 0
            empty[span[there]] = False
            np.bitwise_or.at(lists, span[there], self._lists[chunks][there])
        last = self._last_spans(made, chunks)
        crossing: list[int] = np.flatnonzero((low >= 0) & (low != high)).tolist()
        for place in crossing:
            # other marks lie among the operations of one fact: which is whose is not known here
            stop = int(high[place]) if high[place] >= 0 else int(last[place])
            empty[int(low[place]) : stop + 1] = False
            lists[int(low[place]) : stop + 1] |= int(self._lists[chunks[place]])
        return empty, lists

    def _last_spans(self, made: Fates, chunks: Codes) -> Codes:
        """The last span of the transaction of each chunk; -1 where it has none."""
        node, number = self._facts.node[chunks], self._transaction[chunks]
        places = made.places(made.nodes, node, number)
        found = made.spans[places + 1] - 1
        return np.where(places >= 0, found, -1)

    def _faults(self, made: Fates, chunks: Codes, fate: Codes, why: dict[int, str]) -> None:
        """A COMMIT of a transaction with a rejected operation rejects all of it."""
        table = self._facts.table
        texts = table.column("fault").combine_chunks()
        bad = chunks[texts.is_valid().to_numpy(zero_copy_only=False)[chunks]]
        if not len(bad):
            return
        first, last = (
            np.array(table.column(name).take(pa.array(bad)).to_pylist(), np.uint64)
            for name in ("fault_first", "fault_last")
        )
        codes, numbers = self._facts.node[bad], self._transaction[bad]
        low = made.span(made.nodes, codes, numbers, first)
        high = made.span(made.nodes, codes, numbers, last)
        end = self._last_spans(made, bad)
        order = np.lexsort((first, numbers, codes))
        for place in order.tolist():
            if low[place] < 0:
                continue
            stop = int(high[place]) if high[place] >= 0 else int(end[place])
            for span in range(int(low[place]), stop + 1):
                if fate[span] == PUBLISH:
                    fate[span] = REJECT
                    text = texts[int(bad[place])].as_py()
                    why[span] = f"its operation at {address_text(int(first[place]))}: {text}"

    def _forgotten(self, made: Fates, node: Codes, fate: Codes, why: dict[int, str]) -> None:
        """What lies so far back that an earlier run may have published it is rejected."""
        for code, floor in self._floors.items():
            old = (
                (node == code) & (made.marks <= np.uint64(floor)) & (fate != DONE) & (fate != DROP)
            )
            for span in np.flatnonzero(old).tolist():
                fate[span] = REJECT
                why[span] = (
                    f"it ends at {address_text(int(made.marks[span]))}, and up to"
                    f" {address_text(floor)} it is not remembered what was published: raise remember,"
                    " replay the file by itself, or give the source a new name where log files count"
                    " anew"
                )

    def _above(
        self, made: Fates, empty: Mask, why: dict[int, str], chunks: tuple[Codes, Codes, Codes]
    ) -> None:
        """Says of marks without operations whether operations of their transaction lie above them."""
        codes, numbers, high = chunks
        open_ = {
            (int(code), int(number))
            for code, number in zip(codes[high < 0], numbers[high < 0], strict=True)
        }
        for span in np.flatnonzero(empty).tolist():
            transaction = int(np.searchsorted(made.spans, span, side="right")) - 1
            node = int(np.searchsorted(made.bounds, transaction, side="right")) - 1
            if (node, int(made.transactions[transaction])) in open_:
                why[span] = "operations of its transaction lie above it"

    def _pieces(self, fate: Codes, count: Codes, chunks: Codes, low: Codes) -> Pieces:
        """Of large published spans the ranges of their operations that do not overlap, ascending."""
        chosen = np.flatnonzero(low >= 0)
        mine = low[chosen]
        chosen = chosen[(count[mine] > CHUNK) & (fate[mine] == PUBLISH)]
        chosen = chosen[np.lexsort((self._first[chunks[chosen]], low[chosen]))]
        found: Pieces = {}
        for place in chosen.tolist():
            span, chunk = int(low[place]), int(chunks[place])
            first, last, many = (
                int(self._first[chunk]),
                int(self._last[chunk]),
                int(self._count[chunk]),
            )
            pieces = found.setdefault(span, [])
            if pieces and pieces[-1][1] >= first:
                start, stop, before = pieces.pop()
                first, last, many = start, max(stop, last), before + many
            pieces.append((first, last, many))
        return found


def _bases(node: Codes, number: Codes, marks: Addresses, counts: Codes) -> Codes:
    """Rank of the first operation of each span: spans in the order of their marks, within a node."""
    order = np.lexsort((number, marks, node))
    ordered = counts[order]
    before = np.cumsum(ordered) - ordered
    starts = np.flatnonzero(np.diff(node[order], prepend=-1)) if len(order) else order
    lengths = np.diff(np.append(starts, len(order)))
    base = np.empty(len(order), np.int64)
    base[order] = 1 + before - np.repeat(before[starts], lengths)
    return base


def _with_pieces(
    made: Fates,
    fate: Codes,
    why: dict[int, str],
    empty: Mask,
    base: Codes,
    pieces: Pieces,
) -> Fates:
    sizes = np.array([len(pieces.get(span, ())) for span in range(len(fate))], np.int64)
    flat = [piece for span in sorted(pieces) for piece in pieces[span]]
    before: list[int] = []
    for span in sorted(pieces):
        done = 0
        for _, _, many in pieces[span]:
            before.append(done)
            done += many
    return replace(
        made,
        fate=fate.astype(np.int64),
        why=why,
        empty=empty,
        base=base,
        pieces=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        piece_first=np.array([piece[0] for piece in flat], np.uint64),
        piece_last=np.array([piece[1] for piece in flat], np.uint64),
        piece_count=np.array([piece[2] for piece in flat], np.int64),
        piece_before=np.array(before, np.int64),
    )
