"""Advises on settings that rejected row images would fit.

No page documents the layout of images, so wrong settings are found by trial: one other setting at a time,
then two.  The search costs time only for rejected images: a few of each length, at most ``SEARCHES`` times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, NamedTuple

from publisher.sources.dispatch_queue.images.column_types import NATIONAL, VARIABLE, ImageColumn
from publisher.sources.dispatch_queue.images.layout import ImageLayout
from publisher.sources.dispatch_queue.options import DispatchQueueOptions

SAMPLE = 8
"""Number of images of one length to try."""
SEARCHES = 8
"""Maximum number of searches per table."""
_NAMED = 4
"""Maximum number of explanations in a message."""
_FLAGS = (1, 255)
"""NULL flags to try if none is known."""


class FitScore(NamedTuple):
    """A measure of how well images fit a layout; higher is better."""

    decoded: int
    """Images without a fault."""
    control: int
    """The number of texts with control characters, negated."""


Scoring = Callable[[ImageLayout], FitScore]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """Another value of a setting."""

    text: str
    attributes: dict[str, Any]
    """Attributes of the layout with other values."""
    more: str = ""
    """A second setting, mentioned only if not all of its values fit."""


class SettingsAdvisor:
    """Advice on the images of one table, remembered by their length."""

    def __init__(self) -> None:
        self._searches_left = SEARCHES
        self._advice: dict[int, str] = {}

    def advice(
        self,
        length: int,
        count: int,
        layout: ImageLayout,
        options: DispatchQueueOptions,
        scoring: Scoring,
    ) -> str | None:
        """Advises on images of a length, of which ``scoring`` tries ``count``; ``None`` if no setting fits.

        ``options`` are those of the table."""
        if length not in self._advice and not self._searches_left:
            others = next(iter(self._advice.values()), None)
            return others and f"others of the table are rejected, too, and {others}"
        if length not in self._advice:
            self._searches_left -= 1
            advice = search_settings(length, count, layout, options, scoring)
            if advice is None:  # other images of this length may fit
                return None
            self._advice[length] = advice
        return self._advice[length]


def search_settings(
    length: int, count: int, layout: ImageLayout, options: DispatchQueueOptions, scoring: Scoring
) -> str | None:
    """Finds the best explanations by one setting, or else by two."""
    steps = _changes(layout, options)
    singles = [(change,) for group in steps for change in group]
    pairs = [pair for one, other in combinations(steps, 2) for pair in product(one, other)]
    scored: list[tuple[FitScore, tuple[SettingChange, ...]]] = []
    for step in (singles, pairs):
        for changes in step:
            other = _apply(layout, changes)
            if other.record == "sequential" or other.length == length:
                scored.append((scoring(other), changes))
        best = max((score for score, _ in scored), default=FitScore(0, 0))
        if best.decoded * 2 >= count:
            break
    if best.decoded:
        fits = [changes for score, changes in scored if score == best]
        return f"images of {length} bytes would fit {_describe(fits)}"
    if layout.record == "fixed" and layout.length != length:
        long = [changes for _, changes in scored if _apply(layout, changes).record == "fixed"]
        if long:
            return f"by their length such images would fit {_describe(long)}, but some values would not"
    return None


def _apply(layout: ImageLayout, changes: tuple[SettingChange, ...]) -> ImageLayout:
    attributes: dict[str, Any] = {}
    for change in changes:
        attributes |= change.attributes
    return replace(layout, **attributes)


def _describe(fits: list[tuple[SettingChange, ...]]) -> str:
    """Describes explanations in words."""
    by_text: dict[str, list[str]] = {}
    for changes in fits:
        text = " with ".join(change.text for change in changes)
        by_text.setdefault(text, []).append("".join(change.more for change in changes))
    texts = [text + (more[0] if len(more) == 1 else "") for text, more in by_text.items()]
    rest = ["..."] if len(texts) > _NAMED else []
    return ", or ".join([*texts[:_NAMED], *rest])


def _changes(layout: ImageLayout, options: DispatchQueueOptions) -> list[list[SettingChange]]:
    """Other values to try, grouped by setting."""
    groups = [list(_null_modes(layout, options))]
    if any(column.type in VARIABLE for column in layout.columns):
        groups.append(list(_lengths(layout, options)))
        if not layout.offsets:
            other = "sequential" if layout.record == "fixed" else "fixed"
            groups.append([SettingChange(f'record = "{other}"', {"record": other})])
    return groups


def _null_modes(layout: ImageLayout, options: DispatchQueueOptions) -> Iterator[SettingChange]:
    flags: tuple[int, ...] = (options.null_flag,) if options.null_flag else _FLAGS
    bits: tuple[str, ...] = (options.null_bits,) if options.null_bits else ("lsb", "msb")
    for mode in ("none", "byte_before", "byte_after", "bitmap_prefix", "bitmap_suffix"):
        attributes: dict[str, Any] = {"null_mode": mode}
        text = f'null_mode = "{mode}"'
        if mode == "byte_before" and 0 in layout.offsets:
            continue
        if mode == layout.null_mode:
            yield from _marks(layout)
        elif mode.startswith("byte"):
            for flag in flags:
                more = "" if options.null_flag else f", null_flag = {flag}"
                yield SettingChange(text, attributes | {"null_flag": flag}, more)
        elif mode.startswith("bitmap"):
            for bit in bits:
                more = "" if options.null_bits else f', null_bits = "{bit}"'
                yield SettingChange(text, attributes | {"null_bits": bit}, more)
        else:
            yield SettingChange(text, attributes)


def _marks(layout: ImageLayout) -> Iterator[SettingChange]:
    """Other values that mark NULL in the same places."""
    if layout.flag:
        for flag in _FLAGS:
            if flag != layout.null_flag:
                yield SettingChange(f"null_flag = {flag}", {"null_flag": flag})
    if layout.bitmap:
        other = "msb" if layout.null_bits == "lsb" else "lsb"
        yield SettingChange(f'null_bits = "{other}"', {"null_bits": other})


def _lengths(layout: ImageLayout, options: DispatchQueueOptions) -> Iterator[SettingChange]:
    """Columns of variable length with the other meaning of their lengths."""
    size, counted = layout.length_bytes, options.length_counted
    for more, wanted, word in ((-size, True, "shorter"), (size, False, "longer")):
        columns = _change_lengths(layout.columns, more)
        if counted == wanted or any(c.length < 1 for c in columns if c.type in VARIABLE):
            continue
        text = f"VARCHAR, VARBYTE and NVARCHAR that are {size} bytes {word}"
        if counted is not None:
            text = f"length_counted = {str(wanted).lower()}"
        yield SettingChange(text, {"columns": columns})


def _change_lengths(columns: tuple[ImageColumn, ...], more: int) -> tuple[ImageColumn, ...]:
    return tuple(
        replace(column, length=column.length + (int(more / 2) if column.type in NATIONAL else more))
        if column.type in VARIABLE
        else column
        for column in columns
    )
