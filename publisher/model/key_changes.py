"""Changes of keys: the object after a change, and the keys that one object has one after the other.

A change of type ``KEY_CHANGE`` has the old key in its object, and in ``columns``, ``old`` and ``new`` the key
columns that change, with canonical values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from publisher.model.change import Change, Object
from publisher.model.keys import format_key, parse

KeyTexts = Mapping[str, str]
"""The first key of the group of each key, in code-point order."""


def object_after(change: Change) -> Object:
    """Returns the object of a ``KEY_CHANGE`` under its new key."""
    assert change.new is not None
    values = {part.column: part.value for part in parse(change.object.key)}
    for column, value in zip(change.columns, change.new, strict=True):
        assert value is not None
        values[column] = value
    return change.object._replace(key=format_key(sorted(values.items())))


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
