"""The searchable objects of a report as compact JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from publisher.console import shorten
from publisher.model.change import Outcome
from publisher.reports.object_histories import (
    AttributeDiff,
    HistoryDocument,
    HistoryEvent,
    ObjectHistory,
    read_diffs,
)

MAX_CHARACTERS = 3_000_000
"""Maximum number of characters of the JSON text."""
_VALUES = 50
"""Maximum number of values of an attribute in one document."""
_LONGEST = 200
"""Maximum number of characters of a value."""


@dataclass(frozen=True, slots=True)
class ObjectsText:
    """Objects as JSON text, and their number."""

    text: str
    shown: int


@dataclass(slots=True)
class _Names:
    """Numbers names in the order of their first use."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        return self.numbers.setdefault(_short(name), len(self.numbers))


class _Writer:
    """Collects objects until the text would become too long."""

    def __init__(self) -> None:
        self._runs, self._sources = _Names(), _Names()
        self._outcomes = [outcome.label for outcome in Outcome]
        self._documents: list[str] = []
        self._objects: list[str] = []
        self._size = 0

    def add(self, history: ObjectHistory) -> bool:
        """Adds an object; returns false, and adds nothing, if it does not fit."""
        documents: dict[int, int] = {}
        texts: list[str] = []
        events = []
        for event in history.events:
            number = None
            if event.document is not None:
                key = id(event.document)
                if key not in documents:
                    documents[key] = len(self._documents) + len(texts)
                    texts.append(_compact(_document(event.document)))
                number = documents[key]
            events.append(self._event(event, number))
        omitted = history.count - len(history.events)
        names = [_short(history.name), _short(history.object.qualified_table)]
        text = _compact([*names, events, omitted])
        size = len(text) + sum(map(len, texts)) + len(texts) + 1
        if self._size + size > MAX_CHARACTERS:
            return False
        self._size += size
        self._documents += texts
        self._objects.append(text)
        return True

    def text(self) -> ObjectsText:
        names = {
            "runs": list(self._runs.numbers),
            "sources": list(self._sources.numbers),
            "outcomes": self._outcomes,
        }
        text = (
            f'{_compact(names)[:-1]},"documents":[{",".join(self._documents)}],'
            f'"objects":[{",".join(self._objects)}]}}'
        )
        return ObjectsText(text, len(self._objects))

    def _event(self, event: HistoryEvent, document: int | None) -> list[Any]:
        return [
            self._runs.number(event.run),
            self._sources.number(event.source),
            _short(event.position),
            event.time,
            None if event.perpetrator is None else _short(event.perpetrator),
            event.event,
            list(map(_short, event.columns[:_VALUES])),
            self._outcomes.index(event.outcome),
            event.reason,
            shorten(event.meaning, 2 * _LONGEST),
            document,
        ]


def objects_text(histories: Sequence[ObjectHistory]) -> ObjectsText:
    """Writes objects with their histories as JSON, as many of the first ones as fit."""
    writer = _Writer()
    for history in histories:
        writer.add(history)
    return writer.text()


def _document(document: HistoryDocument) -> list[Any]:
    diffs = None if document.text is None else read_diffs(document.text)
    shown = None if diffs is None else list(map(_diff, diffs[:_VALUES]))
    return [document.operation, _short(document.event_id), shown]


def _diff(diff: AttributeDiff) -> list[Any]:
    return [
        _short(diff.attribute),
        _values(diff.removed),
        _values(diff.added),
        int(diff.removes_all),
    ]


def _values(values: Sequence[str]) -> list[str]:
    shown = list(map(_short, values[:_VALUES]))
    return shown if len(values) <= _VALUES else [*shown, f"… ({len(values):,} values)"]


def _short(text: str) -> str:
    return shorten(text, _LONGEST)


def _compact(value: Any) -> str:
    """JSON that is safe inside a script element: no markup can begin in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
