"""Selectors of objects: keys and associations as people write them."""

from __future__ import annotations

from publisher.errors import UsageError
from publisher.model.change import Object
from publisher.model.keys import KeyProblem, canonical, format_key, integer_text, parse
from publisher.xds.association import association


def is_of_table(obj: Object | None, name: str) -> bool:
    """Returns whether the object's association ends with this table, and its schema if it has one."""
    return obj is not None and association(obj).endswith(f",table={name}")


def split_association(what: str) -> tuple[str, str]:
    """The key of an association and its table; the table of a key is empty."""
    key, separator, name = what.rpartition(",table=")
    return (key, name) if separator else (what, "")


def key_texts(key: str) -> frozenset[str]:
    """Returns the key as written, and its canonical forms with values as text and as numbers.

    Raises:
        UsageError: The text is not a key.
    """
    try:
        parts = parse(key)
        numbers = format_key(
            sorted((part.column, integer_text(part.value) or part.value) for part in parts)
        )
        return frozenset({key, canonical(parts), numbers})
    except KeyProblem as problem:
        raise UsageError(str(problem)) from problem
