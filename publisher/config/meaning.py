"""Settings as plain values that tell runs apart: only those that differ from their defaults."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum

_SPEED_ONLY = frozenset({"block_size", "before", "buckets", "samples"})
"""Settings that change no document; the content of ``before`` belongs to the input."""


def meaning_of(*parts: object) -> dict[str, object]:
    """Returns the settings that differ from their defaults, so that new settings rename no runs."""
    values: dict[str, object] = {}
    for part in parts:
        for option in fields(part):  # type: ignore[arg-type]
            value = getattr(part, option.name)
            if option.name not in _SPEED_ONLY and value != _default_of(option):
                values[option.name] = _without_defaults(value)
    return values


def _without_defaults(value: object) -> object:
    """A value of a setting; tables in it also without the values that equal their defaults."""
    if is_dataclass(value):
        return meaning_of(value)
    if isinstance(value, dict):
        return {name: _without_defaults(item) for name, item in value.items()}
    return [_without_defaults(item) for item in value] if isinstance(value, list | tuple) else value


def _default_of(option: Field[object]) -> object:
    if option.default_factory is not MISSING:
        return option.default_factory()
    return option.default  # MISSING, which equals no value, if the option has no default


def plain_value(value: object) -> object:
    """Converts a value that JSON does not know."""
    if isinstance(value, frozenset | set):
        return sorted(value)
    return value.value if isinstance(value, Enum) else str(value)
