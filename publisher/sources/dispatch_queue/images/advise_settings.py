"""Advises on settings that rejected row images would fit.

No page documents the layout of images, so the advisor tries other values: of one setting at a time, then of
two.  Only rejected images cost time: a few of each length, in at most ``SEARCHES`` searches per table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, NamedTuple

from publisher.sources.dispatch_queue.images.column_types import NATIONAL, VARIABLE, ImageColumn
from publisher.sources.dispatch_queue.images.layout import ImageLayout
from publisher.sources.dispatch_queue.options import DispatchQueueOptions, QueueTable

SAMPLE = 8
"""Number of images of one length to try."""
SEARCHES = 8
"""Maximum number of searches per table."""
_NAMED = 4
"""Maximum number of explanations in a message."""
_FLAGS = (1, 255)
"""NULL flags to try if none is known."""
_REMEMBERED = 32
"""Number of searches to remember."""
_REMEMBERED_BYTES = 1 << 16
"""Maximum bytes of the images of a remembered search."""


class ImageSample(NamedTuple):
    """Rejected images of one length, one after the other, of a table."""

    data: bytes
    length: int
    images: int
    table: QueueTable


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
    """Changed attributes of the layout."""
    detail: str = ""
    """Text with a second setting, shown only if not all of its values fit."""


class RecentSearches:
    """The latest searches of this process and their advice.

    Retries, replays and reads for another purpose find the same rejected images again, and a search takes
    longer than reading a small file.
    """

    def __init__(self) -> None:
        self._searches: deque[tuple[ImageSample, ImageLayout, DispatchQueueOptions, str | None]]
        self._searches = deque(maxlen=_REMEMBERED)

    def search(
        self,
        sample: ImageSample,
        layout: ImageLayout,
        options: DispatchQueueOptions,
        scoring: Scoring,
    ) -> str | None:
        """As ``search_settings``."""
        for known in self._searches:
            if known[:3] == (sample, layout, options):
                return known[3]
        advice = search_settings(sample.length, sample.images, layout, options, scoring)
        if len(sample.data) <= _REMEMBERED_BYTES:
            self._searches.append((sample, layout, options, advice))
        return advice


_RECENT = RecentSearches()


class SettingsAdvisor:
    """Advises on the images of one table, and remembers the advice by their length."""

    def __init__(self) -> None:
        self._searches_left = SEARCHES
        self._advice: dict[int, str] = {}

    def advice(
        self,
        sample: ImageSample,
        layout: ImageLayout,
        options: DispatchQueueOptions,
        scoring: Scoring,
    ) -> str | None:
        """Advises on images of one length; ``None`` if no setting fits.

        ``scoring`` tries the images of the sample; ``options`` are the options of the table."""
        length = sample.length
        if length not in self._advice and not self._searches_left:
            earlier = next(iter(self._advice.values()), None)
            return earlier and f"other images of the table are rejected, too, and {earlier}"
        if length not in self._advice:
            self._searches_left -= 1
            advice = _RECENT.search(sample, layout, options, scoring)
            if advice is None:  # other images of this length may fit
                return None
            self._advice[length] = advice
        return self._advice[length]


def search_settings(
    length: int, count: int, layout: ImageLayout, options: DispatchQueueOptions, scoring: Scoring
) -> str | None:
    """Finds the changes of one setting, or else of two, that most images fit, and describes them."""
    steps = _changes(layout, options)
    singles = [(change,) for group in steps for change in group]
    pairs = [pair for groups in combinations(steps, 2) for pair in product(*groups)]
    scored: list[tuple[FitScore, tuple[SettingChange, ...]]] = []
    for step in (singles, pairs):
        for changes in step:
            changed = _apply(layout, changes)
            if changed.record == "sequential" or changed.length == length:
                scored.append((scoring(changed), changes))
        best = max((score for score, _ in scored), default=FitScore(0, 0))
        if best.decoded * 2 >= count:
            break
    if best.decoded:
        best_changes = [changes for score, changes in scored if score == best]
        return f"images of {length} bytes would fit {_describe(best_changes)}"
    if layout.record == "fixed" and layout.length != length:
        of_length = [changes for _, changes in scored if _apply(layout, changes).record == "fixed"]
        if of_length:
            return (
                f"images of {length} bytes would have the right length with {_describe(of_length)},"
                " but some values would be invalid"
            )
    return None


def _apply(layout: ImageLayout, changes: tuple[SettingChange, ...]) -> ImageLayout:
    attributes: dict[str, Any] = {}
    for change in changes:
        attributes |= change.attributes
    return replace(layout, **attributes)


def _describe(alternatives: list[tuple[SettingChange, ...]]) -> str:
    """Describes alternative changes in words."""
    by_text: dict[str, list[str]] = {}
    for changes in alternatives:
        text = " with ".join(change.text for change in changes)
        by_text.setdefault(text, []).append("".join(change.detail for change in changes))
    texts = [text + (details[0] if len(details) == 1 else "") for text, details in by_text.items()]
    ellipsis = ["..."] if len(texts) > _NAMED else []
    return ", or ".join([*texts[:_NAMED], *ellipsis])


def _changes(layout: ImageLayout, options: DispatchQueueOptions) -> list[list[SettingChange]]:
    """Lists other values to try, grouped by setting."""
    groups = [list(_null_modes(layout, options))]
    if any(column.type in VARIABLE for column in layout.columns):
        groups.append(list(_lengths(layout, options)))
        if not layout.offsets:
            record = "sequential" if layout.record == "fixed" else "fixed"
            groups.append([SettingChange(f'record = "{record}"', {"record": record})])
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
                detail = "" if options.null_flag else f", null_flag = {flag}"
                yield SettingChange(text, attributes | {"null_flag": flag}, detail)
        elif mode.startswith("bitmap"):
            for bit in bits:
                detail = "" if options.null_bits else f', null_bits = "{bit}"'
                yield SettingChange(text, attributes | {"null_bits": bit}, detail)
        else:
            yield SettingChange(text, attributes)


def _marks(layout: ImageLayout) -> Iterator[SettingChange]:
    """Yields other values that mark NULL in the same places."""
    if layout.flag:
        for flag in _FLAGS:
            if flag != layout.null_flag:
                yield SettingChange(f"null_flag = {flag}", {"null_flag": flag})
    if layout.bitmap:
        bits = "msb" if layout.null_bits == "lsb" else "lsb"
        yield SettingChange(f'null_bits = "{bits}"', {"null_bits": bits})


def _lengths(layout: ImageLayout, options: DispatchQueueOptions) -> Iterator[SettingChange]:
    """Yields columns of variable length with the other value of ``length_counted``."""
    size, counted = layout.length_bytes, options.length_counted
    for difference, value, word in ((-size, True, "shorter"), (size, False, "longer")):
        columns = _change_lengths(layout.columns, difference)
        if counted == value or any(c.length < 1 for c in columns if c.type in VARIABLE):
            continue
        text = f"VARCHAR, VARBYTE and NVARCHAR that are {size} bytes {word}"
        if counted is not None:
            text = f"length_counted = {str(value).lower()}"
        yield SettingChange(text, {"columns": columns})


def _change_lengths(columns: tuple[ImageColumn, ...], size: int) -> tuple[ImageColumn, ...]:
    """Adds ``size`` bytes, which may be negative, to the columns of variable length."""
    return tuple(
        replace(column, length=column.length + (int(size / 2) if column.type in NATIONAL else size))
        if column.type in VARIABLE
        else column
        for column in columns
    )
