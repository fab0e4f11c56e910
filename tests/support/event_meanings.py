"""What each event type gives, as one would write it by hand: for tests that need elements of documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from publisher.xds.operations import InsertQueryBack, OperationKind, Part, add_attr, replace_attr


def update_attr(name: str, old: str | None, new: str | None) -> str:
    """``<modify-attr>`` that removes the old value and adds the new one."""
    if old is None and new is None:
        return ""
    remove = "" if old is None else f"<remove-value>{old}</remove-value>"
    add = "" if new is None else f"<add-value>{new}</add-value>"
    return f'<modify-attr attr-name="{name}">{remove}{add}</modify-attr>'


def no_attr(_name: str, _old: str | None, _new: str | None) -> str:
    """Deletes have no attributes."""
    return ""


class EventMeaning(NamedTuple):
    """The operation of an event type, and the function that renders an attribute."""

    operation: OperationKind
    part: Part


_ADD, _REPLACE = EventMeaning("add", add_attr), EventMeaning("modify", replace_attr)
_LOGGED = {
    1: _ADD,
    2: EventMeaning("modify", update_attr),
    3: _REPLACE,
    4: EventMeaning("delete", no_attr),
}
MEANINGS: Mapping[InsertQueryBack, Mapping[int, EventMeaning]] = {
    "modify": {**_LOGGED, 5: _REPLACE, 6: _REPLACE, 7: _REPLACE, 8: _REPLACE},
    "add": {**_LOGGED, 5: _ADD, 6: _REPLACE, 7: _ADD, 8: _REPLACE},
}
