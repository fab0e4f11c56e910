"""Compares names of tables and columns, which may differ in case."""

from __future__ import annotations

from collections.abc import Collection


def find_name(name: str, names: Collection[str]) -> str | None:
    """Finds the exact name among ``names``, else the only one that differs in case."""
    if name in names:
        return name
    matches = [other for other in names if equal_in_any_case(other, name)]
    return matches[0] if len(matches) == 1 else None


def equal_in_any_case(name: str, other: str) -> bool:
    """Compares two names without regard to case."""
    return name.casefold() == other.casefold()
