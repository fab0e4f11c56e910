"""The effect of an attribute's element on the values of the attribute, and the element for an effect."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

_STEP = re.compile(r"<remove-all-values/>|<(remove|add)-value>(.*?)</\1-value>", re.DOTALL)
_VALUES = re.compile(r"<value .*?</value>", re.DOTALL)
"""Values never contain ``<``: their texts are escaped."""


class ValueEdits(NamedTuple):
    """The effect of one or more elements on the values of one attribute."""

    name: str
    """Escaped name of the attribute."""
    clears: bool
    """True if the values from before do not remain."""
    is_present: Mapping[str, bool]
    """Whether each named value element is present afterwards."""
    elements: tuple[str, ...]
    """The elements that were read."""

    def apply(self, before: Collection[str] | None) -> tuple[str, ...] | None:
        """Returns the sorted values afterwards; ``None`` means unknown values."""
        if before is None and not self.clears:
            return None
        remaining = () if self.clears else before or ()
        after = {value for value in remaining if self.is_present.get(value, True)}
        return tuple(sorted(after | {v for v, present in self.is_present.items() if present}))


def read_edits(elements: Iterable[str]) -> Iterator[ValueEdits]:
    """Reads the elements of the attributes of one operation, in the order of the attributes."""
    by_name: dict[str, list[str]] = {}
    for element in elements:
        opening = element[: element.index('">')]
        by_name.setdefault(opening[opening.index('"') + 1 :], []).append(element)
    for name, of_name in by_name.items():
        clears, is_present = False, dict[str, bool]()
        for element in of_name:
            if element.startswith("<add-attr"):
                is_present |= dict.fromkeys(_VALUES.findall(element), True)
                continue
            for step in _STEP.finditer(element):
                if step[1] is None:
                    clears, is_present = True, {}
                else:
                    is_present |= dict.fromkeys(_VALUES.findall(step[2]), step[1] == "add")
        yield ValueEdits(name, clears, is_present, tuple(of_name))


def replace_values(name: str, values: Collection[str]) -> str:
    """Renders ``<modify-attr>`` that removes all values and adds these."""
    add = f"<add-value>{''.join(values)}</add-value>" if values else ""
    return f'<modify-attr attr-name="{name}"><remove-all-values/>{add}</modify-attr>'


def change_values(name: str, before: Collection[str], after: Collection[str]) -> str:
    """Renders ``<modify-attr>`` that removes and adds only the values that differ; "" if none does."""
    removed, added = sorted({*before} - {*after}), sorted({*after} - {*before})
    if not removed and not added:
        return ""
    remove = f"<remove-value>{''.join(removed)}</remove-value>" if removed else ""
    add = f"<add-value>{''.join(added)}</add-value>" if added else ""
    return f'<modify-attr attr-name="{name}">{remove}{add}</modify-attr>'
