"""Which other settings would explain row images that the present ones reject.

No page says how an image lies, so a wrong setting is found by trial: one other setting at a time, then
two.  Only images that are rejected cost anything, a few of each length, and not more than ``SEARCHES``
times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, NamedTuple

from publisher.sources.dispatch_queue.images.column_types import NATIONAL, VARIABLE, Column
from publisher.sources.dispatch_queue.images.layout import ImageLayout
from publisher.sources.dispatch_queue.options import Options

SAMPLE = 8
"""Images of one length that are tried."""
SEARCHES = 8
"""Searches for the images of one table."""
_NAMED = 4
"""Explanations that are named."""
_FLAGS = (1, 255)
"""NULL flags that are tried where none is known."""


class Score(NamedTuple):
    """How well images fit a layout; the higher the better."""

    decoded: int
    """Images without a fault."""
    control: int
    """Minus the number of texts in them with control characters."""


Scoring = Callable[[ImageLayout], Score]


@dataclass(frozen=True, slots=True)
class Change:
    """Another value of a setting."""

    text: str
    changed: dict[str, Any]
    """Attributes of the layout."""
    more: str = ""
    """A second setting, told where only some of its values fit."""


class Fits:
    """What the images of one table would fit, by their length; remembered."""

    def __init__(self) -> None:
        self._left = SEARCHES
        self._found: dict[int, str] = {}

    def advice(
        self, length: int, count: int, layout: ImageLayout, options: Options, scoring: Scoring
    ) -> str | None:
        """What to do about images of a length, ``count`` of which ``scoring`` tries.

        ``options`` are those of the table; ``None`` where nothing fits."""
        if length not in self._found and not self._left:
            others = next(iter(self._found.values()), None)
            return others and f"others of the table are rejected, too, and {others}"
        if length not in self._found:
            self._left -= 1
            found = _search(length, count, layout, options, scoring)
            if found is None:  # others of this length may tell more
                return None
            self._found[length] = found
        return self._found[length]


def _search(
    length: int, count: int, layout: ImageLayout, options: Options, scoring: Scoring
) -> str | None:
    """The best explanations by one setting, else by two."""
    steps = _changes(layout, options)
    singles = [(change,) for group in steps for change in group]
    pairs = [pair for one, other in combinations(steps, 2) for pair in product(one, other)]
    scored: list[tuple[Score, tuple[Change, ...]]] = []
    for step in (singles, pairs):
        for changes in step:
            other = _changed(layout, changes)
            if other.record == "sequential" or other.length == length:
                scored.append((scoring(other), changes))
        best = max((score for score, _ in scored), default=Score(0, 0))
        if best.decoded * 2 >= count:
            break
    if best.decoded:
        fits = [changes for score, changes in scored if score == best]
        return f"images of {length} bytes would fit {_said(fits)}"
    if layout.record == "fixed" and layout.length != length:
        long = [changes for _, changes in scored if _changed(layout, changes).record == "fixed"]
        if long:
            return f"by their length such images would fit {_said(long)}, but some values would not"
    return None


def _changed(layout: ImageLayout, changes: tuple[Change, ...]) -> ImageLayout:
    every: dict[str, Any] = {}
    for change in changes:
        every |= change.changed
    return replace(layout, **every)


def _said(fits: list[tuple[Change, ...]]) -> str:
    """The explanations in words."""
    found: dict[str, list[str]] = {}
    for changes in fits:
        text = " with ".join(change.text for change in changes)
        found.setdefault(text, []).append("".join(change.more for change in changes))
    texts = [text + (more[0] if len(more) == 1 else "") for text, more in found.items()]
    rest = ["..."] if len(texts) > _NAMED else []
    return ", or ".join([*texts[:_NAMED], *rest])


def _changes(layout: ImageLayout, options: Options) -> list[list[Change]]:
    """The other values of each setting that is tried."""
    groups = [list(_null_modes(layout, options))]
    if any(column.type in VARIABLE for column in layout.columns):
        groups.append(list(_lengths(layout, options)))
        if not layout.offsets:
            other = "sequential" if layout.record == "fixed" else "fixed"
            groups.append([Change(f'record = "{other}"', {"record": other})])
    return groups


def _null_modes(layout: ImageLayout, options: Options) -> Iterator[Change]:
    flags: tuple[int, ...] = (options.null_flag,) if options.null_flag else _FLAGS
    bits: tuple[str, ...] = (options.null_bits,) if options.null_bits else ("lsb", "msb")
    for mode in ("none", "byte_before", "byte_after", "bitmap_prefix", "bitmap_suffix"):
        said: dict[str, Any] = {"null_mode": mode}
        text = f'null_mode = "{mode}"'
        if mode == "byte_before" and 0 in layout.offsets:
            continue
        if mode == layout.null_mode:
            yield from _marks(layout)
        elif mode.startswith("byte"):
            for flag in flags:
                more = "" if options.null_flag else f", null_flag = {flag}"
                yield Change(text, said | {"null_flag": flag}, more)
        elif mode.startswith("bitmap"):
            for bit in bits:
                more = "" if options.null_bits else f', null_bits = "{bit}"'
                yield Change(text, said | {"null_bits": bit}, more)
        else:
            yield Change(text, said)


def _marks(layout: ImageLayout) -> Iterator[Change]:
    """Other marks of NULL in the same places."""
    if layout.flag:
        for flag in _FLAGS:
            if flag != layout.null_flag:
                yield Change(f"null_flag = {flag}", {"null_flag": flag})
    if layout.bitmap:
        other = "msb" if layout.null_bits == "lsb" else "lsb"
        yield Change(f'null_bits = "{other}"', {"null_bits": other})


def _lengths(layout: ImageLayout, options: Options) -> Iterator[Change]:
    """Columns of variable length, had their lengths been meant otherwise."""
    size, counted = layout.length_bytes, options.length_counted
    for more, wanted, word in ((-size, True, "shorter"), (size, False, "longer")):
        columns = _lengthened(layout.columns, more)
        if counted == wanted or any(c.length < 1 for c in columns if c.type in VARIABLE):
            continue
        text = f"VARCHAR, VARBYTE and NVARCHAR that are {size} bytes {word}"
        if counted is not None:
            text = f"length_counted = {str(wanted).lower()}"
        yield Change(text, {"columns": columns})


def _lengthened(columns: tuple[Column, ...], more: int) -> tuple[Column, ...]:
    return tuple(
        replace(column, length=column.length + (int(more / 2) if column.type in NATIONAL else more))
        if column.type in VARIABLE
        else column
        for column in columns
    )
