"""The effect of an attribute's element on the values of the attribute, and the element for an effect."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

REMOVE_ALL = "<remove-all-values/>"
_STEP = re.compile(rf"{REMOVE_ALL}|<(remove|add)-value>(.*?)</\1-value>", re.DOTALL)
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
        added = [value for value, present in self.is_present.items() if present]
        if self.clears:
            return tuple(sorted(added))
        if before is None:
            return None
        return tuple(sorted({*added, *(v for v in before if self.is_present.get(v, True))}))


def attribute_name(element: str) -> str:
    """The escaped name of the attribute of an element."""
    return element[element.index('"') + 1 : element.index('">')]


def read_edits(elements: Iterable[str]) -> Iterator[ValueEdits]:
    """Reads the elements of the attributes of one operation, in the order of the attributes."""
    by_name: dict[str, list[str]] = {}
    for element in elements:
        by_name.setdefault(attribute_name(element), []).append(element)
    for name, of_name in by_name.items():
        clears, is_present = False, dict[str, bool]()
        for element in of_name:
            if element.startswith("<add-attr"):
                is_present |= dict.fromkeys(find_values(element), True)
                continue
            for step in _STEP.finditer(element):
                if step[1] is None:
                    clears, is_present = True, {}
                else:
                    is_present |= dict.fromkeys(find_values(step[2]), step[1] == "add")
        yield ValueEdits(name, clears, is_present, tuple(of_name))


def find_values(text: str) -> list[str]:
    """The value elements in a text."""
    return _VALUES.findall(text)


def change_values(name: str, before: Collection[str] | None, after: Collection[str]) -> str:
    """Renders ``<modify-attr>`` that removes and adds only the values that differ; "" if none does.

    Without ``before``, the values are unknown: all are removed."""
    removed = sorted({*before} - {*after}) if before else []
    added = sorted({*after} - {*before}) if before else sorted({*after})
    if before is not None and not removed and not added:
        return ""
    remove = f"<remove-value>{''.join(removed)}</remove-value>" if removed else ""
    add = f"<add-value>{''.join(added)}</add-value>" if added else ""
    clear = REMOVE_ALL if before is None else ""
    return f'<modify-attr attr-name="{name}">{clear}{remove}{add}</modify-attr>'
