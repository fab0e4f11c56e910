"""Pairs the items of two sequences: by identity, or by content and order where identities differ."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
P = TypeVar("P", bound="tuple[object, ...]")


@dataclass(frozen=True, slots=True)
class Pairing(Generic[T]):
    """The pairs of two sequences, and the items without a partner, in their orders."""

    pairs: list[tuple[T, T]]
    only_first: list[T]
    only_second: list[T]


def pair_items(
    first: Sequence[T],
    second: Sequence[T],
    identity: Callable[[T], Hashable | None],
    content: Callable[[T], Hashable],
) -> Pairing[T]:
    """Pairs items with equal identities, the first with the first.

    Items whose identity is ``None`` are paired by equal content, the remaining ones in their order."""
    known = pair_equal(
        [item for item in first if identity(item) is not None],
        [item for item in second if identity(item) is not None],
        identity,
    )
    equal = pair_equal(
        [item for item in first if identity(item) is None],
        [item for item in second if identity(item) is None],
        content,
    )
    count = min(len(equal.only_first), len(equal.only_second))
    in_order = list(zip(equal.only_first, equal.only_second, strict=False))
    return Pairing(
        known.pairs + equal.pairs + in_order,
        known.only_first + equal.only_first[count:],
        known.only_second + equal.only_second[count:],
    )


def pair_equal(first: Sequence[T], second: Sequence[T], key: Callable[[T], Hashable]) -> Pairing[T]:
    """Pairs items with equal keys, the first with the first."""
    waiting: dict[Hashable, deque[T]] = {}
    for item in second:
        waiting.setdefault(key(item), deque()).append(item)
    pairs, alone = [], []
    for item in first:
        partners = waiting.get(key(item))
        if partners:
            pairs.append((item, partners.popleft()))
        else:
            alone.append(item)
    taken = {id(partner) for _, partner in pairs}
    return Pairing(pairs, alone, [item for item in second if id(item) not in taken])


def count_moved_items(places: Sequence[tuple[P, P]]) -> int:
    """Returns how many items at least must move, so that their second places ascend like their first."""
    ends: list[P] = []
    for _, place in sorted(places):
        at = bisect_left(ends, place)
        if at == len(ends):
            ends.append(place)
        else:
            ends[at] = place
    return len(places) - len(ends)
