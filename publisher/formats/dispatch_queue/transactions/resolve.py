"""Resolves the fates of transactions from the facts of all splits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.formats.columns.byte_areas import begins_run
from publisher.formats.dispatch_queue.operations import RowKind
from publisher.formats.dispatch_queue.transactions.facts import (
    CHUNK,
    FACTS,
    Addresses,
    Codes,
    FactKind,
    ListEvidence,
    Mask,
    address_text,
)
from publisher.formats.dispatch_queue.transactions.fates import Fate, Fates

_FATES = np.array([Fate.OPEN, Fate.PUBLISH, Fate.DROP, Fate.HOLD, Fate.DONE], np.int64)
"""Fates by the kind of the mark."""

_BOTH_LISTS = (
    "the export has codes of both lists of TYP: 4 with data, and 4 without data or 7 to 10; check"
    " whether a BLOB was deleted in the source"
)

Pieces = dict[int, list[tuple[int, int, int]]]
"""Pieces by span, ascending; a piece is its first and last address and its number of operations."""


class _SortedFacts(NamedTuple):
    """Facts with their nodes as places in code-point order."""

    nodes: tuple[str, ...]
    node: Codes
    part: Codes
    """Number of the split of each fact."""
    table: pa.Table

    def column(self, name: str) -> npt.NDArray[np.generic]:
        values: npt.NDArray[np.generic] = self.table.column(name).to_numpy()
        return values


def resolve_fates(facts: Iterable[pa.RecordBatch]) -> Fates:
    """Resolves the fates of transactions from the facts of all splits, in the order of the splits."""
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
        for place in np.flatnonzero(kinds == FactKind.FLOOR).tolist()
    }
    where = np.flatnonzero(_relevant(kinds, node, table.column("transaction").to_numpy()))
    relevant = _SortedFacts(
        nodes, node[where], part[where], table.take(pa.array(where)).combine_chunks()
    )
    return _Resolver(relevant, floors).resolve()


def _relevant(kinds: npt.NDArray[np.int8], node: Codes, number: Codes) -> Mask:
    """Selects the facts of this input, and ends of transactions with the same numbers in earlier runs."""
    earlier = kinds == FactKind.ENDED
    if not earlier.any():
        return np.not_equal(kinds, FactKind.FLOOR)
    _, pair = np.unique(np.stack([node, number], axis=1), axis=0, return_inverse=True)
    pair = pair.reshape(-1)
    current = np.unique(pair[(kinds != FactKind.ENDED) & (kinds != FactKind.FLOOR)])
    relevant: Mask = (kinds != FactKind.FLOOR) & (~earlier | np.isin(pair, current))
    return relevant


class _Resolver:
    def __init__(self, facts: _SortedFacts, floors: dict[int, int]) -> None:
        """``floors``: by node, the address up to which transactions of earlier runs are no longer known."""
        self._facts, self._floors = facts, floors
        self._kind = facts.column("kind").astype(np.int64)
        self._transaction = facts.column("transaction").astype(np.int64)
        self._first = facts.column("first").astype(np.uint64)
        self._last = facts.column("last").astype(np.uint64)
        self._count = facts.column("operations").astype(np.int64)
        self._lists = facts.column("lists").astype(np.int64)

    def resolve(self) -> Fates:
        marks, kinds = self._marks()
        node, number = self._facts.node[marks], self._transaction[marks]
        heads = np.flatnonzero(begins_run(node, number))
        bounds = np.searchsorted(node[heads], np.arange(len(self._facts.nodes) + 1))
        zero = np.zeros(len(marks), np.int64)
        fates = Fates(
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
        return self._decide(fates, node, number, kinds, self._lists[marks])

    def _marks(self) -> tuple[Codes, Codes]:
        """Returns marks in order, one for each address, and their kinds."""
        marks = np.flatnonzero(self._kind != RowKind.OPERATION)
        keys = (self._first, self._transaction, self._facts.node)
        marks = marks[np.lexsort((self._kind[marks], *(key[marks] for key in keys)))]
        kinds = self._kind[marks]
        heads = np.flatnonzero(begins_run(*(key[marks] for key in keys)))
        if len(heads):
            low = np.minimum.reduceat(kinds, heads)
            high = np.maximum.reduceat(kinds, heads)
            kinds = np.where(low == high, low, RowKind.CLOSING)  # both at one address: ambiguous
            kinds = np.where(high == FactKind.ENDED, FactKind.ENDED, kinds)
        return marks[heads], kinds

    def _decide(
        self, fates: Fates, node: Codes, number: Codes, kinds: Codes, lists: Codes
    ) -> Fates:
        chunks = np.flatnonzero(self._kind == RowKind.OPERATION)
        codes, numbers = self._facts.node[chunks], self._transaction[chunks]
        low = fates.span(fates.nodes, codes, numbers, self._first[chunks])
        high = fates.span(fates.nodes, codes, numbers, self._last[chunks])
        empty, lists = self._find_empty(fates, chunks, low, high, lists)
        fate = _FATES[kinds]
        why: dict[int, str] = {}
        evidence = int(np.bitwise_or.reduce(self._lists)) if len(self._lists) else 0
        for span in np.flatnonzero(fate == Fate.HOLD).tolist():
            why[span] = "TYP 5 ends it, which may be COMMIT or ROLLBACK"
        if evidence & ListEvidence.LIST_B and evidence & (
            ListEvidence.LIST_A | ListEvidence.COMMIT_OF_A
        ):
            concerned = (lists & (ListEvidence.LIST_A | ListEvidence.LIST_B) != 0) & (
                fate != Fate.DONE
            )
            for span in np.flatnonzero(concerned).tolist():
                fate[span], why[span] = Fate.HOLD, _BOTH_LISTS
        self._reject_faulty(fates, chunks, fate, why)
        self._reject_forgotten(fates, node, fate, why)
        self._explain_empty(fates, empty, why, (codes, numbers, high))
        count = np.zeros(len(fate), np.int64)
        np.add.at(count, low[low >= 0], self._count[chunks][low >= 0])
        base = _bases(node, number, fates.marks, np.where(fate == Fate.PUBLISH, count, 0))
        fates = _with_pieces(fates, fate, why, empty, base, self._pieces(fate, count, chunks, low))
        parts = np.unique(self._facts.part[chunks[high < 0]])
        return replace(fates, open_parts=tuple(parts.tolist()))

    def _find_empty(
        self, fates: Fates, chunks: Codes, low: Codes, high: Codes, lists: Codes
    ) -> tuple[Mask, Codes]:
        """Returns a mask of spans without operations, and the evidence for a list of TYP by span."""
        empty = np.ones(len(fates.marks), bool)
        lists = lists.copy()
        for span in (low, high):
            closed = span >= 0
            empty[span[closed]] = False
            np.bitwise_or.at(lists, span[closed], self._lists[chunks][closed])
        last = self._last_spans(fates, chunks)
        crossing: list[int] = np.flatnonzero((low >= 0) & (low != high)).tolist()
        for place in crossing:
            # marks lie between the operations of this fact, so it may concern all spans in its range
            stop = int(high[place]) if high[place] >= 0 else int(last[place])
            empty[int(low[place]) : stop + 1] = False
            lists[int(low[place]) : stop + 1] |= int(self._lists[chunks[place]])
        return empty, lists

    def _last_spans(self, fates: Fates, chunks: Codes) -> Codes:
        """Returns the last span with the transaction number of each chunk, or -1."""
        node, number = self._facts.node[chunks], self._transaction[chunks]
        places = fates.places(fates.nodes, node, number)
        last = fates.spans[places + 1] - 1
        return np.where(places >= 0, last, -1)

    def _reject_faulty(self, fates: Fates, chunks: Codes, fate: Codes, why: dict[int, str]) -> None:
        """Rejects transactions with a rejected operation as a whole."""
        table = self._facts.table
        texts = table.column("fault").combine_chunks()
        faulty = chunks[texts.is_valid().to_numpy(zero_copy_only=False)[chunks]]
        if not len(faulty):
            return
        first, last = (
            np.array(table.column(name).take(pa.array(faulty)).to_pylist(), np.uint64)
            for name in ("fault_first", "fault_last")
        )
        codes, numbers = self._facts.node[faulty], self._transaction[faulty]
        low = fates.span(fates.nodes, codes, numbers, first)
        high = fates.span(fates.nodes, codes, numbers, last)
        end = self._last_spans(fates, faulty)
        details: list[str] = texts.take(pa.array(faulty)).to_pylist()
        order = sorted(
            range(len(faulty)), key=lambda at: (codes[at], numbers[at], first[at], details[at])
        )
        for place in order:
            if low[place] < 0:
                continue
            stop = int(high[place]) if high[place] >= 0 else int(end[place])
            for span in range(int(low[place]), stop + 1):
                if fate[span] == Fate.PUBLISH:
                    fate[span] = Fate.REJECT
                    at = address_text(int(first[place]))
                    why[span] = f"its operation at {at}: {details[place]}"

    def _reject_forgotten(
        self, fates: Fates, node: Codes, fate: Codes, why: dict[int, str]
    ) -> None:
        """Rejects transactions older than the remembered ones: an earlier run may have published them."""
        for code, floor in self._floors.items():
            is_old = (
                (node == code)
                & (fates.marks <= np.uint64(floor))
                & (fate != Fate.DONE)
                & (fate != Fate.DROP)
            )
            for span in np.flatnonzero(is_old).tolist():
                fate[span] = Fate.REJECT
                why[span] = (
                    f"it ends at {address_text(int(fates.marks[span]))}, but published transactions up"
                    f" to {address_text(floor)} are forgotten: replay the file by"
                    " itself, or give the source a new name if the numbers of log files start again"
                )

    def _explain_empty(
        self, fates: Fates, empty: Mask, why: dict[int, str], chunks: tuple[Codes, Codes, Codes]
    ) -> None:
        """Explains marks without operations if operations of their transaction have higher addresses."""
        codes, numbers, high = chunks
        is_open = {
            (int(code), int(number))
            for code, number in zip(codes[high < 0], numbers[high < 0], strict=True)
        }
        for span in np.flatnonzero(empty).tolist():
            transaction = int(np.searchsorted(fates.spans, span, side="right")) - 1
            node = int(np.searchsorted(fates.bounds, transaction, side="right")) - 1
            if (node, int(fates.transactions[transaction])) in is_open:
                why[span] = "operations of its transaction have higher addresses"

    def _pieces(self, fate: Codes, count: Codes, chunks: Codes, low: Codes) -> Pieces:
        """Divides the operations of large published spans into disjoint ranges, ascending."""
        places = np.flatnonzero(low >= 0)
        spans = low[places]
        places = places[(count[spans] > CHUNK) & (fate[spans] == Fate.PUBLISH)]
        places = places[np.lexsort((self._first[chunks[places]], low[places]))]
        by_span: Pieces = {}
        for place in places.tolist():
            span, chunk = int(low[place]), int(chunks[place])
            first, last, number = (
                int(self._first[chunk]),
                int(self._last[chunk]),
                int(self._count[chunk]),
            )
            pieces = by_span.setdefault(span, [])
            if pieces and pieces[-1][1] >= first:
                start, stop, before = pieces.pop()
                first, last, number = start, max(stop, last), before + number
            pieces.append((first, last, number))
        return by_span


def _bases(node: Codes, number: Codes, marks: Addresses, counts: Codes) -> Codes:
    """Computes the rank of the first operation of each span, in the order of marks within a node."""
    order = np.lexsort((number, marks, node))
    ordered = counts[order]
    before = np.cumsum(ordered) - ordered
    starts = np.flatnonzero(np.diff(node[order], prepend=-1)) if len(order) else order
    lengths = np.diff(np.append(starts, len(order)))
    base = np.empty(len(order), np.int64)
    base[order] = 1 + before - np.repeat(before[starts], lengths)
    return base


def _with_pieces(
    fates: Fates,
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
        count_before = 0
        for _, _, count in pieces[span]:
            before.append(count_before)
            count_before += count
    return replace(
        fates,
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
