"""Changes of keys: the object after a change, and the keys that one object has one after the other.

A change of type ``KEY_CHANGE`` has the old key in its object, and in ``columns``, ``old`` and ``new`` the key
columns that change, with canonical values.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from publisher.model.change import Change, Object
from publisher.model.keys import format_key, parse

KeyTexts = Mapping[str, str]
"""The first key of the group of each key, in code-point order."""

Place: TypeAlias = tuple[object, ...]
PlaceOf = Callable[[Change], Place]
"""The place of a change in the order in which its source is published."""


def place_by_id(change: Change) -> Place:
    """The place in an event log."""
    return change.position


def place_by_time(change: Change) -> Place:
    """The place in an event log whose events are ordered by time."""
    return change.event_time or 0, change.position


def place_by_rank(change: Change) -> Place:
    """The place in a source whose reader ranks the changes."""
    return change.position.part, change.rank, change.position.ordinal


def object_after(change: Change) -> Object:
    """Returns the object of a ``KEY_CHANGE`` under its new key."""
    assert change.new is not None
    values = {part.column: part.value for part in parse(change.object.key)}
    for column, value in zip(change.columns, change.new, strict=True):
        assert value is not None
        values[column] = value
    return change.object._replace(key=format_key(sorted(values.items())))


def join_columns(changes: Sequence[Change]) -> Change:
    """Joins changes of different columns of one key; the first one counts for the rest."""
    return changes[0]._replace(
        columns=tuple(name for change in changes for name in change.columns),
        old=tuple(value for change in changes for value in change.old or ()),
        new=tuple(value for change in changes for value in change.new or ()),
    )


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Keys that changes of keys connect.  All keys of a group have the lane of its first key, so that the
    changes of an object keep their order.
    """

    tables: Mapping[tuple[str | None, str], KeyTexts] = field(default_factory=dict)
    """The connected keys of each table, by schema and table."""

    @classmethod
    def of(cls, changes: Iterable[tuple[Object, str]]) -> KeyGroups:
        """Connects the keys of changes, each given as its old object and the new key."""
        tables: dict[tuple[str | None, str], dict[str, str]] = {}
        for (schema, table, old), new in changes:
            _join(tables.setdefault((schema, table), {}), old, new)
        return cls(
            {
                table: {key: _first(keys, key) for key in sorted(keys)}
                for table, keys in tables.items()
            }
        )

    def of_table(self, schema: str | None, table: str) -> KeyTexts:
        """The connected keys of a table; empty if no key of it changes."""
        return self.tables.get((schema, table), {})


def _join(parents: dict[str, str], one: str, other: str) -> None:
    first, second = sorted((_first(parents, one), _first(parents, other)))
    parents[first] = parents[second] = first


def _first(parents: dict[str, str], key: str) -> str:
    """Finds the first key of a group, and shortens the way to it."""
    first = key
    while (parent := parents.setdefault(first, first)) != first:
        first = parent
    while parents[key] != first:
        parents[key], key = first, parents[key]
    return first


class KeyHistory:
    """The changes of keys of some objects, in their order.

    An event log may have a record for each column of a compound key that an update changes.  Only a lane sees
    whether they are neighbours (``join_key_changes``); here all that may belong together are joined."""

    def __init__(self, changes: Iterable[Change] = (), place_of: PlaceOf = place_by_id) -> None:
        self._place_of = place_of
        self._changed: dict[Object, list[Change]] = {}
        self._taken: dict[Object, list[Place]] = {}
        for change in sorted(changes, key=place_of):
            self._changed.setdefault(change.object, []).append(change)
        for change in self._joined_changes():
            self._taken.setdefault(object_after(change), []).append(place_of(change))
        for places in self._taken.values():
            places.sort()

    @property
    def old_keys(self) -> Collection[Object]:
        """The objects under the keys that change."""
        return self._changed.keys()

    @property
    def new_keys(self) -> Collection[Object]:
        """The objects under the keys that they get."""
        return self._taken.keys()

    def groups(self) -> KeyGroups:
        """Groups the keys that one object may have."""
        return KeyGroups.of((c.object, object_after(c).key) for c in self._joined_changes())

    def changes_owner(self, obj: Object, after: Change, before: Change) -> bool:
        """Returns whether another object gets the key of ``obj`` between two changes."""
        places = self._taken.get(obj)
        if places is None:
            return False
        place = bisect_right(places, self._place_of(after))
        return place < len(places) and places[place] < self._place_of(before)

    def follow(self, obj: Object, after: Change) -> Object:
        """Returns an object under the key that it has in the end, after all changes that follow one."""
        place = self._place_of(after)
        while changed := self._next_records(obj, place):
            obj = object_after(join_columns(changed))
            place = self._place_of(changed[-1])
        return obj

    def _next_records(self, obj: Object, after: Place) -> Sequence[Change]:
        """Finds the records of the next change of a key."""
        changes = self._changed.get(obj, [])
        start = bisect_right(changes, after, key=self._place_of)
        end = start + sum(1 for _ in _joins(changes, start))
        while end > start + 1 and self.changes_owner(obj, changes[start], changes[end - 1]):
            end -= 1
        return changes[start:end]

    def _joined_changes(self) -> Iterator[Change]:
        for changes in self._changed.values():
            for start in range(len(changes)):
                yield from _joins(changes, start)


def _joins(changes: Sequence[Change], start: int) -> Iterator[Change]:
    """Yields a change, then joined with each following one that changes another column of the same key."""
    columns: set[str] = set()
    for end in range(start, len(changes)):
        if not columns.isdisjoint(changes[end].columns):
            return
        columns.update(changes[end].columns)
        yield join_columns(changes[start : end + 1])
