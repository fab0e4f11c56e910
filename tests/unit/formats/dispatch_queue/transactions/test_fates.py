"""Fates of transactions, compared with a plain implementation, for any cuts and order of rows."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats.dispatch_queue.operations import RowKind
from publisher.formats.dispatch_queue.transactions import facts
from publisher.formats.dispatch_queue.transactions.facts import (
    ListEvidence,
    TransactionRows,
    facts_of,
)
from publisher.formats.dispatch_queue.transactions.fates import Fate, Fates
from publisher.formats.dispatch_queue.transactions.resolve import resolve_fates

NODES = ("A", "B")


class Entry(NamedTuple):
    """An operation or a mark."""

    kind: int
    node: int
    transaction: int
    address: int
    fault: int = 0
    """Number of the fault; 0 without one."""
    lists: int = 0


def transaction_rows(entries: list[Entry]) -> TransactionRows:
    columns = list(zip(*entries, strict=True)) or [()] * 6
    kind, node, transaction, lists = (np.array(columns[n], np.int64) for n in (0, 1, 2, 5))
    return TransactionRows(
        kind=kind,
        node=node,
        nodes=NODES,
        transaction=transaction,
        address=np.array(columns[3], np.uint64),
        lists=lists,
        faults={place: f"fault {e.fault}" for place, e in enumerate(entries) if e.fault},
    )


def resolve(parts: list[list[Entry]]) -> Fates:
    return resolve_fates([facts_of(transaction_rows(part)) for part in parts])


def fate(fates: Fates, entry: Entry) -> int:
    span = fates.span(
        NODES,
        np.array([entry.node]),
        np.array([entry.transaction]),
        np.array([entry.address], np.uint64),
    )[0]
    return Fate.OPEN if span < 0 else int(fates.fate[span])


def fates_by_rule(entries: list[Entry]) -> dict[Entry, int]:
    """The fate of each operation by the rules, one after the other."""
    lists = {entry.lists for entry in entries}
    both = ListEvidence.LIST_B in lists and bool(
        lists & {ListEvidence.LIST_A, ListEvidence.COMMIT_OF_A}
    )
    found: dict[Entry, int] = {}
    for entry in entries:
        if entry.kind != RowKind.OPERATION:
            continue
        mine = [e for e in entries if e[1:3] == entry[1:3]]
        above = [
            e.address for e in mine if e.kind != RowKind.OPERATION and e.address >= entry.address
        ]
        if not above:
            found[entry] = Fate.OPEN
            continue
        end = min(above)
        kinds = {e.kind for e in mine if e.kind != RowKind.OPERATION and e.address == end}
        below = [
            e.address for e in mine if e.kind != RowKind.OPERATION and e.address < entry.address
        ]
        with_me = [e for e in mine if max(below, default=-1) < e.address <= end]
        if (
            (both and any(e.lists in (ListEvidence.LIST_A, ListEvidence.LIST_B) for e in with_me))
            or len(kinds) > 1
            or RowKind.CLOSING in kinds
        ):
            found[entry] = Fate.HOLD
        elif kinds == {RowKind.ROLLBACK}:
            found[entry] = Fate.DROP
        else:
            found[entry] = Fate.REJECT if any(e.fault for e in with_me) else Fate.PUBLISH
    return found


def of_mark(entry: Entry) -> int:
    """Evidence that a mark gives: of some COMMITs that they are of the list at the column."""
    return ListEvidence.COMMIT_OF_A if entry.kind == RowKind.COMMIT and entry.lists else 0


addresses = st.one_of(
    st.integers(0, 30), st.integers((1 << 32) - 3, (1 << 32) + 3), st.integers(2**64 - 9, 2**64 - 1)
)
entries = st.builds(
    Entry,
    kind=st.sampled_from(
        [RowKind.OPERATION] * 6
        + [RowKind.COMMIT, RowKind.COMMIT, RowKind.ROLLBACK, RowKind.CLOSING]
    ),
    node=st.integers(0, 1),
    transaction=st.sampled_from([-1, 5, 6]),
    address=addresses,
    fault=st.sampled_from([0] * 8 + [1]),
    lists=st.sampled_from([0] * 12 + [ListEvidence.LIST_A, ListEvidence.LIST_B]),
).map(lambda e: e if e.kind == RowKind.OPERATION else e._replace(fault=0, lists=of_mark(e)))
logs = st.lists(entries, unique_by=lambda e: e[:4])
starts = st.lists(st.integers(0, 40), max_size=4)


def cut(drawn: list[Entry], at: list[int]) -> list[list[Entry]]:
    """Parts that begin at these places."""
    cuts = sorted({0, len(drawn), *(place for place in at if place < len(drawn))})
    return [drawn[a:b] for a, b in itertools.pairwise(cuts)]


@given(logs, st.randoms(use_true_random=False))
def test_fates_are_those_of_the_rules(drawn: list[Entry], chance: random.Random) -> None:
    """One operation a part: so each fact says all of what it speaks of."""
    chance.shuffle(drawn)
    fates = resolve([[entry] for entry in drawn])
    for entry, expected in fates_by_rule(drawn).items():
        assert fate(fates, entry) == expected, entry


@given(logs, starts, st.randoms(use_true_random=False))
def test_any_cut_of_a_file_in_order_gives_the_same(
    drawn: list[Entry], at: list[int], chance: random.Random
) -> None:
    drawn.sort(key=lambda e: (e.address, e.kind != RowKind.OPERATION))
    parts = cut(drawn, at)
    chance.shuffle(parts)
    fates = resolve(parts)
    for entry, expected in fates_by_rule(drawn).items():
        assert fate(fates, entry) == expected, entry


@given(st.lists(st.integers(1, 3), min_size=2), starts, st.randoms(use_true_random=False))
def test_any_cut_explains_a_rejected_transaction_equally(
    faults: list[int], at: list[int], chance: random.Random
) -> None:
    """Of several faults at one address, as parts that do not fit together have."""
    drawn = [Entry(RowKind.OPERATION, 0, 5, 7, fault) for fault in faults]
    drawn.append(Entry(RowKind.COMMIT, 0, 5, 8))
    parts = cut(drawn, at)
    chance.shuffle(parts)
    assert resolve(parts).why == {0: f"its operation at 0.7: fault {min(faults)}"}


@given(logs, starts, st.randoms(use_true_random=False))
def test_nothing_is_published_that_the_rules_hold_back(
    drawn: list[Entry], at: list[int], chance: random.Random
) -> None:
    """Out of order and with numbers used again: what is not known is held back, never published."""
    chance.shuffle(drawn)
    fates = resolve(cut(drawn, at))
    for entry, expected in fates_by_rule(drawn).items():
        found = fate(fates, entry)
        assert found == expected or (expected != Fate.OPEN and found in (Fate.REJECT, Fate.HOLD)), (
            entry
        )


@pytest.mark.parametrize("chunk", [1, 3, 4096])
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    chance=st.randoms(use_true_random=False),
)
def test_ranks_follow_the_commits_then_the_addresses(
    chunk: int, sizes: list[int], chance: random.Random
) -> None:
    drawn: list[Entry] = []
    for number, size in enumerate(sizes):
        places = chance.sample(range(1, 1000), size)
        files = [chance.choice([0, 0, 5 << 32]) for _ in places]
        drawn += [
            Entry(RowKind.OPERATION, number % 2, number, file + place)
            for place, file in zip(places, files, strict=True)
        ]
        drawn.append(Entry(RowKind.COMMIT, number % 2, number, (6 << 32) + chance.randrange(9)))
    chance.shuffle(drawn)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(facts, "CHUNK", chunk)
        patched.setattr("publisher.formats.dispatch_queue.transactions.resolve.CHUNK", chunk)
        middle = chance.randrange(len(drawn) + 1)
        fates = resolve([drawn[:middle], drawn[middle:]])
    for node in (0, 1):
        mine = [e for e in drawn if e.kind == RowKind.OPERATION and e.node == node]
        if not mine:
            continue
        numbers = np.array([e.transaction for e in mine])
        at = np.array([e.address for e in mine], np.uint64)
        spans = fates.span(NODES, np.full(len(mine), node), numbers, at)
        ranks = fates.ranks(spans, at).tolist()
        marks = fates.marks[spans].tolist()
        ordered = sorted(
            zip(marks, numbers.tolist(), at.tolist(), ranks, strict=True), key=lambda one: one[:3]
        )
        assert [one[3] for one in ordered] == sorted(ranks)
        assert min(ranks) == 1
        assert max(ranks) <= len(mine)


def test_a_large_transaction_leaves_room_for_its_operations() -> None:
    count = 3 * facts.CHUNK
    drawn = [Entry(RowKind.OPERATION, 0, 1, 10 * place) for place in range(count)]
    drawn.append(Entry(RowKind.COMMIT, 0, 1, 10 * count))
    third = count // 3
    fates = resolve([drawn[:third], drawn[third : 2 * third], drawn[2 * third :]])
    at = np.array([e.address for e in drawn[:-1]], np.uint64)
    zeros = np.zeros(count, np.int64)
    ranks = fates.ranks(fates.span(NODES, zeros, zeros + 1, at), at)
    assert (np.diff(ranks) >= 0).all()
    assert np.bincount(ranks).max() <= 2


def test_marks_without_operations_are_known_by_name() -> None:
    fates = resolve(
        [
            [
                Entry(RowKind.COMMIT, 0, 1, 5),
                Entry(RowKind.OPERATION, 0, 1, 9),
                Entry(RowKind.COMMIT, 0, 2, 7),
            ]
        ]
    )
    assert fates.empty.tolist() == [True, True]
    assert fates.why == {0: "operations of its transaction have higher addresses"}


def test_no_facts_are_no_fates() -> None:
    fates = resolve_fates([])
    assert fate(fates, Entry(RowKind.OPERATION, 0, 1, 1)) == Fate.OPEN
